"""One eval function against a scripted agent, through the real attempt and the real sealing, in process.

ran = run_eval(function, agent(Turn(events=[says("hi")])))
ran.only.outcome
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec

from niceeval import EvalContext, JudgeConfig, Price
from niceeval._base.errors import Place
from niceeval._base.guest import GuestHost
from niceeval._base.threads import DaemonThreads
from niceeval._discover.specs import ConfigSpec, EvalSpec, ExperimentSpec
from niceeval._drive.driver import Driver
from niceeval._model.assertion import AssertionResult
from niceeval._model.coverage import complete_evidence_coverage
from niceeval._model.judgement import StoredJudgement
from niceeval._model.result import AttemptResult, LogLine
from niceeval._plan.plan import AttemptPlan, RunPlan
from niceeval._run.attempt import run_attempt
from niceeval._run.seal import Sources, seal, verdict_of
from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    Agent,
    AgentContext,
    EvidenceCoverage,
    InputOption,
    InputRequest,
    InputRequested,
    Message,
    StreamEvent,
    SubagentCalled,
    SubagentCompleted,
    Turn,
    TurnInput,
    Usage,
    define_agent,
)

Step = Any
"""What one send does: a Turn (or anything else to return), an exception to raise, or a function of (input, ctx)."""
EvalFunction = Callable[[EvalContext], Awaitable[None]]

USAGE = Usage(input_tokens=10, output_tokens=5, cost_usd=0.25)


@dataclass
class Script:
    """An agent that plays its steps in order; the last one is played again for every further send."""

    agent: Agent
    inputs: list[TurnInput] = field(default_factory=list)
    contexts: list[AgentContext] = field(default_factory=list)


def agent(*steps: Step, coverage: EvidenceCoverage = complete_evidence_coverage, name: str = "scripted") -> Script:
    """A scripted agent; without steps every turn is empty and completed, with usage."""
    played = itertools.chain(steps, itertools.repeat(steps[-1] if steps else turn()))

    async def send(input: TurnInput, ctx: AgentContext) -> Turn:
        script.inputs.append(input)
        script.contexts.append(ctx)
        step = next(played)
        if isinstance(step, BaseException):
            raise step
        value: Turn = step(input, ctx) if callable(step) else step
        return await value if isinstance(value, Awaitable) else value

    script = Script(define_agent(name=name, evidence_coverage=coverage, send=send))
    return script


@dataclass(frozen=True)
class Ran:
    """One sealed attempt: its result, its stored events, its log lines, and the driver behind it."""

    result: AttemptResult
    events: list[dict[str, Any]]
    logs: tuple[LogLine, ...]
    driver: Driver
    judgements: tuple[StoredJudgement, ...] = ()

    @property
    def outcomes(self) -> list[str]:
        """The entries' outcomes, in the order they were recorded."""
        return [entry.outcome for entry in self.result.assertions]

    @property
    def only(self) -> AssertionResult:
        """The one entry that was recorded."""
        (entry,) = self.result.assertions
        return entry

    @property
    def error_code(self) -> str | None:
        """The code of what made the attempt errored."""
        return None if self.result.error_info is None else self.result.error_info.code

    @property
    def diagnostics(self) -> list[str]:
        """The codes of the diagnostics."""
        return [diagnostic.code for diagnostic in self.result.diagnostics]


def run_eval(
    function: EvalFunction,
    script: Script | None = None,
    *,
    strict: bool = False,
    model: str | None = "model-1",
    flags: Mapping[str, Any] | None = None,
    pricing: Mapping[str, Price] | None = None,
    timeout: float = 20.0,
    grace: float = 1.0,
    root: Path | None = None,
    judge: JudgeConfig | None = None,
) -> Ran:
    """Run the function as one attempt and seal it. `root` is the project; without one, the function's folder."""
    file = Path(function.__code__.co_filename)
    root = root or file.parent
    eval_spec = EvalSpec(
        id="case", base="case", function=function, file=file, path=file.relative_to(root).as_posix(), line=1, column=1
    )
    experiment = ExperimentSpec(
        id="local",
        path="experiments/local.py",
        place=Place("experiments/local.py", 1, 1),
        agent=(script or agent()).agent,
        model=model,
        flags=dict(flags or {}),
        judge=judge,
    )
    attempt = AttemptPlan(index=0, eval=eval_spec, experiment=experiment, attempt=0, timeout=timeout)
    plan = RunPlan(
        root=root,
        config=ConfigSpec(pricing=dict(pricing or {})),
        attempts=(attempt,),
        experiments=(experiment,),
        concurrency=1,
        strict=strict,
        title="test",
    )
    return asyncio.run(_run(attempt, plan, grace))


