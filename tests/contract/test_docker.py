"""Containers of a real engine: the whole contract, and what is Docker's own."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from niceeval._sandbox.labels import labels_of
from niceeval.backends.docker import open_backend, open_standing
from niceeval.sandbox import (
    CommandResult,
    Mount,
    Sandbox,
    SandboxBackend,
    SandboxError,
    SandboxGoneError,
    SandboxRequest,
    SandboxUnavailableError,
    docker_sandbox,
)
from niceeval.testing import check_sandbox_sync
from tests.docker_engine import ask, engine_address, image_for_tests, podman_service, why_no_image, why_no_podman

pytestmark = pytest.mark.slow
docker = pytest.mark.skipif(why_no_image() is not None, reason=str(why_no_image()))
python = pytest.mark.skipif(why_no_image("tiny-py") is not None, reason=str(why_no_image("tiny-py")))
podman = pytest.mark.skipif(why_no_podman() is not None, reason=str(why_no_podman()))

LIMIT = 600.0
"""Seconds that anything may take on the slowest machine."""
PODMAN = (
    *("workdir-own", "private-mode", "write-mode-kept", "write-owner", "write-below-file"),
    *("read-missing", "read-link", "exists-link", "argv-exact", "start-missing", "start-refused", "start-codes"),
    *("cwd-missing", "exit-signal", "env-over", "stdin-none", "stdin-large", "user-root", "output-apart"),
    *("output-held", "upload-names", "upload-links", "upload-owner", "download-tree", "download-names", "round-trip"),
    *("timeout-double-fork", "timeout-bare", "timeout-others", "cancel-deaf", "end-processes", "stop-gone"),
)
"""The checks of the kit in which Podman could differ."""
HOSTILE = """
trap '' TERM
(setsid sh -c 'trap "" TERM; while :; do sleep 1; done' &)
(setsid env -i sh -c 'while :; do /bin/sleep 1; done' &)
env -i sh -c '(while :; do /bin/sleep 1; done) & /bin/sleep 400' &
sh -c 'trap "" TERM HUP; sleep 400 & sleep 400' &
while :; do sleep 1; done
"""
"""A tree that wants to live: double forks, sessions of its own, ignored signals, cleared environments."""


@asynccontextmanager
async def backend_of(**options: Any) -> AsyncIterator[SandboxBackend]:
    options.setdefault("network", "none")
    if "dockerfile" not in options:
        options.setdefault("image", image_for_tests("tiny"))
    backend = await open_backend(docker_sandbox(**options))
    try:
        yield backend
    finally:
        await backend.close()


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[Sandbox]:
    async with backend_of(**options) as backend:
        sandbox = await backend.create(SandboxRequest(labels=labels_of(run="test", lifetime=1800), lifetime=1800))
        try:
            yield sandbox
        finally:
            await sandbox.stop()


def run(body: Any) -> None:
    async def limited() -> None:
        async with asyncio.timeout(LIMIT):
            await body()

    asyncio.run(limited())


async def text_of(sandbox: Sandbox, script: str, **options: Any) -> str:
    result: CommandResult = await sandbox.run_shell(script, **options)
    assert result.exit_code == 0, result
    return result.stdout.strip()


@docker
def test_it_keeps_the_contract() -> None:
    """Every check of the kit passes, with a user that is not root and one that is."""
    report = check_sandbox_sync(docker_sandbox(image=image_for_tests("tiny"), network="none"))
    report.raise_for_failures()
    assert len(report.passed) >= 120


@podman
def test_podman_keeps_the_contract(tmp_path: Path) -> None:
    """Podman's service is an engine like Docker's: commands, output, files and endings behave the same."""
    with podman_service(tmp_path) as address:
        spec = docker_sandbox(image=image_for_tests("tiny", address), host=address, network="none")
        report = check_sandbox_sync(spec, only=PODMAN)
    report.raise_for_failures()
    assert {finding.check for finding in report.passed} == set(PODMAN)


@docker
def test_limits_and_rights_are_those_that_were_said() -> None:
    """Memory, processes and processors are bounded; there are no capabilities, and none can be had."""

    async def body() -> None:
        async with opened(memory="64m", pids=30, cpus=0.5) as sandbox:
            status = await text_of(sandbox, "cat /proc/self/status")
            fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
            assert {fields[name].strip() for name in ("CapEff", "CapBnd", "CapPrm")} == {"0" * 16}
            assert fields["NoNewPrivs"].strip() == "1"
            # Bash would try again for a while.
            many = await sandbox.run_command("sh", ["-c", "for i in $(seq 40); do sleep 5 & done; wait"])
            assert "fork" in many.stderr
            greedy = await sandbox.run_shell("x=a; while :; do x=$x$x$x; done")
            assert greedy.oom_killed
            assert greedy.exit_code != 0
            killed = await sandbox.run_shell("kill -9 $$")
            assert (killed.exit_code, killed.oom_killed) == (137, False)

        async with opened(capabilities=["CHOWN"]) as sandbox:
            assert await text_of(sandbox, "touch f; chown 7:7 f; stat -c %u f", root=True, cwd="/") == "7"

    run(body)


@docker
def test_a_hostile_tree_is_dead_after_its_limit_and_after_a_cancellation() -> None:
    """Nothing of it is left when the call returns; what another command left running lives on."""

    async def processes(sandbox: Sandbox) -> set[str]:
        found = await text_of(sandbox, "for d in /proc/[0-9]*; do tr '\\0' ' ' < $d/cmdline; echo; done 2>/dev/null")
        return {line.strip() for line in found.splitlines() if "sleep" in line and "for d in" not in line}

    async def body() -> None:
        async with opened() as sandbox:
            await sandbox.run_shell("sleep 777 > /dev/null 2>&1 &")
            before = await processes(sandbox)
            assert "sleep 777" in before
            result = await sandbox.run_shell(HOSTILE, timeout=1.5)
            assert (result.timed_out, result.exit_code) == (True, 124)
            assert await processes(sandbox) == before

            started = asyncio.Event()
            call = asyncio.create_task(
                sandbox.run_shell("echo on\n" + HOSTILE, on_stdout=lambda _: started.set()),
            )
            await started.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert await processes(sandbox) == before

    run(body)


FORGED = {
    "a marker that was never given out": "export NICEEVAL_EXEC=x",
    "the marker of process 1": "export NICEEVAL_EXEC=init",
    "what begins like a command of niceeval's own": "export NICEEVAL_EXEC=own-1",
    "no value": "export NICEEVAL_EXEC=",
    "the marker of an earlier command": "export NICEEVAL_EXEC=$(cat earlier)",
    "the marker of one that left something running": "export NICEEVAL_EXEC=$(cat left)",
}
"""What a command says it is, so that its processes are taken for others'."""


