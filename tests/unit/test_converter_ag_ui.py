"""AG-UI's events, as its SDK writes them, into turns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval.adapter import InputRequested, Turn, derive_facts
from niceeval.converters import ag_ui

core: Any = pytest.importorskip("ag_ui.core", reason="pip install 'niceeval[ag-ui]'")

Event = Any


def written(*events: Event) -> list[str]:
    """As they are sent: with the SDK's own encoder where they are of its classes."""
    from ag_ui.encoder import EventEncoder

    encoder = EventEncoder()
    sent = [json.dumps(event) if isinstance(event, dict) else encoder.encode(event) for event in events]
    return [line.removeprefix("data: ").strip() for line in sent]


STARTED = core.RunStartedEvent(thread_id="t", run_id="r")


def finished(outcome: Any = None, **more: Any) -> Event:
    return core.RunFinishedEvent(thread_id="t", run_id="r", outcome=outcome, **more)


SUCCESS = finished(core.RunFinishedSuccessOutcome())


def text(value: str, id: str = "m1", **more: Any) -> list[Event]:
    return [
        core.TextMessageStartEvent(message_id=id, **more),
        core.TextMessageContentEvent(message_id=id, delta=value, **more),
        core.TextMessageEndEvent(message_id=id, **more),
    ]


def thought(value: str, id: str = "t1") -> list[Event]:
    return [
        core.ReasoningStartEvent(message_id=id),
        core.ReasoningMessageStartEvent(message_id=id),
        core.ReasoningMessageContentEvent(message_id=id, delta=value),
        core.ReasoningMessageEndEvent(message_id=id),
        core.ReasoningEndEvent(message_id=id),
    ]


def call(id: str = "c1", name: str = "look", arguments: str = '{"where": "a"}', **more: Any) -> list[Event]:
    return [
        core.ToolCallStartEvent(tool_call_id=id, tool_call_name=name, **more),
        core.ToolCallArgsEvent(tool_call_id=id, delta=arguments[:4], **more),
        core.ToolCallArgsEvent(tool_call_id=id, delta=arguments[4:], **more),
        core.ToolCallEndEvent(tool_call_id=id, **more),
    ]


def gave(output: Any, id: str = "c1", message: str = "r1", **more: Any) -> Event:
    return core.ToolCallResultEvent(message_id=message, tool_call_id=id, content=output, **more)


def hidden(outcome: str, message: str = "r1") -> Event:
    value = json.dumps({"pydantic_ai": {"outcome": outcome}})
    return core.ReasoningEncryptedValueEvent(subtype="message", entity_id=message, encrypted_value=value)


def interrupted(**more: Any) -> Event:
    return finished(core.RunFinishedInterruptOutcome(interrupts=[core.Interrupt(id="i1", reason="tool_call", **more)]))


def snapshot(*messages: Any) -> Event:
    user = core.UserMessage(id="u1", content="hello")
    return core.MessagesSnapshotEvent(messages=[user, *messages])


SAID = core.AssistantMessage(id="m1", content="Hello.")
MADE = core.AssistantMessage(
    id="m2", tool_calls=[core.ToolCall(id="c1", function=core.FunctionCall(name="look", arguments="{}"))]
)
FAILED = core.ToolMessage(id="r1", tool_call_id="c1", content="", error="not there")
INNER = {"subagent_run_id": "s1"}

