"""Messages of the Claude Agent SDK as turns: its own classes, in the orders that real runs have them in."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    Compaction,
    ErrorEvent,
    InputRequested,
    Message,
    SubagentCalled,
    SubagentCompleted,
    Thinking,
    Turn,
    Usage,
)
from niceeval.converters import claude_agent_sdk as converter

pytest.importorskip("claude_agent_sdk", reason="its SDK is not installed: pip install 'niceeval[claude-agent-sdk]'")

from claude_agent_sdk import (
    AssistantMessage,
    ResultMessage,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from claude_agent_sdk.types import (
    ConversationResetMessage,
    DeferredToolUse,
    RateLimitEvent,
    RateLimitInfo,
    ServerToolResultBlock,
    ServerToolUseBlock,
    StreamEvent,
    TaskNotificationMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
)

NUMBERS = itertools.count()
USED = {
    "input_tokens": 100,
    "cache_read_input_tokens": 5,
    "cache_creation_input_tokens": 7,
    "output_tokens": 9,
    "output_tokens_details": {"thinking_tokens": 3},
}


def says(*blocks: Any, message: str = "m1", parent: str | None = None, **given: Any) -> AssistantMessage:
    return AssistantMessage(
        content=list(blocks),
        model="claude",
        parent_tool_use_id=parent,
        message_id=message,
        uuid=f"u{next(NUMBERS)}",
        **given,
    )


def answers(
    id: str, content: Any, *, error: bool | None = False, parent: str | None = None, details: Any = None
) -> UserMessage:
    return UserMessage(
        content=[ToolResultBlock(tool_use_id=id, content=content, is_error=error)],
        uuid=f"u{next(NUMBERS)}",
        parent_tool_use_id=parent,
        tool_use_result=details,
    )


def bash(id: str, command: str = "ls") -> ToolUseBlock:
    return ToolUseBlock(id=id, name="Bash", input={"command": command})


def result(**given: Any) -> ResultMessage:
    fields = {
        "subtype": "success",
        "is_error": False,
        "usage": USED,
        "total_cost_usd": 0.5,
        "uuid": f"u{next(NUMBERS)}",
    }
    return ResultMessage(duration_ms=1, duration_api_ms=1, num_turns=1, session_id="s", **{**fields, **given})


INIT = SystemMessage(subtype="init", data={"session_id": "s"})


def texts(turn: Turn) -> list[str]:
    return [event.text for event in turn.events if isinstance(event, Message)]


def statuses(turn: Turn) -> dict[str, str]:
    return {event.call_id: event.status for event in turn.events if isinstance(event, ActionResult)}


def lowered(turn: Turn) -> set[str]:
    return set(turn.evidence_coverage or {})


def test_success() -> None:
    """One message of the model comes as a message for each of its blocks; what each says of tokens is not added up."""
    turn = converter.to_turn(
        [
            INIT,
            says(ThinkingBlock(thinking="hm", signature="s"), usage={"input_tokens": 1, "output_tokens": 1}),
            says(TextBlock(text="Let me."), usage={"input_tokens": 1, "output_tokens": 1}),
            says(bash("c1"), usage={"input_tokens": 1, "output_tokens": 1}),
            answers("c1", "a.txt"),
            says(TextBlock(text="One file."), message="m2"),
            result(),
        ],
        cost_before=0.2,
    )
    assert turn.events == (
        Thinking(text="hm"),
        Message(role="assistant", text="Let me."),
        ActionCalled(call_id="c1", name="Bash", input={"command": "ls"}, tool="shell"),
        ActionResult(call_id="c1", output="a.txt", status="completed"),
        Message(role="assistant", text="One file."),
    )
    assert (turn.status, turn.evidence_coverage) == ("completed", None)
    assert turn.usage == Usage(
        input_tokens=100,
        output_tokens=9,
        cache_read_tokens=5,
        cache_write_tokens=7,
        reasoning_tokens=3,
        requests=2,
        cost_usd=0.3,
    )


def test_cached_and_reasoning_tokens_and_no_cost_unasked() -> None:
    """Cached tokens are beside the input already; a session's sum is no turn's cost, unless told what was before."""
    usage = converter.to_turn([says(TextBlock(text="hi")), result()]).usage
    assert usage is not None
    assert (usage.input_tokens, usage.cache_read_tokens, usage.reasoning_tokens, usage.cost_usd) == (100, 5, 3, None)
    assert "usage" in lowered(converter.to_turn([says(TextBlock(text="hi")), result(usage=None)]))


def test_tool_failure() -> None:
    """An error of a tool is a failed call, and so is one that was interrupted."""
    messages = [
        says(bash("c1"), bash("c2"), ToolUseBlock(id="c3", name="mcp__shop__find", input={})),
        answers("c1", "Exit code 1", error=True),
        answers("c2", "half", details={"interrupted": True}),
        answers("c3", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        result(),
    ]
    turn = converter.to_turn(messages)
    assert statuses(turn) == {"c1": "failed", "c2": "failed", "c3": "completed"}
    assert [event.output for event in turn.events if isinstance(event, ActionResult)][-1] == "a\nb"


def test_refusal_by_a_human() -> None:
    """The result names the calls that were refused: they are rejected, not failed."""
    denied = [{"tool_name": "Bash", "tool_use_id": "c1", "tool_input": {}}]
    messages = [says(bash("c1"), bash("c2")), answers("c1", "no", error=True), answers("c2", "bad", error=True)]
    assert statuses(converter.to_turn([*messages, result(permission_denials=denied)])) == {
        "c1": "rejected",
        "c2": "failed",
    }
    cut = converter.to_turn(messages, denied=["c1"])
    assert statuses(cut) == {"c1": "rejected"}
    assert {"events", "actions", "status", "usage"} <= lowered(cut)


def test_a_call_that_is_put_off() -> None:
    """A call that a hook deferred is a request for approval."""
    messages = [
        says(bash("c1")),
        result(stop_reason="tool_deferred", deferred_tool_use=DeferredToolUse("c1", "Bash", {"command": "ls"})),
    ]
    turn = converter.to_turn(messages)
    request = next(event.request for event in turn.events if isinstance(event, InputRequested))
    assert (turn.status, request.id, request.action, request.input) == ("waiting", "c1", "Bash", {"command": "ls"})
    assert [option.id for option in request.options or ()] == ["approve", "reject"]


def test_parallel_tools() -> None:
    """Results come in any order, each to its call."""
    turn = converter.to_turn([says(bash("c1")), says(bash("c2")), answers("c2", "2"), answers("c1", "1"), result()])
    assert [(event.call_id, event.output) for event in turn.events if isinstance(event, ActionResult)] == [
        ("c2", "2"),
        ("c1", "1"),
    ]


def agent_run() -> list[Any]:
    """An agent in the background, as the CLI runs it: its result comes at once, and it ends after the first result."""
    call = ToolUseBlock(id="a1", name="Agent", input={"prompt": "p", "subagent_type": "finder"})
    system = {"subtype": "x", "data": {}, "uuid": None, "session_id": "s"}

    def task(kind: Any, subtype: str, **data: Any) -> Any:
        names = {field.name for field in dataclasses.fields(kind)}
        given = {**system, "uuid": f"u{next(NUMBERS)}", "subtype": subtype, "data": data, **data}
        return kind(**{name: value for name, value in given.items() if name in names})

    return [
        INIT,
        says(call),
        task(TaskStartedMessage, "task_started", task_id="t", tool_use_id="a1", description="d", is_backgrounded=True),
        answers("a1", "Async agent launched", details={"isAsync": True, "status": "async_launched"}),
        says(bash("c1"), parent="a1", message="m2"),
        says(TextBlock(text="Started."), message="m3"),
        result(),
        answers("c1", "found", parent="a1"),
        says(TextBlock(text="It is here."), parent="a1", message="m4"),
        task(TaskUpdatedMessage, "task_updated", task_id="t", patch={"status": "completed"}, status="completed"),
        task(
            TaskNotificationMessage,
            "task_notification",
            task_id="t",
            tool_use_id="a1",
            status="completed",
            summary="done",
            output_file="f",
        ),
        INIT,
        says(TextBlock(text="Here it is."), message="m5"),
        result(),
    ]


def test_nested_agent() -> None:
    """What an agent in the background does counts, also after the first result; what it says is what came of it."""
    turn = converter.to_turn(agent_run())
    assert SubagentCalled(call_id="a1", name="finder") in turn.events
    assert SubagentCompleted(call_id="a1", output="It is here.", status="completed") in turn.events
    assert (statuses(turn)["c1"], texts(turn)) == ("completed", ["Started.", "Here it is."])
    assert lowered(turn) == {"usage"}
    assert turn.usage is not None
    assert turn.usage.input_tokens == 200


@pytest.mark.parametrize("length", range(3, 13))
def test_a_nested_agent_that_was_not_waited_for(length: int) -> None:
    """`receive_response` ends at the first result: nothing is complete while an agent runs on, or more is to come."""
    turn = converter.to_turn(agent_run()[:length])
    assert {"events", "actions", "messages", "usage", "status"} <= lowered(turn)


def test_an_agent_whose_end_is_only_an_update() -> None:
    """The notification may never come: the update says that it ended."""
    messages = agent_run()
    del messages[10]
    assert (
        SubagentCompleted(call_id="a1", output="It is here.", status="completed") in converter.to_turn(messages).events
    )


def test_an_agent_in_the_foreground() -> None:
    """The result of its call is what came of it."""
    call = ToolUseBlock(id="a1", name="Task", input={"subagent_type": "finder"})
    details = {"status": "completed", "content": [{"type": "text", "text": "found"}]}
    turn = converter.to_turn([says(call), answers("a1", "found", details=details), result()])
    assert SubagentCompleted(call_id="a1", output="found", status="completed") in turn.events


def test_empty_answer() -> None:
    """A run that says nothing is completed."""
    turn = converter.to_turn([INIT, result()])
    assert (turn.events, turn.status, lowered(turn)) == ((), "completed", set())


def test_multi_part_content() -> None:
    """Texts, hidden reasoning, tools of the API and skills in one message."""
    turn = converter.to_turn(
        [
            says(
                ThinkingBlock(thinking="", signature="s"),
                TextBlock(text="one"),
                ServerToolUseBlock(id="s1", name="web_search", input={"query": "x"}),
                ServerToolResultBlock(tool_use_id="s1", content={"type": "web_search_tool_result_error"}),
                ToolUseBlock(id="k1", name="Skill", input={"skill": "/pdf"}),
                TextBlock(text="two"),
            ),
            answers("k1", "loaded", error=None),
            result(),
        ]
    )
    assert texts(turn) == ["one", "two"]
    assert ActionCalled(call_id="s1", name="web_search", input={"query": "x"}, tool="web_search") in turn.events
    assert ActionCalled(call_id="k1", name="load_skill", input={"skill": "pdf"}) in turn.events
    assert statuses(turn) == {"s1": "failed", "k1": "completed"}
    assert lowered(turn) == {"events"}


def test_structured_output() -> None:
    """The tool that gives the answer is no action; the answer is data, and it has been said."""
    answer = ToolUseBlock(id="o1", name="StructuredOutput", input={"degrees": "x"})
    good = ToolUseBlock(id="o2", name="StructuredOutput", input={"degrees": 3})
    enforced = UserMessage(content=[TextBlock(text="[structured-output-enforce] call it")], uuid="e")
    messages = [
        enforced,
        says(answer),
        answers("o1", "must be integer", error=True),
        says(good),
        answers("o2", "ok", error=None),
    ]
    turn = converter.to_turn([*messages, result(structured_output={"degrees": 3})])
    assert turn.data == {"degrees": 3}
    assert [type(event) for event in turn.events] == [ErrorEvent, Message]
    assert texts(turn) == ['{"degrees": 3}']
    assert converter.to_turn([*messages, result(structured_output={"degrees": 3})], data=False).data is None


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        ({"is_error": True, "api_error_status": 400, "result": "API Error: 400"}, "API Error: 400"),
        ({"is_error": True, "subtype": "error_max_turns", "errors": ["too many turns"]}, "too many turns"),
        ({"is_error": True, "subtype": "error_during_execution"}, "error_during_execution"),
    ],
)
def test_results_that_are_errors(ended: dict[str, Any], said: str) -> None:
    """A result that is an error is a failed turn; what the SDK raises after it says nothing more."""

    async def run() -> AsyncIterator[Any]:
        yield says(TextBlock(text=f"{said}"), error="unknown")
        yield result(**ended)
        raise RuntimeError("the same once more")

    turn = asyncio.run(converter.to_turn_stream(run()))
    assert (turn.status, [event.message for event in turn.events if isinstance(event, ErrorEvent)]) == (
        "failed",
        [said],
    )
    assert lowered(turn) == set()


def test_error_mid_stream() -> None:
    """A stream that raises keeps what arrived, also of a text that never came whole."""

    async def run() -> AsyncIterator[Any]:
        yield says(bash("c1"))
        yield answers("c1", "ok")
        for text in ("Half ", "of it"):
            event = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
            yield StreamEvent(uuid=f"u{next(NUMBERS)}", session_id="s", event=event)
        raise ConnectionError("gone")

    turn = asyncio.run(converter.to_turn_stream(run()))
    assert (turn.status, texts(turn), statuses(turn)) == ("failed", ["Half of it"], {"c1": "completed"})
    assert {"events", "actions", "messages", "usage", "status"} <= lowered(turn)


def test_pieces_of_what_comes_whole() -> None:
    """Pieces of texts that come whole afterwards are not said twice."""
    event = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "whole"}}
    piece = StreamEvent(uuid="p", session_id="s", event=event)
    assert texts(converter.to_turn([piece, says(TextBlock(text="whole")), result()])) == ["whole"]


def test_compaction_limits_and_what_is_unknown() -> None:
    """A boundary is a compaction, a rate limit is said, and a message of an unknown kind lowers everything."""
    boundary = SystemMessage(subtype="compact_boundary", data={"compact_metadata": {"trigger": "auto"}})
    reset = ConversationResetMessage(new_conversation_id="n", uuid="r", session_id="s")
    limit = RateLimitEvent(rate_limit_info=RateLimitInfo(status="rejected"), uuid="l", session_id="s")
    collected = converter.collected([boundary, reset, limit, result()])
    assert next(event for event in collected.turn.events if isinstance(event, Compaction)) == Compaction(reason="auto")
    assert [said.code for said in collected.diagnostics] == ["rate-limited"]
    assert lowered(collected.turn) == set()
    odd = converter.to_turn([object(), SystemMessage(subtype="brand_new", data={}), result()])
    assert {"events", "actions", "messages", "usage", "status"} <= lowered(odd)


def test_messages_that_come_twice() -> None:
    """A message that is repeated, as a resumed session does it, is taken once."""
    said = says(TextBlock(text="hi"))
    assert texts(converter.to_turn([said, said, result()])) == ["hi"]


def test_json_forms() -> None:
    """Messages as plain data say the same."""
    messages = agent_run()
    assert converter.to_turn([dataclasses.asdict(message) for message in messages]) == converter.to_turn(messages)


def test_an_interrupted_turn() -> None:
    """A turn that was interrupted failed, whatever its result calls itself."""
    assert converter.to_turn([result(terminal_reason="aborted_tools")]).status == "failed"