@docker
def test_a_process_that_carries_a_forged_marker_dies_with_its_command() -> None:
    """Only another command that runs spares a process: what was made up or belongs to the past does not."""
    beat = "while :; do echo >> {0}; sleep 0.1; done"

    async def body() -> None:
        async with opened() as sandbox:
            await sandbox.run_shell("touch tick0 tick1 other; echo $NICEEVAL_EXEC > earlier")
            server = beat.format("server")
            await sandbox.run_shell(f"echo $NICEEVAL_EXEC > left; touch server; sh -c '{server}' > /dev/null 2>&1 &")
            other = asyncio.create_task(sandbox.run_shell(beat.format("other")))
            for what, forge in FORGED.items():
                loops = [f"setsid sh -c '{beat.format(name)}' > /dev/null 2>&1 &" for name in ("tick0", "tick1")]
                script = f"{loops[0]} {forge}; {loops[1]} exec sh -c 'while :; do sleep 1; done'"
                result = await sandbox.run_shell(script, timeout=1.0)
                assert (result.timed_out, result.exit_code) == (True, 124), what
                lines = "wc -l < tick0; wc -l < tick1; wc -l < server; wc -l < other"
                first = [int(number) for number in (await text_of(sandbox, lines)).split()]
                assert min(first) > 0, what
                later = first
                for _ in range(int(LIMIT)):
                    await asyncio.sleep(0.5)
                    later = [int(number) for number in (await text_of(sandbox, lines)).split()]
                    if later[2] > first[2] and later[3] > first[3]:
                        break
                assert later[:2] == first[:2], what
                assert later[2] > first[2], f"{what}: what an earlier command had left running has died"
                assert later[3] > first[3], f"{what}: another command has died"
            other.cancel()
            with pytest.raises(asyncio.CancelledError):
                await other

    run(body)


