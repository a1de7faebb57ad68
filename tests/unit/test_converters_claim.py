"""No converter calls more complete than its protocol shows: each is given one conversation in its own protocol's words.

The converters of model APIs have tables of their own, beside what a lying converter is caught by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    EvidenceCoverage,
    Message,
    StreamEvent,
    Thinking,
    Turn,
    Usage,
)
from niceeval.converters import (
    a2a,
    ag_ui,
    claude_agent_sdk,
    google_adk,
    langgraph,
    openai_agents,
    pydantic_ai,
    ui_message_stream,
)
from niceeval.testing import ConverterSample, check_converter

Json = dict[str, Any]
CALLS = (("c1", "stock"), ("c2", "price"))
CUP = {"item": "cup"}


def happened(*, second: Any = "no price", status: Any = "failed") -> tuple[StreamEvent, ...]:
    """The conversation: a thought, words, two calls at once of which one fails, an answer."""
    return (
        Thinking(text="Where?"),
        Message(role="assistant", text="I look."),
        ActionCalled(call_id="1", name="stock", input=CUP),
        ActionCalled(call_id="2", name="price", input=CUP),
        ActionResult(call_id="1", status="completed", output="3"),
        ActionResult(call_id="2", status=status, output=second),
        Message(role="assistant", text="Three are left."),
    )


def of_ui_message_stream() -> ConverterSample:
    frames: list[Any] = [{"type": "start"}, {"type": "start-step"}]
    frames += [{"type": f"reasoning-{kind}", "id": "r", "delta": "Where?"} for kind in ("start", "delta", "end")]
    frames += [{"type": f"text-{kind}", "id": "0", "delta": "I look."} for kind in ("start", "delta", "end")]
    for id, name in CALLS:
        frames.append({"type": "tool-input-start", "toolCallId": id, "toolName": name})
        frames.append({"type": "tool-input-available", "toolCallId": id, "toolName": name, "input": CUP})
    frames += [
        {"type": "tool-output-available", "toolCallId": "c1", "output": "3"},
        {"type": "tool-output-error", "toolCallId": "c2", "errorText": "no price"},
        {"type": "finish-step"},
        {"type": "start-step"},
        {"type": "text-start", "id": "0"},
        {"type": "text-delta", "id": "0", "delta": "Three "},
        {"type": "text-delta", "id": "0", "delta": "are left."},
        {"type": "text-end", "id": "0"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop"},
        "[DONE]",
    ]
    return ConverterSample(name="stream", value=frames, events=happened(), stream=True)


def of_ag_ui() -> ConverterSample:
    """It has no status for a result, so no sample of it can say that a tool failed."""
    frames: list[Any] = [{"type": "RUN_STARTED", "threadId": "t", "runId": "r"}]
    frames += _texts("REASONING_MESSAGE", "m0", "reasoning", "Where?")
    frames += _texts("TEXT_MESSAGE", "m1", "assistant", "I look.")
    for id, name in CALLS:
        frames.append({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name, "parentMessageId": "m1"})
        frames.append({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": '{"item": "cup"}'})
        frames.append({"type": "TOOL_CALL_END", "toolCallId": id})
    for id, output in (("c1", "3"), ("c2", "9")):
        frames.append({"type": "TOOL_CALL_RESULT", "messageId": f"of-{id}", "toolCallId": id, "content": output})
    frames += _texts("TEXT_MESSAGE", "m4", "assistant", "Three ", "are left.")
    frames.append({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": {"type": "success"}})
    return ConverterSample(name="stream", value=frames, events=happened(second="9", status="completed"), stream=True)


def _texts(kind: str, id: str, role: str, *pieces: str) -> list[Json]:
    start = {"type": f"{kind}_START", "messageId": id, "role": role}
    return [
        start,
        *({"type": f"{kind}_CONTENT", "messageId": id, "delta": piece} for piece in pieces),
        {"type": f"{kind}_END", "messageId": id},
    ]


def of_a2a() -> ConverterSample:
    """It shows texts only."""

    def status(state: str, **more: Any) -> Json:
        return {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": state, **more}}}

    frames: list[Any] = [
        {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_SUBMITTED"}}},
        status("TASK_STATE_WORKING", message={"messageId": "m1", "role": "ROLE_AGENT", "parts": [{"text": "I look."}]}),
        {
            "artifactUpdate": {
                "taskId": "t",
                "contextId": "c",
                "artifact": {"artifactId": "a", "parts": [{"text": "Three are left."}]},
                "lastChunk": True,
            }
        },
        status("TASK_STATE_COMPLETED"),
    ]
    texts = tuple(event for event in happened() if isinstance(event, Message))
    return ConverterSample(name="stream", value=frames, events=texts, stream=True)


def of_langgraph() -> ConverterSample:
    calls = [{"name": name, "args": CUP, "id": id, "type": "tool_call"} for id, name in CALLS]
    thought, said = {"type": "reasoning", "reasoning": "Where?"}, {"type": "text", "text": "I look."}
    messages = [
        {"type": "human", "content": "cups?", "id": "h"},
        {"type": "ai", "id": "a1", "content": [thought, said], "tool_calls": calls, "usage_metadata": _tokens(100, 20)},
        {"type": "tool", "id": "t1", "name": "stock", "content": "3", "tool_call_id": "c1", "status": "success"},
        {"type": "tool", "id": "t2", "name": "price", "content": "no price", "tool_call_id": "c2", "status": "error"},
        {"type": "ai", "id": "a2", "content": "Three are left.", "usage_metadata": _tokens(50, 10)},
    ]
    used = Usage(input_tokens=150, output_tokens=30, requests=2)
    return ConverterSample(name="state", value={"messages": messages}, events=happened(), usage=used)


def _tokens(given: int, made: int) -> Json:
    return {"input_tokens": given, "output_tokens": made, "total_tokens": given + made}


def of_google_adk() -> ConverterSample:
    def event(number: int, role: str, *parts: Json, **more: Any) -> Json:
        return {"id": f"e{number}", "author": "desk", "content": {"role": role, "parts": list(parts)}, **more}

    calls = [{"function_call": {"id": id, "name": name, "args": CUP}} for id, name in CALLS]
    answers: list[Json] = [{"result": "3"}, {"error": "no price"}]
    results = [
        {"function_response": {"id": id, "name": name, "response": response}}
        for (id, name), response in zip(CALLS, answers, strict=True)
    ]
    thought, said = {"text": "Where?", "thought": True}, {"text": "I look."}
    events = [
        event(1, "model", thought, said, *calls, usage_metadata=_counts(100, 20)),
        event(2, "user", *results),
        event(3, "model", {"text": "Three are left."}, usage_metadata=_counts(50, 10)),
    ]
    return ConverterSample(name="events", value=events, events=happened(second={"error": "no price"}))


def _counts(given: int, made: int) -> Json:
    return {"prompt_token_count": given, "candidates_token_count": made}


def of_pydantic_ai() -> ConverterSample:
    def part(kind: str, **more: Any) -> Json:
        return {"part_kind": kind, **more}

    calls = [part("tool-call", tool_name=name, args=CUP, tool_call_id=id) for id, name in CALLS]
    results = [
        part("tool-return", tool_name="stock", content="3", tool_call_id="c1", outcome="success"),
        part("tool-return", tool_name="price", content="no price", tool_call_id="c2", outcome="failed"),
    ]
    said = [part("thinking", content="Where?"), part("text", content="I look."), *calls]
    messages = [
        {"kind": "request", "parts": [part("user-prompt", content="cups?")]},
        {"kind": "response", "parts": said, "usage": {"input_tokens": 100, "output_tokens": 20}},
        {"kind": "request", "parts": results},
        {
            "kind": "response",
            "parts": [part("text", content="Three are left.")],
            "usage": {"input_tokens": 50, "output_tokens": 10},
        },
    ]
    used = Usage(input_tokens=150, output_tokens=30, requests=2)
    return ConverterSample(name="messages", value=messages, events=happened(), usage=used)


def of_openai_agents() -> ConverterSample:
    """It has no status for a result, so no sample of it can say that a tool failed."""

    def item(kind: str, **raw: Any) -> Json:
        return {"type": kind, "agent": {"name": "desk"}, "raw_item": raw}

    def says(number: int, text: str) -> Json:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        return item("message_output_item", type="message", id=f"m{number}", role="assistant", content=content)

    thought = [{"type": "summary_text", "text": "Where?"}]
    items = [
        item("reasoning_item", type="reasoning", id="r1", summary=thought),
        says(1, "I look."),
        *(
            item("tool_call_item", type="function_call", call_id=id, name=name, arguments='{"item": "cup"}')
            for id, name in CALLS
        ),
        *(
            {**item("tool_call_output_item", type="function_call_output", call_id=id, output=output), "output": output}
            for id, output in (("c1", "3"), ("c2", "9"))
        ),
        says(2, "Three are left."),
    ]
    return ConverterSample(name="items", value=items, events=happened(second="9", status="completed"))


def of_claude_agent_sdk() -> ConverterSample:
    sdk = pytest.importorskip("claude_agent_sdk", reason="pip install 'niceeval[claude-agent-sdk]'")

    def says(id: str, block: Any) -> Json:
        return asdict(sdk.AssistantMessage(content=[block], model="m", message_id=id))

    def gives(**result: Any) -> Json:
        return asdict(sdk.UserMessage(content=[sdk.ToolResultBlock(**result)]))

    used = {"input_tokens": 150, "output_tokens": 30}
    end = {"duration_ms": 1, "duration_api_ms": 1, "is_error": False, "num_turns": 2, "session_id": "s"}
    messages = [
        asdict(sdk.SystemMessage(subtype="init", data={"session_id": "s"})),
        says("m1", sdk.ThinkingBlock(thinking="Where?", signature="s")),
        says("m1", sdk.TextBlock(text="I look.")),
        *(says("m1", sdk.ToolUseBlock(id=id, name=name, input=CUP)) for id, name in CALLS),
        gives(tool_use_id="c1", content="3"),
        gives(tool_use_id="c2", content="no price", is_error=True),
        says("m2", sdk.TextBlock(text="Three are left.")),
        asdict(sdk.ResultMessage(subtype="success", usage=used, result="Three are left.", **end)),
    ]
    return ConverterSample(name="messages", value=messages, events=happened(), stream=True)


@dataclass(frozen=True)
class Row:
    """A converter, what it declares, and its sample."""

    convert: Callable[[Any], Turn]
    coverage: EvidenceCoverage
    sample: Callable[[], ConverterSample]


CONVERTERS: Mapping[str, Row] = {
    "a2a": Row(a2a.to_turn, a2a.coverage, of_a2a),
    "ag_ui": Row(ag_ui.to_turn, ag_ui.coverage, of_ag_ui),
    "claude_agent_sdk": Row(claude_agent_sdk.to_turn, claude_agent_sdk.coverage, of_claude_agent_sdk),
    "google_adk": Row(lambda value: google_adk.to_turn(value, subagents={}), google_adk.coverage, of_google_adk),
    "langgraph": Row(lambda value: langgraph.to_turn(value, subagents={}), langgraph.coverage, of_langgraph),
    "openai_agents": Row(openai_agents.to_turn, openai_agents.coverage, of_openai_agents),
    "pydantic_ai": Row(pydantic_ai.to_turn, pydantic_ai.coverage, of_pydantic_ai),
    "ui_message_stream": Row(ui_message_stream.to_turn, ui_message_stream.coverage, of_ui_message_stream),
}


@pytest.mark.parametrize("name", CONVERTERS)
def test_no_converter_claims_more_than_it_shows(name: str) -> None:
    """Whole, cut and changed in every way: what is not there is never called complete, and nothing is made up."""
    row = CONVERTERS[name]
    report = check_converter(row.convert, [row.sample()], coverage=row.coverage, name=name)
    report.raise_for_failures()
    assert len(report.passed) >= 4, report
