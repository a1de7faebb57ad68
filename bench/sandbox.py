"""What a container costs through niceeval, beside the engine's own API called directly, in one run.

    python bench/sandbox.py            more rounds
    python bench/sandbox.py --quick    a minute

Needs an engine (`scripts/docker-engine.sh`). Figures are medians in milliseconds, both sides in turn, so that a busy
machine slows both; the ratio is what niceeval adds.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from niceeval._sandbox.workspace import Workspace
from niceeval.backends.docker import open_backend
from niceeval.sandbox import Sandbox, SandboxBackend, SandboxRequest, docker_sandbox
from tests.docker_engine import ask, engine_address, image_for_tests, why_no_image

REQUEST = SandboxRequest(labels={"niceeval.run": "bench"}, lifetime=1800)
FILES = 1000
ATTEMPTS = 50
AT_ONCE = 10


def raw(method: str, path: str, body: Any = None) -> Any:
    """One call of the API, as a script would make it. Exits where the engine refuses."""
    status, data = ask(engine_address(), method, path, body)
    if status >= 400:
        sys.exit(f"{method} {path}: {status} {data[:300]!r}")
    return json.loads(data) if data[:1] in (b"{", b"[") else None


def raw_create(image: str) -> str:
    host = {
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "Memory": 2 << 30,
        "MemorySwap": 2 << 30,
        "NanoCpus": 2_000_000_000,
        "PidsLimit": 512,
        "NetworkMode": "none",
    }
    made = raw("POST", "/containers/create", {"Image": image, "Cmd": ["sleep", "1800"], "HostConfig": host})
    return str(made["Id"])


def raw_life(image: str) -> None:
    """Create, start and remove a container."""
    container = raw_create(image)
    raw("POST", f"/containers/{container}/start")
    raw("DELETE", f"/containers/{container}?force=1&v=1")


def raw_exec(container: str) -> None:
    """Run `true` in a container, to its exit code."""
    made = raw("POST", f"/containers/{container}/exec", {"Cmd": ["true"], "AttachStdout": True, "AttachStderr": True})
    raw("POST", f"/exec/{made['Id']}/start", {"Detach": False})
    raw("GET", f"/exec/{made['Id']}/json")


async def life(backend: SandboxBackend) -> None:
    """The same through niceeval."""
    await (await backend.create(REQUEST)).stop()


async def timed(rounds: int, ours: Callable[[], Awaitable[Any]], theirs: Callable[[], Any]) -> tuple[float, float]:
    """Medians of both, in seconds, taken in turn."""
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        began = time.perf_counter()
        await ours()
        between = time.perf_counter()
        await asyncio.to_thread(theirs)
        found[0].append(between - began)
        found[1].append(time.perf_counter() - between)
    return statistics.median(found[0]), statistics.median(found[1])


def show(what: str, seconds: float, beside: float | None = None) -> None:
    ratio = "" if beside is None else f"{beside * 1000:12.0f} ms{seconds / beside:8.2f}x"
    print(f"{what:<44}{seconds * 1000:10.0f} ms{ratio}")


async def measure(quick: bool) -> None:
    image = image_for_tests("tiny")
    backend = await open_backend(docker_sandbox(image=image, network="none", pull="never"))
    rounds = 8 if quick else 40
    print(f"{backend.description['engine']}\n{'':<44}{'niceeval':>13}{'raw API':>15}{'ratio':>9}")
    show("create + start + remove", *await timed(rounds, lambda: life(backend), lambda: raw_life(image)))
    sandbox = await backend.create(REQUEST)
    try:
        await measure_one(sandbox, rounds, image)
    finally:
        await sandbox.stop()
    await measure_many(backend, 20 if quick else ATTEMPTS)
    await backend.close()


def fill(folder: Path) -> None:
    """Write small files into a folder's folders."""
    for number in range(FILES):
        place = folder / f"d{number % 20}" / f"file{number}.txt"
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"{number}\n" * 400)


async def measure_one(sandbox: Sandbox, rounds: int, image: str) -> None:
    container = raw_create(image)
    raw("POST", f"/containers/{container}/start")
    try:
        both = await timed(rounds * 3, lambda: sandbox.run_command("true"), lambda: raw_exec(container))
        show("a command (`true`)", *both)
    finally:
        raw("DELETE", f"/containers/{container}?force=1&v=1")
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder))
        began = time.perf_counter()
        await sandbox.upload_directory(folder)
        show(f"upload of {FILES:,} files", time.perf_counter() - began)
    workspace = Workspace(sandbox)
    began = time.perf_counter()
    await workspace.prepare()
    show("ledger: baseline of these", time.perf_counter() - began)
    began = time.perf_counter()
    await workspace.before_send()
    await workspace.after_send()
    show("ledger: both trees of a send", time.perf_counter() - began)


async def measure_many(backend: SandboxBackend, attempts: int) -> None:
    limit = asyncio.Semaphore(AT_ONCE)

    async def attempt() -> None:
        async with limit:
            sandbox = await backend.create(REQUEST)
            try:
                await sandbox.write_files({"task.md": "do it"})
                await sandbox.run_command("cat", ["task.md"])
            finally:
                await sandbox.stop()

    began = time.perf_counter()
    await asyncio.gather(*(attempt() for _ in range(attempts)))
    show(f"{attempts} attempts, {AT_ONCE} at once: each", (time.perf_counter() - began) / attempts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    arguments = parser.parse_args()
    if (problem := why_no_image()) is not None:
        print(f"sandbox: not measured: {problem}")
        return
    try:
        asyncio.run(measure(arguments.quick))
    except (OSError, http.client.HTTPException) as error:
        sys.exit(f"the engine went away: {error}")


if __name__ == "__main__":
    main()