@docker
def test_thirty_commands_run_at_the_same_time() -> None:
    """Each gets its own output and its own end."""

    async def body() -> None:
        async with opened() as sandbox:
            results = await asyncio.gather(
                *(sandbox.run_shell(f"echo {number}; echo e{number} >&2; exit {number}") for number in range(30))
            )
            found = [(result.stdout.strip(), result.stderr.strip(), result.exit_code) for result in results]
            assert found == [(str(number), f"e{number}", number) for number in range(30)]

    run(body)


@contextmanager
def server() -> Iterator[int]:
    """A server of this machine that its containers reach, for as long as the test takes."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"here")

        def log_message(self, format: str, *args: Any) -> None:
            return

    httpd = http.server.ThreadingHTTPServer(("0.0.0.0", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    try:
        yield httpd.server_port
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


FETCH = """
exec 3<> /dev/tcp/host.docker.internal/{port} || exit 9
printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3
cat <&3
"""


def of_engine(path: str) -> Any:
    return json.loads(ask(engine_address(), "GET", path)[1])


@docker
def test_networks_reach_what_they_say() -> None:
    """`bridge` and `internal` reach a server on this machine by one name; `internal` nothing else, `none` nothing."""

    async def body() -> None:
        with server() as port:
            for network in ("bridge", "internal"):
                async with opened(network=network) as sandbox:
                    assert "here" in await text_of(sandbox, FETCH.format(port=port))
                    name = next(
                        iter(of_engine(f"/containers/{sandbox.sandbox_id}/json")["NetworkSettings"]["Networks"])
                    )
                    assert of_engine(f"/networks/{name}")["Internal"] == (network == "internal")
                if network == "internal":
                    # With the last container, its network has gone.
                    assert of_engine(f"/networks/{name}") == {"message": f"network {name} not found"}
            async with opened(network="none") as sandbox:
                result = await sandbox.run_shell(FETCH.format(port=port))
                assert result.exit_code == 9
                assert (await text_of(sandbox, "ls /sys/class/net")).split() == ["lo"]
        with pytest.raises(SandboxError, match=r"no network 'nothing-of-that-name'"):
            async with opened(network="nothing-of-that-name"):
                pass

    run(body)


@docker
def test_mounts_and_certificates_are_there_and_cannot_be_changed(tmp_path: Path) -> None:
    """A mount is read-only; an extra bundle is mounted, and the variables that programs read name it."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data/file").write_text("given")
    (tmp_path / "ca.pem").write_text("a bundle")
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.chmod(path, 0o755)

    async def body() -> None:
        mounts = [Mount(source=str(tmp_path / "data"), target="/data")]
        async with opened(mounts=mounts, ca_bundle=tmp_path / "ca.pem", env={"GREETING": "hi"}) as sandbox:
            assert await sandbox.read_file("/data/file") == "given"
            assert (await sandbox.run_shell("echo x > /data/file", root=True)).exit_code != 0
            found = await text_of(sandbox, 'cat "$SSL_CERT_FILE" "$NODE_EXTRA_CA_CERTS"; echo $GREETING')
            assert found == "a bundlea bundlehi"
        assert (tmp_path / "data/file").read_text() == "given"
        with pytest.raises(SandboxError, match="not-there is not there"):
            async with opened(mounts=[Mount(source=str(tmp_path / "not-there"), target="/data")]):
                pass

    run(body)


@docker
def test_a_dockerfile_is_built_and_what_it_was_built_from_is_recorded(tmp_path: Path) -> None:
    """The context is the file's folder without what is ignored; a failing step is named."""
    (tmp_path / "greeting").write_text("hello")
    (tmp_path / "secret").write_text("no")
    (tmp_path / ".dockerignore").write_text("secret\n")
    dockerfile = tmp_path / "Dockerfile"
    base = image_for_tests("tiny")
    dockerfile.write_text(f"FROM {base}\nARG WHO\nCOPY . /made\nRUN echo $WHO > /made/who\nWORKDIR /srv/work\n")

    async def body() -> None:
        options = {"dockerfile": dockerfile, "build_args": {"WHO": "me"}, "workdir": "/srv/work"}
        async with backend_of(**options) as backend:
            context = backend.description["context"]
        async with opened(**options) as sandbox:
            assert (
                await text_of(sandbox, "ls /made; cat /made/greeting /made/who") == "Dockerfile\ngreeting\nwho\nhellome"
            )
            assert await text_of(sandbox, "pwd; touch mine; stat -c %u . mine") == "/srv/work\n1000\n1000"
        (tmp_path / "secret").write_text("changed")
        async with backend_of(**options) as backend:
            assert backend.description["context"] == context
        dockerfile.write_text(f"FROM {base}\nRUN echo about to fail && exit 3\n")
        with pytest.raises(SandboxError, match=r"cannot be built.*exit 3"):
            async with backend_of(dockerfile=dockerfile):
                pass

    run(body)


