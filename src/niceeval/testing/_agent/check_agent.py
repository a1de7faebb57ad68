"""`check_agent`: drive an agent through its contract, and report check by check."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from niceeval._base.errors import AdapterError, AuthorError
from niceeval._base.guest import GRACE, GuestHost
from niceeval._base.threads import DaemonThreads
from niceeval._base.watchdog import LoopWatch
from niceeval._model.agent import Agent
from niceeval._model.json_types import JsonValue
from niceeval.testing._agent.asking_checks import ASKING_CHECKS
from niceeval.testing._agent.call_checks import CALL_CHECKS
from niceeval.testing._agent.check import Answer, Check, not_checked
from niceeval.testing._agent.drives import NAME, Conditions
from niceeval.testing._agent.evidence import Evidence
from niceeval.testing._agent.probes import Probes
from niceeval.testing._agent.report import Finding, Report
from niceeval.testing._agent.running_checks import RUNNING_CHECKS
from niceeval.testing._agent.scenarios import Scenarios
from niceeval.testing._agent.session_checks import SESSION_CHECKS
from niceeval.testing._agent.turn_checks import TURN_CHECKS, coverage_declared

_LAST_WAIT = 0.2
CHECKS = (*TURN_CHECKS, *CALL_CHECKS, *SESSION_CHECKS, *ASKING_CHECKS, *RUNNING_CHECKS)


async def check_agent(
    agent: Agent | Callable[[], Agent],
    probes: Probes | None = None,
    *,
    model: str | None = None,
    reasoning_effort: str | None = None,
    flags: Mapping[str, JsonValue] | None = None,
    parallel: int = 4,
    timeout: float = 120.0,
    grace: float = GRACE,
) -> Report:
    """Drive the agent as a run does, a scenario an attempt, and judge what came: about 40 sends with every probe.

    `agent` may be a function that makes it, called on the running loop. `probes` say what makes this agent show a
    behaviour; what they leave out is reported as not checked. `model`, `reasoning_effort` and `flags` are what an
    experiment would give. `parallel` sends go out at the same time; `timeout` is for one scenario and `grace` for what
    was cancelled, in seconds.

    Whatever the agent does is a finding; nothing of it is raised. Raises AdapterError: `coverage-missing`,
    `coverage-invalid`, `agent-invalid` from the function that makes the agent, `sandbox-not-set` for one that needs a
    sandbox. Raises AuthorError (`bad-argument`) where `parallel` is less than 2.
    """
    if parallel < 2:
        problem = f"is {parallel}"
        raise AuthorError("bad-argument", call=NAME, argument="parallel", problem=problem, fix="give 2 or more")
    made = agent if isinstance(agent, Agent) else agent()
    if made.kind == "sandbox":
        raise AdapterError("sandbox-not-set", agent=made.name)
    evidence = Evidence(agent=made, probes=probes or Probes())
    watch = LoopWatch(evidence.blocks.append, evidence.blocks.append)
    conditions = Conditions(
        agent=made,
        host=GuestHost(DaemonThreads(max(8, 2 * parallel)), watch, grace),
        model=model,
        reasoning_effort=reasoning_effort,
        flags=flags or {},
        timeout=timeout,
    )
    declared = coverage_declared.judge(evidence)
    if declared.outcome != "passed":
        later = not_checked("the evidence coverage cannot be read", f"repair {coverage_declared.id} first")
        return _report(evidence, [declared, *[later] * (len(CHECKS) - 1)])
    watch.start()
    try:
        await Scenarios(evidence=evidence, conditions=conditions, parallel=parallel).run()
    finally:
        watch.stop()
    return _report(evidence, [check.judge(evidence) for check in CHECKS])


def check_agent_sync(
    agent: Agent | Callable[[], Agent],
    probes: Probes | None = None,
    *,
    model: str | None = None,
    reasoning_effort: str | None = None,
    flags: Mapping[str, JsonValue] | None = None,
    parallel: int = 4,
    timeout: float = 120.0,
    grace: float = GRACE,
) -> Report:
    """`check_agent` on an event loop of its own, for a plain test or a script; a send that never ends cannot hold it.

    Raises as `check_agent`, and RuntimeError where an event loop is running already.
    """
    _require_no_loop()
    loop = asyncio.new_event_loop()
    checking = check_agent(
        agent,
        probes,
        model=model,
        reasoning_effort=reasoning_effort,
        flags=flags,
        parallel=parallel,
        timeout=timeout,
        grace=grace,
    )
    try:
        return loop.run_until_complete(checking)
    finally:
        _end(loop)


def _require_no_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("an event loop is running: write `await check_agent(...)`")


def _report(evidence: Evidence, answers: Sequence[Answer]) -> Report:
    findings = tuple(_finding(check, answer) for check, answer in zip(CHECKS, answers, strict=True))
    return Report(agent=evidence.agent.name, findings=findings, events=evidence.events())


def _finding(check: Check, answer: Answer) -> Finding:
    return Finding(
        check=check.id,
        says=check.says,
        outcome=answer.outcome,
        seen=answer.seen,
        next=answer.next,
        refs=answer.refs,
    )


def _end(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what the agent has left behind and give it a moment; `asyncio.run` would wait for it for ever."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=_LAST_WAIT))
    for task in left:
        # What is still pending was reported as a finding.
        task._log_destroy_pending = task.done()  # type: ignore[attr-defined]
    if all(task.done() for task in left):
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
