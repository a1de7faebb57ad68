"""Results, as a runner would hand them to the writer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from niceeval._model.assertion import AssertionResult, EvidenceRef
from niceeval._model.events import ActionCalled, ActionResult, Loc, Message, StreamEvent, encode_events
from niceeval._model.o11y import O11ySummary, TurnSummary
from niceeval._model.result import (
    FORMAT,
    SCHEMA_VERSION,
    AttemptResult,
    ChannelCoverage,
    ExperimentInfo,
    LogLine,
    Producer,
    RunSummary,
    SourceFile,
)
from niceeval._model.usage import Usage
from niceeval._record.writer import AttemptName, RunWriter, SealedAttempt

SOURCE = """from niceeval import define_eval
from niceeval.expect import includes


@define_eval()
async def brooklyn(t):
    turn = await t.send("What's the weather in Brooklyn?")
    turn.succeeded()
    turn.called_tool("get_weather", input={"city": "Brooklyn"})
    if turn.message:
        t.check(turn.message, includes("rain"))
"""
SOURCE_PATH = "evals/weather/brooklyn_eval.py"


def events() -> bytes:
    stream: list[StreamEvent] = [
        Message(role="user", text="What's the weather in Brooklyn?", loc=Loc(file=SOURCE_PATH, line=7, column=18)),
        ActionCalled(call_id="call_1", name="get_weather", input={"city": "Queens"}),
        ActionResult(call_id="call_1", status="completed", output="21 C"),
        Message(role="assistant", text="It is 21 °C in Queens."),
    ]
    return encode_events(stream)


def assertions() -> tuple[AssertionResult, ...]:
    return (
        AssertionResult(
            name="succeeded",
            severity="gate",
            score=1,
            passed=True,
            outcome="passed",
            loc=Loc(file=SOURCE_PATH, line=8, column=5),
        ),
        AssertionResult(
            name='called_tool("get_weather")',
            severity="gate",
            score=0,
            passed=False,
            outcome="failed",
            expected='1 call of get_weather, input.city is "Brooklyn"',
            received='0 such calls; nearest #1: input.city = "Queens"',
            evidence_refs=(EvidenceRef(event=1, call_id="call_1"),),
            loc=Loc(file=SOURCE_PATH, line=9, column=5),
        ),
    )


def o11y() -> O11ySummary:
    return O11ySummary(
        total_turns=1,
        tool_calls={"get_weather": 1},
        total_tool_calls=1,
        files_read=(),
        files_modified=(),
        shell_commands=(),
        web_fetches=(),
        errors=(),
        thinking_blocks=0,
        compactions=0,
        duration_ms=12000,
        turns=(
            TurnSummary(
                first_event=0,
                last_event=3,
                start_ms=100,
                end_ms=12100,
                status="completed",
                usage=Usage(input_tokens=20000, output_tokens=1000),
            ),
        ),
        usage=Usage(input_tokens=20000, output_tokens=1000),
    )


def result(**changes: Any) -> AttemptResult:
    fields: dict[str, Any] = {
        "id": "weather/brooklyn",
        "experiment_id": "compare/bub",
        "experiment": ExperimentInfo(id="compare/bub", flags={}, runs=2, early_exit=True),
        "agent": "bub",
        "model": "gpt-5.4",
        "outcome": "failed",
        "attempt": 0,
        "started_at": "2026-07-02T03:10:24.123Z",
        "duration_ms": 34000,
        "assertions": assertions(),
        "usage": Usage(input_tokens=57000, output_tokens=1000),
        "estimated_cost_usd": 0.44,
        "coverage": {
            "events": ChannelCoverage(status="partial", reasons=("compactions are not sent",)),
            "actions": ChannelCoverage(status="complete"),
        },
        "phases": {"setup": 2000, "send": 23200},
        "artifacts_dir": "",
        "has_events": True,
        "has_trace": False,
        "has_sources": True,
        "has_o11y": True,
        "has_logs": True,
    }
    return AttemptResult(**{**fields, **changes})


def name_of(attempt: AttemptResult) -> AttemptName:
    return (attempt.experiment_id or "", attempt.id, attempt.agent, attempt.model, attempt.attempt)


def sealed(attempt: AttemptResult, index: int = 0, **changes: Any) -> SealedAttempt:
    fields: dict[str, Any] = {
        "events": events(),
        "sources": (SourceFile(path=SOURCE_PATH, content=SOURCE),),
        "o11y": o11y(),
        "logs": (LogLine(at="2026-07-02T03:10:25.000Z", source="eval", text="hello", turn=0),),
    }
    return SealedAttempt(index=index, result=attempt, **{**fields, **changes})


def summary(output_dir: str, **changes: Any) -> RunSummary:
    fields: dict[str, Any] = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "producer": Producer(name="niceeval", version="0.1.0", runtime="python"),
        "agent": "bub",
        "started_at": "2026-07-02T03:10:24.000Z",
        "completed_at": "2026-07-02T03:11:24.000Z",
        "passed": 0,
        "failed": 1,
        "skipped": 0,
        "errored": 0,
        "duration_ms": 60000,
        "output_dir": output_dir,
    }
    return RunSummary(**{**fields, **changes})


def write_run(root: Path, *attempts: AttemptResult, finish: bool = True, **changes: Any) -> Path:
    """Write a run of these attempts, each with its artifacts (changed by `changes`); the run folder."""
    writer = RunWriter(root / ".niceeval", root=root, redact=changes.pop("redact", str))
    writer.begin()
    writer.reserve([name_of(attempt) for attempt in attempts])
    for index, attempt in enumerate(attempts):
        placed = placed_in(writer, attempt)
        writer.submit(sealed(placed, index, **changes)).result()
    if finish:
        writer.finish(summary(writer.output_dir))
    writer.close()
    return root / ".niceeval" / writer.name


def placed_in(writer: RunWriter, attempt: AttemptResult) -> AttemptResult:
    return msgspec.structs.replace(attempt, artifacts_dir=writer.artifacts_dir(name_of(attempt)))
