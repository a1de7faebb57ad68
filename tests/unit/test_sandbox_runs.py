"""An attempt in a sandbox, in whole runs: what is made, handed on, kept and ended, and what goes wrong on the way."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from niceeval import EvalContext
from niceeval._model.run_events import ExperimentFailed, LiveEvent, RunNotice
from niceeval._run.limits import Limits
from niceeval._run.outside import RunHandle
from niceeval.adapter import (
    Agent,
    Message,
    SandboxAgentContext,
    Turn,
    TurnInput,
    complete_evidence_coverage,
    define_sandbox_agent,
)
from niceeval.sandbox import SandboxError, SandboxSpec, SandboxUnavailableError
from tests.unit.run_harness import RanPlan, an_experiment, plan_of, run_plan_of
from tests.unit.sandbox_fakes import World

QUICK = Limits(
    grace=0.5,
    teardown=1.0,
    sandbox_open=20.0,
    sandbox_create=20.0,
    sandbox_stop=1.0,
    sandbox_reset=20.0,
    sandbox_diff=20.0,
)


async def works(input: TurnInput, ctx: SandboxAgentContext) -> Turn:
    """Writes one file."""
    result = await ctx.sandbox.run_shell("echo done >> out.txt; wc -l < out.txt")
    return Turn(events=[Message(role="assistant", text=result.stdout.strip())])


def boxed(send: Any = works, **hooks: Any) -> Agent:
    """A sandbox agent."""
    return define_sandbox_agent(
        name="boxed", evidence_coverage=complete_evidence_coverage, send=send, version="1", **hooks
    )


def ran(
    tmp_path: Path,
    spec: SandboxSpec,
    *,
    agent: Agent | None = None,
    runs: int = 1,
    evals: Any = None,
    concurrency: int = 4,
    timeout: float = 60.0,
    limits: Limits = QUICK,
    keep: Any = None,
    on_event: Any = lambda event, handle: None,
    **fields: Any,
) -> RanPlan:
    """A run of one experiment in this sandbox."""
    experiment = an_experiment(agent or boxed(), sandbox=spec, runs=runs, **fields)
    plan = plan_of(tmp_path, [experiment], evals, concurrency=concurrency, timeout=timeout)
    return run_plan_of(tmp_path, plan, limits=limits, keep=keep, on_event=on_event)


def notices(done: RanPlan, code: str) -> list[str]:
    """The run's notices with a code."""
    return [event.message for event in done.all(RunNotice) if event.code == code]


def test_every_attempt_has_a_fresh_sandbox_that_is_ended(tmp_path: Path) -> None:
    """Setup, send and teardown see the same sandbox; the result says which; its phases are timed; none is left."""
    world = World(tmp_path / "boxes")
    seen: list[tuple[str, str]] = []

    async def hook(ctx: SandboxAgentContext, name: str) -> None:
        seen.append((name, ctx.sandbox.sandbox_id))

    async def send(input: TurnInput, ctx: SandboxAgentContext) -> Turn:
        seen.append(("send", ctx.sandbox.sandbox_id))
        return await works(input, ctx)

    async def setup(ctx: SandboxAgentContext) -> None:
        await hook(ctx, "setup")

    async def teardown(ctx: SandboxAgentContext) -> None:
        await hook(ctx, "teardown")

    done = ran(tmp_path, world.spec(), agent=boxed(send, setup=setup, teardown=teardown), runs=2, concurrency=1)
    assert [result.outcome for result in done.results] == ["passed", "passed"]
    assert seen == [(name, id) for id in world.made for name in ("setup", "send", "teardown")]
    assert [result.sandbox.id for result in done.results if result.sandbox] == world.made == ["fake-0", "fake-1"]
    assert not world.standing
    phases = done.results[0].phases
    assert phases is not None
    assert {"sandbox", "setup", "eval", "teardown"} <= set(phases)
    labels = world.runtimes[0]
    assert labels["niceeval"] == "1"
    assert labels["niceeval.attempt"] == "one#1"
    assert labels["niceeval.experiment"] == "local"
    assert int(labels["niceeval.expires"]) > int(labels["niceeval.created"])
    assert "niceeval.kept" not in labels


async def _raises(number: int) -> None:
    raise SandboxError("sandbox-failed", backend="fake", problem="no space left on device", fix="free some")


async def _raises_foreign(number: int) -> None:
    raise OSError("engine fell over")


async def _hangs(number: int) -> None:
    await asyncio.sleep(600)