async def _run(attempt: AttemptPlan, plan: RunPlan, grace: float) -> Ran:
    host = GuestHost(DaemonThreads(4), grace=grace)
    finished = await run_attempt(attempt, plan, host, "case", _silent)
    sealed = seal(
        finished,
        verdict=verdict_of(finished, strict=plan.strict),
        artifacts_dir="case",
        plan=plan,
        early_exited=False,
        sources=Sources(plan.root),
    )
    # The stored form has to exist: what cannot be encoded would be lost with its attempt.
    msgspec.json.encode(sealed.result)
    events = [] if sealed.events is None else msgspec.json.decode(sealed.events)
    return Ran(
        result=sealed.result, events=events, logs=sealed.logs, driver=finished.driver, judgements=sealed.judgements
    )


def _silent(phase: Any, turn: Any = None, text: Any = None, current: Any = None, total: Any = None) -> None:
    return None


_modules = itertools.count()


def load_eval(root: Path, files: Mapping[str, str], entry: str = "evals/a_eval.py") -> EvalFunction:
    """Write the files below `root` and load `entry`; its function `run` is the eval. Other files are importable."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"), "utf-8")
    spec = importlib.util.spec_from_file_location(f"harness_eval_{next(_modules)}", root / entry)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    function: EvalFunction = module.run
    return function


def line_of(root: Path, text: str, file: str = "evals/a_eval.py") -> int:
    """The number of the one line of a file that holds the text."""
    (found,) = [number for number, line in enumerate((root / file).read_text("utf-8").splitlines(), 1) if text in line]
    return found


# Short names for the events that tests write most. ---------------------------------------------------------------


def turn(*events: StreamEvent, **fields: Any) -> Turn:
    """A turn with these events, completed, with usage, unless the fields say otherwise."""
    return Turn(**{"usage": USAGE, **fields, "events": list(events)})


def waiting(*requests: InputRequest, events: tuple[StreamEvent, ...] = ()) -> Turn:
    """A turn that stops for a human with these requests."""
    return turn(*events, *(InputRequested(request=request) for request in requests), status="waiting")


def says(text: str) -> Message:
    """An assistant message."""
    return Message(role="assistant", text=text)


def calls(call_id: str, name: str, input: Any = None, *, tool: str | None = None) -> ActionCalled:
    """A tool call."""
    return ActionCalled(call_id=call_id, name=name, input=input, tool=tool)


def result(call_id: str, output: Any = None, status: Any = "completed") -> ActionResult:
    """A tool call's result."""
    return ActionResult(call_id=call_id, output=output, status=status)


def tool(
    call_id: str, name: str, input: Any = None, output: Any = None, status: Any = "completed"
) -> list[StreamEvent]:
    """A tool call and its result."""
    return [calls(call_id, name, input), result(call_id, output, status)]


def subagent(call_id: str, name: str, output: Any = None, status: Any = "completed", url: str | None = None) -> Any:
    """A subagent call and what it came back with."""
    return [
        SubagentCalled(call_id=call_id, name=name, remote_url=url),
        SubagentCompleted(call_id=call_id, output=output, status=status),
    ]


def request(id: str, *option_ids: str, **fields: Any) -> InputRequest:
    """A question with these options."""
    options = tuple(InputOption(id=option) for option in option_ids) or None
    return InputRequest(id=id, options=options, **fields)


# One assertion on one receiver. ------------------------------------------------------------------------------------

RECEIVERS = ("t", "session", "turn")


def assess(
    receiver: str,
    assertion: Callable[[Any], object],
    *turns: Step,
    coverage: EvidenceCoverage = complete_evidence_coverage,
    output: Any = None,
    **settings: Any,
) -> Ran:
    """Send each turn in one conversation line, then make the assertion on `t`, that session or the last turn."""

    async def case(t: EvalContext) -> None:
        line = t.new_session() if receiver == "session" else t
        last = None
        for _ in turns:
            last = await line.send("go", output=output)
        assertion({"t": t, "session": line, "turn": last}[receiver])

    return run_eval(case, agent(*turns, coverage=coverage), **settings)
