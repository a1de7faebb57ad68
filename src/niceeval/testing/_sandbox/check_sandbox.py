"""`check_sandbox`: try a sandbox against its contract, and report check by check."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeAlias

from niceeval._base.errors import AuthorError, NiceevalError
from niceeval._model.sandbox import Sandbox, SandboxRequest, SandboxSpec
from niceeval._sandbox.labels import labels_of
from niceeval._sandbox.opening import open_spec
from niceeval.testing._agent.report import Finding, Outcome, Report
from niceeval.testing._sandbox.check import FEATURES, Bench, Broken, Feature, SandboxCheck
from niceeval.testing._sandbox.command_checks import COMMAND_CHECKS
from niceeval.testing._sandbox.ending_checks import ENDING_CHECKS
from niceeval.testing._sandbox.file_checks import FILE_CHECKS
from niceeval.testing._sandbox.output_checks import OUTPUT_CHECKS
from niceeval.testing._sandbox.transfer_checks import TRANSFER_CHECKS

NAME = "check_sandbox"
CHECKS: tuple[SandboxCheck, ...] = (
    *FILE_CHECKS,
    *COMMAND_CHECKS,
    *OUTPUT_CHECKS,
    *TRANSFER_CHECKS,
    *ENDING_CHECKS,
)
LIFETIME = 3600.0
"""Seconds after which anybody may remove a sandbox that the kit made."""
STOP_LIMIT = 120.0
"""Seconds that stopping a sandbox may take."""

Factory: TypeAlias = SandboxSpec | Callable[[], Awaitable[Sandbox]]


async def check_sandbox(
    factory: Factory,
    *,
    lacks: Mapping[str, str] | None = None,
    only: tuple[str, ...] = (),
    parallel: int = 4,
    timeout: float = 120.0,
) -> Report:
    """Try a sandbox against the contract of `Sandbox`: about 120 checks, most of them in one sandbox.

    `factory` is a spec, such as `docker_sandbox(...)`, or an async function that gives a new sandbox each time.
    `lacks` says what the backend cannot do, and why: `{"root": "the service has no root"}`; such checks are reported as
    not checked. What can be lacking: `root`, `non_root` (all commands run as root), `bash`, `symlinks`, `modes`,
    `owners`, `background` (nothing outlives its command), `cleared_environment` (what clears its environment is not
    found at a limit), `end_processes`. `only` names checks, where not all are wanted. `parallel` checks run at the same
    time, in folders of their own; `timeout` is for one, in seconds.

    The sandbox needs `sh` and the usual programs (`cat`, `find`, `ls`, `head`, `tr`, `setsid`, ...). Whatever it does
    is a finding; nothing of it is raised, except that none can be made at all. Raises AuthorError (`bad-argument`).
    """
    lacking = dict(lacks or {})
    _require_known("lacks", lacking, FEATURES)
    _require_known("only", only, tuple(item.id for item in CHECKS))
    if parallel < 1:
        raise AuthorError(
            "bad-argument", call=NAME, argument="parallel", problem=f"is {parallel}", fix="give 1 or more"
        )
    chosen = [item for item in CHECKS if not only or item.id in only]
    async with AsyncExitStack() as stack:
        make, name = await _making(factory, stack)
        sandbox = await make()
        stack.push_async_callback(_stop, sandbox)
        host = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="niceeval-check-"))
        stack.callback(shutil.rmtree, host, ignore_errors=True)
        trial = _Trial(make, sandbox, host, lacking, timeout)
        findings = await trial.all(chosen, parallel)
    return Report(agent=name or sandbox.sandbox_id, findings=findings, events={}, kind="sandbox")


def check_sandbox_sync(
    factory: Factory,
    *,
    lacks: Mapping[str, str] | None = None,
    only: tuple[str, ...] = (),
    parallel: int = 4,
    timeout: float = 120.0,
) -> Report:
    """`check_sandbox` on an event loop of its own, for a plain test or a script.

    Raises as `check_sandbox`, and RuntimeError where an event loop is running already.
    """
    return asyncio.run(check_sandbox(factory, lacks=lacks, only=only, parallel=parallel, timeout=timeout))


class _Trial:
    """One run over the checks, with one sandbox that most of them share."""

    def __init__(
        self,
        make: Callable[[], Awaitable[Sandbox]],
        sandbox: Sandbox,
        host: Path,
        lacks: Mapping[str, str],
        timeout: float,
    ) -> None:
        self._make = make
        self._sandbox = sandbox
        self._host = host
        self._lacks = lacks
        self._timeout = timeout

    async def all(self, checks: list[SandboxCheck], parallel: int) -> tuple[Finding, ...]:
        """The findings, in the order of the checks; those that stand alone run one by one, after the others."""
        found: dict[str, Finding] = {}
        gate = asyncio.Semaphore(parallel)

        async def one(item: SandboxCheck) -> None:
            async with gate:
                found[item.id] = await self._one(item)

        await asyncio.gather(*(one(item) for item in checks if not item.alone))
        for item in checks:
            if item.alone:
                await one(item)
        return tuple(found[item.id] for item in checks)

    async def _one(self, item: SandboxCheck) -> Finding:
        why = self._why_not(item)
        if why is not None:
            return _finding(item, "not checked", why)
        folder = f"kit/{item.id}"
        host = self._host / item.id
        host.mkdir()
        async with AsyncExitStack() as stack:

            async def fresh() -> Sandbox:
                sandbox = await self._make()
                stack.push_async_callback(_stop, sandbox)
                return sandbox

            bench = Bench(sandbox=self._sandbox, folder=folder, host=host, fresh=fresh)
            return await self._judged(item, bench)

    async def _judged(self, item: SandboxCheck, bench: Bench) -> Finding:
        try:
            async with asyncio.timeout(self._timeout):
                # Absolute: a sandbox that starts commands elsewhere must not make folders there.
                folder = f"{bench.sandbox.workdir}/{bench.folder}"
                result = await bench.sandbox.run_command("mkdir", ["-p", folder], timeout=self._timeout)
                if result.exit_code != 0:
                    raise Broken(f"`mkdir -p {folder}` ended with {result.exit_code}: {result.stderr[:200]!r}")
                await item.judge(bench)
        except Broken as broken:
            return _finding(item, "failed", str(broken))
        except TimeoutError:
            return _finding(item, "failed", f"it was not over after {self._timeout:g} s")
        except NiceevalError as error:
            return _finding(item, "failed", f"{error.code}: {error}")
        except Exception as error:  # noqa: BLE001 - whatever a backend raises is a finding
            return _finding(item, "failed", f"{type(error).__name__}: {error}")
        return _finding(item, "passed", "")

    def _why_not(self, item: SandboxCheck) -> str | None:
        lacking = [f"it lacks {feature}: {self._lacks[feature]}" for feature in item.needs if feature in self._lacks]
        if lacking:
            return "; ".join(lacking)
        if item.without is not None and item.without not in self._lacks:
            return f"it has {item.without}"
        return None


def _finding(item: SandboxCheck, outcome: Outcome, seen: str) -> Finding:
    return Finding(
        check=item.id, says=item.says, outcome=outcome, seen=seen, next=item.next if outcome == "failed" else ""
    )


async def _making(factory: Factory, stack: AsyncExitStack) -> tuple[Callable[[], Awaitable[Sandbox]], str]:
    if not isinstance(factory, SandboxSpec):
        return factory, ""
    backend = await open_spec(factory)
    stack.push_async_callback(backend.close)

    async def make() -> Sandbox:
        labels = labels_of(run=NAME, lifetime=LIFETIME)
        return await backend.create(SandboxRequest(labels=labels, lifetime=LIFETIME))

    return make, factory.shown


async def _stop(sandbox: Sandbox) -> None:
    """End a sandbox of the kit's own; one that cannot be ended fails the checks of `stop`, not the whole kit."""
    try:
        async with asyncio.timeout(STOP_LIMIT):
            await sandbox.stop()
    except Exception:  # noqa: BLE001 - `stop-twice` and its like tell it
        return


def _require_known(argument: str, given: Mapping[str, str] | tuple[str, ...], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            problem, fix = f"names {name!r}, which there is not", f"use one of: {', '.join(known)}"
            raise AuthorError("bad-argument", call=NAME, argument=argument, problem=problem, fix=fix)


__all__ = ["CHECKS", "Factory", "Feature", "check_sandbox", "check_sandbox_sync"]