async def _hangs_for_good(number: int) -> None:
    # Longer than any limit here; the loop's end waits for it.
    until = asyncio.get_running_loop().time() + 3.0
    while (left := until - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        (_raises, "sandbox-failed", "no space left on device"),
        (_raises_foreign, "sandbox-failed", "OSError: engine fell over"),
        (_hangs, "timeout", "0.3s passed in sandbox"),
        (_hangs_for_good, "timeout", "ignored the cancellation and was abandoned"),
    ],
)
def test_a_sandbox_that_cannot_be_made_is_its_attempts_fault(tmp_path: Path, fault: Any, code: str, words: str) -> None:
    """Errored in phase sandbox, with the limit; no hook of the agent runs; what comes late is ended."""
    world = World(tmp_path / "boxes", before_create=fault)
    hooks: list[str] = []

    async def teardown(ctx: SandboxAgentContext) -> None:
        hooks.append("teardown")

    limits = Limits(grace=0.3, sandbox_create=0.3, sandbox_stop=1.0)
    done = ran(tmp_path, world.spec(), agent=boxed(teardown=teardown), limits=limits)
    (result,) = done.results
    assert result.error_info is not None
    assert (result.error_info.code, result.error_info.phase) == (code, "sandbox")
    assert words in result.error_info.message
    assert result.sandbox is None
    assert hooks == []
    assert not world.standing


def test_a_sandbox_that_comes_after_its_attempt_gave_up_is_ended(tmp_path: Path) -> None:
    """A backend that swallows the cancellation and makes one all the same."""
    world = World(tmp_path / "boxes")

    async def late(number: int) -> None:
        if number == 0:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                await asyncio.sleep(0.05)

    world.before_create = late
    done = ran(tmp_path, world.spec(), runs=2, concurrency=1, limits=Limits(grace=5.0, sandbox_create=0.3))
    assert [result.outcome for result in done.results] == ["errored", "passed"]
    assert world.made == ["fake-0", "fake-1"]
    assert not world.standing


def test_what_is_unavailable_stops_the_experiment(tmp_path: Path) -> None:
    """A backend that says it is not there dooms the experiment's other attempts."""

    async def unavailable(number: int) -> None:
        raise SandboxUnavailableError("sandbox-unavailable", backend="fake", problem="no engine", fix="start it")

    world = World(tmp_path / "boxes", before_create=unavailable)
    done = ran(tmp_path, world.spec(), runs=3, concurrency=1)
    assert done.finished.errored == 1
    assert done.finished.not_started == 2


def test_a_backend_that_cannot_be_opened_keeps_its_experiment_from_running(tmp_path: Path) -> None:
    """The error is said at the experiment, the other experiment runs, and the run is not passed."""
    world = World(tmp_path / "boxes")
    absent = SandboxSpec(
        name="nowhere", backend="niceeval_no_such_backend", options={}, shown="nowhere", recommended_concurrency=1
    )
    experiments = [
        an_experiment(boxed(), id="bad", sandbox=absent, runs=2),
        an_experiment(boxed(), id="good", sandbox=world.spec()),
    ]
    done = run_plan_of(tmp_path, plan_of(tmp_path, experiments), limits=QUICK)
    (failed,) = done.all(ExperimentFailed)
    assert failed.experiment_id == "bad"
    assert failed.error.code == "sandbox-unavailable"
    assert failed.error.place is not None
    assert failed.not_started == 2
    assert [result.experiment_id for result in done.results] == ["good"]
    assert done.finished.exit_code == 1


@pytest.mark.parametrize("where", ["setup", "send", "eval"])
def test_a_sandbox_that_vanishes_is_named_with_the_phase(tmp_path: Path, where: str) -> None:
    """Removed by somebody while it was used: `sandbox-gone`, in the phase that met it."""
    world = World(tmp_path / "boxes")

    async def vanish(ctx: SandboxAgentContext) -> None:
        world.standing.clear()
        await ctx.sandbox.run_command("true")

    async def setup(ctx: SandboxAgentContext) -> None:
        if where == "setup":
            await vanish(ctx)

    async def send(input: TurnInput, ctx: SandboxAgentContext) -> Turn:
        if where == "send":
            await vanish(ctx)
        return Turn()

    async def checks(t: EvalContext) -> None:
        await t.send("go")
        world.standing.clear()
        await t.sandbox.run_command("true")

    done = ran(tmp_path, world.spec(), agent=boxed(send, setup=setup), evals={"one": checks})
    (result,) = done.results
    assert result.error_info is not None
    assert (result.error_info.code, result.error_info.phase) == ("sandbox-gone", where)