TURNS: Mapping[str, tuple[list[Event], list[str], str]] = {
    "success": ([STARTED, *text("Hello."), SUCCESS], ["Message(Hello.)"], "completed"),
    "no outcome": ([STARTED, *text("Hello."), finished()], ["Message(Hello.)"], "completed"),
    "a call within a text": (
        [STARTED, text("x")[0], *call(), gave("ok"), *text("I look.")[1:], SUCCESS],
        ["Message(I look.)", "ActionCalled(look)", "ActionResult(completed)"],
        "completed",
    ),
    "parallel tools": (
        [STARTED, *call(), *call("c2"), gave("B", "c2", "r2"), gave("A"), SUCCESS],
        ["ActionCalled(look)", "ActionCalled(look)", "ActionResult(completed)", "ActionResult(completed)"],
        "completed",
    ),
    "chunks": (
        [
            STARTED,
            core.ReasoningMessageChunkEvent(message_id="t", delta="Hm"),
            core.ReasoningMessageChunkEvent(delta="m."),
            core.TextMessageChunkEvent(message_id="m", delta="I "),
            core.TextMessageChunkEvent(delta="look."),
            core.ToolCallChunkEvent(tool_call_id="c1", tool_call_name="look", delta='{"where"'),
            core.ToolCallChunkEvent(delta=': "a"}'),
            core.ToolCallChunkEvent(tool_call_id="c2", tool_call_name="look", delta='{"where": "a"}'),
            gave("A"),
            gave("B", "c2", "r2"),
            SUCCESS,
        ],
        [
            "Thinking(Hmm.)",
            "Message(I look.)",
            "ActionCalled(look)",
            "ActionCalled(look)",
            "ActionResult(completed)",
            "ActionResult(completed)",
        ],
        "completed",
    ),
    "a failure that Pydantic AI hides": (
        [STARTED, *call(), gave("no"), hidden("retried"), SUCCESS],
        ["ActionCalled(look)", "ActionResult(failed)"],
        "completed",
    ),
    "a refusal that Pydantic AI hides": (
        [STARTED, *call(), gave("no"), hidden("denied"), SUCCESS],
        ["ActionCalled(look)", "ActionResult(rejected)"],
        "completed",
    ),
    "a failure in a snapshot": (
        [STARTED, *call(), gave("not there"), snapshot(MADE, FAILED), SUCCESS],
        ["ActionCalled(look)", "ActionResult(failed)"],
        "completed",
    ),
    "a snapshot that repeats": (
        [STARTED, *text("Hello."), snapshot(SAID), SUCCESS],
        ["Message(Hello.)"],
        "completed",
    ),
    "only a snapshot": (
        [STARTED, snapshot(MADE, FAILED, SAID), SUCCESS],
        ["ActionCalled(look)", "ActionResult(failed)", "Message(Hello.)"],
        "completed",
    ),
    "a subagent": (
        [
            STARTED,
            *call(name="ask"),
            core.SubagentStartedEvent(subagent_run_id="s1", name="scout", parent_tool_call_id="c1"),
            *text("inner", "m2", **INNER),
            *call("c2", **INNER),
            gave("B", "c2", "r2", **INNER),
            core.SubagentFinishedEvent(subagent_run_id="s1", result={"n": 1}),
            gave("done"),
            SUCCESS,
        ],
        [
            "ActionCalled(ask)",
            "SubagentCalled(scout)",
            "ActionCalled(look)",
            "ActionResult(completed)",
            "SubagentCompleted(completed)",
            "ActionResult(completed)",
        ],
        "completed",
    ),
    "a subagent that fails": (
        [
            STARTED,
            core.SubagentStartedEvent(subagent_run_id="s1", name="scout"),
            core.SubagentErrorEvent(subagent_run_id="s1", message="lost"),
            *text("It is lost."),
            SUCCESS,
        ],
        ["SubagentCalled(scout)", "SubagentCompleted(failed)", "Message(It is lost.)"],
        "completed",
    ),
    "an approval": (
        [STARTED, *call(), interrupted(tool_call_id="c1", message="Look?")],
        ["ActionCalled(look)", "InputRequested(look)"],
        "waiting",
    ),
    "a question": ([STARTED, interrupted(message="Which?")], ["InputRequested(None)"], "waiting"),
    "empty answer": ([STARTED, SUCCESS], [], "completed"),
    "reasoning": (
        [STARTED, *thought("Hmm."), *text("Yes."), SUCCESS],
        ["Thinking(Hmm.)", "Message(Yes.)"],
        "completed",
    ),
    "thoughts as they were before 1.0": (
        [
            STARTED,
            {"type": "THINKING_START"},
            {"type": "THINKING_TEXT_MESSAGE_START"},
            {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "Hmm."},
            {"type": "THINKING_TEXT_MESSAGE_END"},
            {"type": "THINKING_END"},
            SUCCESS,
        ],
        ["Thinking(Hmm.)"],
        "completed",
    ),
    "error mid-stream": (
        [STARTED, *text("I"), core.RunErrorEvent(message="overloaded")],
        ["Message(I)", "ErrorEvent(overloaded)"],
        "failed",
    ),
    "cancelled": ([STARTED, finished(core.RunFinishedCancelledOutcome())], [], "failed"),
    "events of the app": (
        [
            STARTED,
            core.CustomEvent(name="mood", value=1),
            core.RawEvent(event={}),
            core.StateSnapshotEvent(snapshot={}),
            core.StepStartedEvent(step_name="s"),
            SUCCESS,
        ],
        [],
        "completed",
    ),
}


def shown(turn: Turn) -> list[str]:
    return [f"{type(event).__name__}({_word(event)})" for event in turn.events]


def _word(event: Any) -> str:
    for field in ("text", "name", "status", "message"):
        if hasattr(event, field):
            return str(getattr(event, field))
    return str(event.request.action)


