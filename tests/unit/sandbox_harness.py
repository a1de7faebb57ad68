"""One eval function against a scripted sandbox agent in a local sandbox, through the real attempt, in process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from niceeval import EvalContext
from niceeval._base.errors import Place
from niceeval._base.guest import GuestHost
from niceeval._base.threads import DaemonThreads
from niceeval._discover.specs import ConfigSpec, EvalSpec, ExperimentSpec
from niceeval._judging.desk import JudgeDesk
from niceeval._plan.plan import AttemptPlan, RunPlan
from niceeval._record.writer import SealedAttempt
from niceeval._run.attempt import RunningAttempt
from niceeval._run.limits import DEFAULT_LIMITS
from niceeval._run.sandboxes import Sandboxes
from niceeval._run.seal import Sources, seal, verdict_of
from niceeval.adapter import SandboxAgentContext, Turn, TurnInput, complete_evidence_coverage, define_sandbox_agent
from niceeval.sandbox import DiffRules, local_sandbox
from tests.unit.drive_harness import turn


async def runs_it(input: TurnInput, ctx: SandboxAgentContext) -> Turn:
    """An agent that runs what it is sent as a shell script."""
    ran = await ctx.sandbox.run_shell(input.text)
    return turn(status="completed" if ran.exit_code == 0 else "failed")


Send = Callable[[TurnInput, SandboxAgentContext], Awaitable[Turn]]


def run_in_sandbox(
    function: Callable[[EvalContext], Awaitable[None]],
    send: Send = runs_it,
    *,
    root: Path | None = None,
    rules: DiffRules | None = None,
) -> SealedAttempt:
    """The function as one attempt in a sandbox of its own, sealed."""
    return asyncio.run(_run(function, send, root, rules or DiffRules()))


async def _run(
    function: Callable[[EvalContext], Awaitable[None]], send: Send, root: Path | None, rules: DiffRules
) -> SealedAttempt:
    file = Path(function.__code__.co_filename)
    root = root or file.parent
    agent = define_sandbox_agent(name="scripted", evidence_coverage=complete_evidence_coverage, send=send)
    experiment = ExperimentSpec(
        id="local",
        path="experiments/local.py",
        place=Place("experiments/local.py", 1, 1),
        agent=agent,
        sandbox=local_sandbox(),
    )
    spec = EvalSpec(
        id="case",
        base="case",
        function=function,
        file=file,
        path=file.relative_to(root).as_posix(),
        line=1,
        column=1,
        diff=rules,
    )
    attempt = AttemptPlan(index=0, eval=spec, experiment=experiment, attempt=0, timeout=300.0)
    plan = RunPlan(
        root=root,
        config=ConfigSpec(),
        attempts=(attempt,),
        experiments=(experiment,),
        concurrency=1,
        strict=False,
        title="test",
    )
    host = GuestHost(DaemonThreads(4))
    sandboxes = Sandboxes(
        [experiment], [attempt], run="test", host=host, limits=DEFAULT_LIMITS, emit=_quiet, waiting=lambda _: 0
    )
    try:
        assert await sandboxes.open(experiment) is None
        running = RunningAttempt(attempt, plan, host, "case", _silent, DEFAULT_LIMITS, sandboxes, desk=JudgeDesk())
        finished = await running.run()
    finally:
        await sandboxes.close()
    return seal(
        finished,
        plan=plan,
        verdict=verdict_of(finished, strict=False),
        artifacts_dir="case",
        early_exited=False,
        sources=Sources(root),
    )


def _quiet(_: object) -> None:
    return None


def _silent(*_: object, **__: object) -> None:
    return None