@pytest.mark.slow
def test_a_timeout_names_its_phase_and_leaves_nothing(tmp_path: Path) -> None:
    """An agent that hangs in setup, with a command under way."""
    world = World(tmp_path / "boxes")

    async def setup(ctx: SandboxAgentContext) -> None:
        await ctx.sandbox.run_command("sleep", ["600"])

    done = ran(tmp_path, world.spec(), agent=boxed(setup=setup), timeout=6.0)
    (result,) = done.results
    assert result.error_info is not None
    assert (result.error_info.code, result.error_info.phase) == ("timeout", "setup")
    assert "6s passed in setup" in result.error_info.message
    assert not world.standing


def test_an_abandoned_agent_loses_its_sandbox(tmp_path: Path) -> None:
    """A send that ignores its cancellation: the sandbox is ended, and never handed on."""
    world = World(tmp_path / "boxes")
    released = asyncio.Event()

    async def send(input: TurnInput, ctx: SandboxAgentContext) -> Turn:
        if ctx.attempt == 1:
            released.set()
            return await works(input, ctx)
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await released.wait()
        return Turn()

    experiment = an_experiment(boxed(send), sandbox=world.spec(), runs=2, reuse_sandboxes=True)
    plan = plan_of(tmp_path, [experiment], concurrency=1, timeout=60.0)
    first, second = plan.attempts
    plan = replace(plan, attempts=(replace(first, timeout=2.0), second))
    done = run_plan_of(tmp_path, plan, limits=QUICK)
    assert [result.outcome for result in done.results] == ["errored", "passed"]
    assert world.made == ["fake-0", "fake-1"]
    assert world.events.count("end_processes fake-0") == 0
    assert not world.standing


def test_a_sandbox_that_does_not_stop_is_reported_and_holds_nothing_up(tmp_path: Path) -> None:
    """The result and the run say that it may still stand; the attempt's outcome is what it was."""
    world = World(tmp_path / "boxes")

    async def never(id: str) -> None:
        await _hangs_for_good(0)

    world.before_stop = never
    done = ran(tmp_path, world.spec(), limits=Limits(grace=0.2, sandbox_stop=0.2))
    (result,) = done.results
    assert result.outcome == "passed"
    assert [one.code for one in result.diagnostics] == ["sandbox-left"]
    (said,) = notices(done, "sandbox-left")
    assert "fake-0" in said
    assert "stop took longer than 0.2s" in said


def test_a_reused_sandbox_is_as_it_was_and_is_marked(tmp_path: Path) -> None:
    """Its processes are ended and its workdir is reset; the results say so; it is ended with the experiment."""
    world = World(tmp_path / "boxes")
    lines: list[str] = []

    async def counts(t: EvalContext) -> None:
        turn = await t.send("go")
        lines.append(turn.message)

    done = ran(tmp_path, world.spec(), runs=3, concurrency=1, evals={"one": counts}, reuse_sandboxes=True)
    assert [result.outcome for result in done.results] == ["passed"] * 3
    assert lines == ["1", "1", "1"]
    assert world.made == ["fake-0"]
    assert [result.sandbox.reused for result in done.results if result.sandbox] == [False, True, True]
    assert world.events == ["end_processes fake-0", "end_processes fake-0", "stop fake-0"]
    assert not world.standing


def test_a_sandbox_that_cannot_be_made_ready_again_is_ended(tmp_path: Path) -> None:
    """In doubt a fresh one is made."""
    world = World(tmp_path / "boxes", end_fails=True)
    done = ran(tmp_path, world.spec(), runs=2, concurrency=1, reuse_sandboxes=True)
    assert [result.sandbox.reused for result in done.results if result.sandbox] == [False, False]
    assert world.made == ["fake-0", "fake-1"]
    assert not world.standing


def test_what_an_agent_leaves_behind_cannot_reach_the_next_attempt(tmp_path: Path) -> None:
    """A context that outlives its attempt refuses, though its sandbox is handed on."""
    world = World(tmp_path / "boxes")
    contexts: list[SandboxAgentContext] = []
    refused: list[str] = []

    async def send(input: TurnInput, ctx: SandboxAgentContext) -> Turn:
        for old in contexts:
            with pytest.raises(SandboxError) as error:
                await old.sandbox.run_command("true")
            refused.append(error.value.code)
        with pytest.raises(SandboxError):
            await ctx.sandbox.stop()
        contexts.append(ctx)
        return Turn()

    done = ran(tmp_path, world.spec(), agent=boxed(send), runs=2, concurrency=1, reuse_sandboxes=True)
    assert [result.outcome for result in done.results] == ["passed", "passed"]
    assert refused == ["sandbox-gone"]