@pytest.mark.parametrize(("events", "told", "status"), TURNS.values(), ids=TURNS.keys())
def test_streams(events: list[Event], told: list[str], status: str) -> None:
    """Each stream gives its events in their order, and nothing is missing but how a tool's result has to be taken."""
    turn = ag_ui.to_turn(written(*events))
    assert (shown(turn), turn.status) == (told, status)
    assert levels(turn) == ({"actions": "partial"} if "ActionResult(completed)" in told else {})
    # Objects instead of their JSON are as good.
    assert ag_ui.to_turn([json.loads(event) for event in written(*events)]) == turn


def test_what_a_call_came_to() -> None:
    """Arguments that come in pieces are one input, parts of a content one output."""
    events = [STARTED, *call(), gave([core.TextPart(text="one "), core.TextPart(text="two")]), SUCCESS]
    (made,) = derive_facts(ag_ui.to_turn(written(*events)).events).tool_calls
    assert (made.input, made.output) == ({"where": "a"}, "one two")
    odd = [STARTED, *call(arguments="where?"), *call("c2", arguments=""), SUCCESS]
    assert [one.input for one in derive_facts(ag_ui.to_turn(written(*odd)).events).tool_calls] == ["where?", {}]
    subagents = derive_facts(ag_ui.to_turn(written(*TURNS["a subagent"][0])).events).subagent_calls
    assert [(one.name, one.output, one.status) for one in subagents] == [("scout", {"n": 1}, "completed")]


def test_a_success_in_a_snapshot() -> None:
    """A result that a snapshot repeats without an error is one that is known to have gone well."""
    went_well = core.ToolMessage(id="r1", tool_call_id="c1", content="ok")
    turn = ag_ui.to_turn(written(STARTED, *call(), gave("ok"), snapshot(MADE, went_well), SUCCESS))
    assert (shown(turn)[-1], levels(turn)) == ("ActionResult(completed)", {})


def test_what_is_asked() -> None:
    """An approval has the call's arguments and two options, a question takes a text."""
    approval = {"type": "object", "properties": {"approved": {"type": "boolean"}}}
    rows = {
        "a call": ({"tool_call_id": "c1"}, True),
        "a call, by its schema": ({"tool_call_id": "c1", "response_schema": approval}, True),
        "what is no call": ({"response_schema": approval}, True),
        "a value that a call needs": ({"tool_call_id": "c1", "response_schema": {"type": "string"}}, False),
        "a question": ({}, False),
    }
    for name, (fields, options) in rows.items():
        turn = ag_ui.to_turn(written(STARTED, *call(), interrupted(message="Well?", **fields)))
        (request,) = [event.request for event in turn.events if isinstance(event, InputRequested)]
        assert request.prompt == "Well?", name
        assert ([option.id for option in request.options or ()] == ["approve", "reject"]) is options, name
        assert (request.input == {"where": "a"}) is ("tool_call_id" in fields), name


def test_a_run_that_goes_on() -> None:
    """After an answer the calls are of the turn before, and what a human refused is rejected."""
    events = written(STARTED, *call(), gave("no"), SUCCESS)
    turn = ag_ui.to_turn(events, open_calls=["c1"], refused=["c1"])
    assert (shown(turn), turn.evidence_coverage) == (["ActionResult(rejected)"], None)


def test_messages_that_are_known() -> None:
    """A snapshot after a resume repeats messages of the turn before, which are said once."""
    events = written(STARTED, snapshot(SAID, core.AssistantMessage(id="m9", content="New.")), SUCCESS)
    assert shown(ag_ui.to_turn(events, known_messages=["m1"])) == ["Message(New.)"]


def test_usage() -> None:
    """Tokens of several models add up, in buckets that exclude each other."""
    usage = [
        core.TokenUsage(
            model="a",
            input_tokens=100,
            output_tokens=20,
            reasoning_tokens=5,
            cached_input_tokens=30,
            cache_write_input_tokens=10,
        ),
        core.TokenUsage(model="b", input_tokens=7, output_tokens=1),
    ]
    for end in (finished(usage=usage), core.RunErrorEvent(message="no", usage=usage)):
        found = ag_ui.to_turn(written(STARTED, end)).usage
        assert found is not None
        assert (found.input_tokens, found.output_tokens, found.reasoning_tokens) == (67, 21, 5)
        assert (found.cache_read_tokens, found.cache_write_tokens) == (30, 10)


def levels(turn: Turn) -> dict[str, str]:
    return {channel: found.level for channel, found in (turn.evidence_coverage or {}).items()}