@docker
def test_an_image_is_known_by_its_digest_or_missed_with_advice() -> None:
    """The digest is recorded; one that is not there and is not to be pulled is an error that says so."""

    async def body() -> None:
        async with backend_of(pull="never") as backend:
            assert str(backend.description["digest"]).startswith("sha256:")
            assert str(backend.description["engine"]).startswith(("docker ", "podman "))
        with pytest.raises(SandboxError, match="niceeval-missing:1 is not there") as caught:
            async with backend_of(image="niceeval-missing:1", pull="never"):
                pass
        assert "docker pull" in str(caught.value.fields["fix"])
        with pytest.raises(SandboxError, match=r"127\.0\.0\.1:9/niceeval-missing:1 cannot be pulled"):
            async with backend_of(image="127.0.0.1:9/niceeval-missing:1"):
                pass

    run(body)


@docker
def test_standing_containers_are_found_and_removed_by_anybody() -> None:
    """What a run left is listed with its labels; who still holds it learns that it is gone."""

    async def body() -> None:
        async with opened() as sandbox:
            looking = await open_standing({})
            found = {standing.sandbox_id: standing for standing in await looking.standing()}
            assert found[sandbox.sandbox_id].labels["niceeval.run"] == "test"
            assert found[sandbox.sandbox_id].created_at is not None
            waiting = asyncio.create_task(sandbox.run_command("sleep", ["300"]))
            await sandbox.run_command("true")
            await looking.remove(sandbox.sandbox_id)
            await looking.remove(sandbox.sandbox_id)
            with pytest.raises(SandboxGoneError):
                await waiting
            for call in (sandbox.run_command("true"), sandbox.file_exists("x"), sandbox.write_files({"x": "y"})):
                with pytest.raises(SandboxGoneError, match="its container was removed"):
                    await call
            assert sandbox.sandbox_id not in {standing.sandbox_id for standing in await looking.standing()}
            await looking.close()

    run(body)


@docker
def test_a_cancelled_creation_leaves_nothing_behind() -> None:
    """Whenever it is cancelled."""

    async def body() -> None:
        async with backend_of() as backend:
            cancelled = 0
            for pause in (0.0, 0.01, 0.05, 0.15, 0.4):
                label = f"cancelled-{os.getpid()}-{pause}"
                request = SandboxRequest(labels=labels_of(run=label, lifetime=600), lifetime=600)
                creating = asyncio.create_task(backend.create(request))
                await asyncio.sleep(pause)
                creating.cancel()
                try:
                    await (await creating).stop()
                except asyncio.CancelledError:
                    cancelled += 1
                assert label not in {found.labels.get("niceeval.run") for found in await backend.standing()}
            assert cancelled

    run(body)


@docker
def test_the_engines_own_init_may_be_process_1() -> None:
    """Commands, limits and end_processes work with it too."""

    async def body() -> None:
        async with opened(init=True) as sandbox:
            assert (await sandbox.run_shell(HOSTILE, timeout=1)).timed_out
            await sandbox.write_files({"kept": "yes"})
            await sandbox.run_shell("sleep 888 > /dev/null 2>&1 &")
            await sandbox.end_processes()
            assert await text_of(sandbox, "ps | grep -c '[s]leep 888'; cat kept") == "0\nyes"

    run(body)


def test_an_engine_that_is_not_there_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address without an engine, and something else than an engine at one."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")

    async def body() -> None:
        with pytest.raises(SandboxUnavailableError, match=r"none\.sock") as caught:
            await open_backend(docker_sandbox(image="x"))
        assert "DOCKER_HOST" in str(caught.value.fields["fix"])
        with server() as port, pytest.raises(SandboxUnavailableError, match="is no engine"):
            await open_backend(docker_sandbox(image="x", host=f"tcp://127.0.0.1:{port}"))

    run(body)