@pytest.mark.parametrize(("runs", "pool"), [(5, 2), (1, 4), (2, 2)])
def test_sandboxes_are_started_ahead_and_never_more_than_needed(tmp_path: Path, runs: int, pool: int) -> None:
    """Each attempt has its own, none is made that nobody needs, and none is left."""
    world = World(tmp_path / "boxes")
    done = ran(tmp_path, world.spec(warm_pool=pool), runs=runs, concurrency=1)
    assert [result.outcome for result in done.results] == ["passed"] * runs
    assert len(world.made) == runs
    assert len({result.sandbox.id for result in done.results if result.sandbox}) == runs
    assert world.most <= pool + 1
    assert not world.standing


def test_a_pool_that_cannot_be_filled_costs_no_attempt(tmp_path: Path) -> None:
    """Starting ahead fails; the attempt makes one itself."""
    world = World(tmp_path / "boxes")

    async def first_fails(number: int) -> None:
        if not world.events:
            world.events.append("failed once")
            raise OSError("not yet")

    world.before_create = first_fails
    done = ran(tmp_path, world.spec(warm_pool=1), runs=2, concurrency=1)
    assert [result.outcome for result in done.results] == ["passed", "passed"]
    assert not world.standing


@pytest.mark.parametrize("phase", ["create", "setup", "send", "stop"])
def test_an_interrupt_leaves_no_sandbox(tmp_path: Path, phase: str) -> None:
    """Ctrl-C in the middle of each, with a pool: all that was made is ended."""
    world = World(tmp_path / "boxes")
    handle_of: list[RunHandle] = []

    def on_event(event: LiveEvent, handle: RunHandle) -> None:
        if not handle_of:
            handle_of.append(handle)

    async def interrupt(*given: Any) -> None:
        handle_of[0].interrupt()
        await asyncio.sleep(0.05)

    async def setup(ctx: SandboxAgentContext) -> None:
        if phase == "setup":
            await interrupt()

    async def send(input: TurnInput, ctx: SandboxAgentContext) -> Turn:
        if phase == "send":
            await interrupt()
        return Turn()

    if phase == "create":
        world.before_create = interrupt
    elif phase == "stop":
        world.before_stop = interrupt
    done = ran(
        tmp_path,
        world.spec(warm_pool=2),
        agent=boxed(send, setup=setup),
        runs=6,
        concurrency=2,
        on_event=on_event,
    )
    assert done.finished.status == "interrupted"
    assert done.accounted
    assert not world.standing


@pytest.mark.parametrize(("keep", "kept"), [("failed", ["bad"]), ("all", ["bad", "good"]), (None, [])])
def test_sandboxes_are_kept_as_asked(tmp_path: Path, keep: Any, kept: list[str]) -> None:
    """The result says so, the command to enter is shown, and the labels keep others from removing them."""
    world = World(tmp_path / "boxes")

    async def fails(t: EvalContext) -> None:
        await t.send("go")
        assert not kept or kept == ["nothing"]

    async def passes(t: EvalContext) -> None:
        await t.send("go")

    done = ran(tmp_path, world.spec(), evals={"bad": fails if kept else passes, "good": passes}, keep=keep)
    found = sorted(result.id for result in done.results if result.sandbox and result.sandbox.kept)
    assert found == kept
    assert len(world.standing) == len(kept)
    assert len(notices(done, "sandbox-kept")) == len(kept)
    assert all("niceeval sandbox enter @" in said for said in notices(done, "sandbox-kept"))
    assert all((labels.get("niceeval.kept") == "1") is (keep is not None) for labels in world.runtimes)


def test_a_direct_agent_ignores_a_sandbox_of_its_experiment(tmp_path: Path) -> None:
    """The plan gives it none."""
    from niceeval._discover.specs import ConfigSpec, sandbox_of
    from tests.unit.drive_harness import agent

    world = World(tmp_path / "boxes")
    experiment = an_experiment(agent().agent, sandbox=world.spec())
    assert sandbox_of(experiment, ConfigSpec(sandbox=world.spec())) is None


def test_sends_of_a_sandbox_agent_need_one(tmp_path: Path) -> None:
    """The config's sandbox stands in where the experiment has none."""
    from niceeval._discover.specs import ConfigSpec, sandbox_of

    world = World(tmp_path / "boxes")
    own, other = world.spec(), world.spec(recommended_concurrency=2)
    assert sandbox_of(an_experiment(boxed()), ConfigSpec()) is None
    assert sandbox_of(an_experiment(boxed()), ConfigSpec(sandbox=other)) is other
    assert sandbox_of(an_experiment(boxed(), sandbox=own), ConfigSpec(sandbox=other)) is own