FEED = {"events": "partial", "actions": "partial", "messages": "partial"}
ALL = {**FEED, "usage": "partial", "status": "partial"}
MISSING: Mapping[str, tuple[list[Any], dict[str, str]]] = {
    "no end": (written(STARTED, *text("Hello.")), ALL),
    "nothing": ([], ALL),
    "a text without an end": (
        written(STARTED, *text("Hello.")[:2], SUCCESS),
        {"events": "partial", "messages": "partial"},
    ),
    "a call that was never made": (
        written(STARTED, *call()[:3], SUCCESS),
        {"events": "partial", "actions": "partial"},
    ),
    "an event of a type that is new": (written(STARTED, {"type": "HOLOGRAM"}, SUCCESS), FEED),
    "a tool event that is new": (written(STARTED, {"type": "TOOL_CALL_MOVED", "toolCallId": "c1"}, SUCCESS), FEED),
    "a text event that is new": (written(STARTED, {"type": "TEXT_MESSAGE_SUNG", "messageId": "m"}, SUCCESS), FEED),
    "what is no JSON": (["{", *written(STARTED, SUCCESS)], {**FEED, "status": "partial"}),
    "an outcome that is new": (
        written(STARTED, {"type": "RUN_FINISHED", "outcome": {"type": "postponed"}}),
        {"status": "partial"},
    ),
    "no outcome, and a call without a result": (written(STARTED, *call(), finished()), {"status": "partial"}),
}


@pytest.mark.parametrize(("events", "lowered"), MISSING.values(), ids=MISSING.keys())
def test_what_is_missing(events: list[Any], lowered: dict[str, str]) -> None:
    """What could not be read, or has no end, lowers the channels that it may have carried evidence for."""
    turn = ag_ui.to_turn(events)
    assert levels(turn) == lowered


@pytest.mark.parametrize("events", [row[0] for row in TURNS.values()], ids=TURNS.keys())
def test_a_cut_anywhere(events: list[Event]) -> None:
    """A stream that was cut, wherever, is a failed turn, says nothing for certain, and makes nothing up."""
    sent = written(*events)
    whole_events = shown(ag_ui.to_turn(sent))
    for length in range(len(sent)):
        turn = ag_ui.to_turn(sent[:length])
        assert (turn.status, {**ALL, **levels(turn)}) == ("failed", levels(turn)), length
        others = [event for event in shown(turn) if not event.startswith(("Message", "Thinking"))]
        assert all(event in whole_events for event in others), length


def test_events_of_unknown_types_are_counted() -> None:
    """What is not known is said with its number, and so is what only the app can read."""
    done = ag_ui.collected(
        written(STARTED, {"type": "NEW"}, {"type": "NEW"}, core.CustomEvent(name="m", value=1), SUCCESS)
    )
    said = {one.code: one.message for one in done.diagnostics}
    assert said["unknown-lines"].endswith("NEW (2)")
    assert said["events-not-read"].endswith("CUSTOM m (1)")


def test_a_stream_that_raises() -> None:
    """Events that are read as they come give the same turn; a stream that raises keeps what has come."""

    async def events(*, broken: bool) -> AsyncIterator[str]:
        for event in written(*TURNS["success"][0]):
            if broken and "RUN_FINISHED" in event:
                raise ConnectionError("reset")
            yield event

    assert asyncio.run(ag_ui.to_turn_stream(events(broken=False))) == ag_ui.to_turn(written(*TURNS["success"][0]))
    turn = asyncio.run(ag_ui.to_turn_stream(events(broken=True)))
    assert (shown(turn), turn.status, levels(turn)) == (["Message(Hello.)"], "failed", ALL)


TYPES = [kind.value for kind in core.EventType]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = ["messageId", "toolCallId", "toolCallName", "delta", "content", "outcome", "usage", "messages", "name"]
FIELDS += ["subagentRunId", "encryptedValue", "entityId"]
ANY = st.builds(
    lambda kind, more: {**more, "type": kind},
    st.sampled_from(TYPES),
    st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4),
)


@given(st.lists(st.text(max_size=5) | ANY, max_size=8))
def test_whatever_a_server_sends(events: list[Any]) -> None:
    """No stream raises, and one without its end is never whole."""
    turn = ag_ui.to_turn(events)
    kinds = {event["type"] for event in events if isinstance(event, dict)}
    if not kinds & {"RUN_FINISHED", "RUN_ERROR"}:
        assert turn.status == "failed"
        assert levels(turn)["messages"] == "partial"


def test_situations() -> None:
    """What the protocol can show of a run is said for each of the ten situations."""
    from niceeval.converters import ui_message_stream

    assert list(ag_ui.situations) == list(ui_message_stream.situations)
    assert all(ag_ui.situations.values())
