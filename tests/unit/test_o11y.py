"""The summary of what an attempt did."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

import msgspec
import pytest

from niceeval._evidence.o11y import MAX_LISTED, MAX_TEXT, summarise
from niceeval._model.events import (
    ActionCalled,
    ActionResult,
    Compaction,
    ErrorEvent,
    Message,
    StreamEvent,
    Thinking,
    UnknownEvent,
)
from niceeval._model.o11y import O11ySummary, ShellCommand, TurnSummary, WebFetch
from niceeval._model.usage import Usage

Status = Literal["completed", "failed", "rejected"]


def turn(session: int = 0) -> TurnSummary:
    return TurnSummary(first_event=0, last_event=1, start_ms=0, end_ms=5, status="completed", session=session)


def call(
    tool: str | None,
    given: Any,
    output: Any = None,
    status: Status | None = "completed",
    call_id: str = "c",
    name: str = "t",
) -> list[StreamEvent]:
    made: list[StreamEvent] = [ActionCalled(call_id=call_id, name=name, input=given, tool=tool)]
    return made if status is None else [*made, ActionResult(call_id=call_id, status=status, output=output)]


def summary(events: list[StreamEvent], *turns: TurnSummary) -> O11ySummary:
    return summarise(events, turns or (turn(),), 7, None, None)


def test_the_json_form_is_the_contract() -> None:
    """Field names are those of the results format."""
    events = [
        Message(role="user", text="hi"),
        Thinking(text="hm"),
        *call("file_read", {"path": "a.py"}, name="Read"),
        *call("shell", {"command": "ls"}, {"exitCode": 0}, call_id="d", name="Bash"),
        Compaction(),
        ErrorEvent(message="odd"),
        UnknownEvent("future", {"type": "future"}),
    ]
    usage = Usage(input_tokens=1, output_tokens=2)
    found = msgspec.to_builtins(summarise(events, [turn()], 7, usage, Decimal("0.25")))
    assert found == {
        "totalTurns": 1,
        "toolCalls": {"Read": 1, "Bash": 1},
        "totalToolCalls": 2,
        "filesRead": ("a.py",),
        "filesModified": (),
        "shellCommands": ({"command": "ls", "exitCode": 0, "success": True},),
        "webFetches": (),
        "errors": ("odd",),
        "thinkingBlocks": 1,
        "compactions": 1,
        "durationMs": 7,
        "turns": ({"firstEvent": 0, "lastEvent": 1, "startMs": 0, "endMs": 5, "status": "completed"},),
        "usage": {"inputTokens": 1, "outputTokens": 2},
        "estimatedCostUSD": 0.25,
    }


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ({"path": "a"}, ("a",)),
        ({"file_path": "a", "content": "x"}, ("a",)),
        ({"filename": "a"}, ("a",)),
        ({"paths": ["a", "b", 3, "a"]}, ("a", "b")),
        ("a", ("a",)),
        ({"path": ""}, ()),
        ({"path": 3}, ()),
        ({"other": "a"}, ()),
        (["a"], ()),
        (None, ()),
    ],
)
def test_files_come_from_common_keys(given: Any, paths: tuple[str, ...]) -> None:
    """Reads and writes are told apart by the canonical tool."""
    assert summary(call("file_read", given)).files_read == paths
    assert summary(call("file_write", given)).files_modified == paths
    assert summary(call("file_edit", given)).files_modified == paths
    assert summary(call(None, given)).files_read == ()


def test_a_file_counts_once_and_only_when_the_call_did_something() -> None:
    """A failed or refused call read nothing; one without a result may have."""
    events = [
        *call("file_read", {"path": "a"}, call_id="1"),
        *call("file_read", {"path": "a"}, call_id="2"),
        *call("file_read", {"path": "failed"}, status="failed", call_id="3"),
        *call("file_read", {"path": "refused"}, status="rejected", call_id="4"),
        *call("file_read", {"path": "open"}, status=None, call_id="5"),
    ]
    found = summary(events)
    assert found.files_read == ("a", "open")
    assert found.total_tool_calls == 5


@pytest.mark.parametrize(
    ("given", "output", "status", "expected"),
    [
        ({"command": "ls"}, {"exit_code": 2}, "completed", ShellCommand(command="ls", exit_code=2, success=False)),
        ({"cmd": ["echo", "a b"]}, "text", "completed", ShellCommand(command="echo 'a b'", success=True)),
        ("ls", None, "failed", ShellCommand(command="ls", success=False)),
        ({"command": "ls"}, None, None, ShellCommand(command="ls")),
        ({"command": "ls"}, {"exit_code": True}, "completed", ShellCommand(command="ls", success=True)),
        ({"command": "ls"}, None, "rejected", None),
        ({"command": []}, None, "completed", None),
    ],
)
def test_shell_commands_say_how_they_ended(
    given: Any, output: Any, status: Status | None, expected: ShellCommand | None
) -> None:
    """The exit code where the output has one, success where a result says it, nothing where nothing is known."""
    assert summary(call("shell", given, output, status)).shell_commands == (() if expected is None else (expected,))


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"status": 404}, WebFetch(url="https://a", status=404, success=False)),
        ({"statusCode": 200}, WebFetch(url="https://a", status=200, success=True)),
        ("text", WebFetch(url="https://a", success=True)),
    ],
)
def test_fetches_say_how_they_ended(output: Any, expected: WebFetch) -> None:
    """The HTTP status where the output has one."""
    assert summary(call("web_fetch", {"url": "https://a"}, output)).web_fetches == (expected,)


def test_an_id_that_two_sessions_share_proves_nothing() -> None:
    """Results pair within one session; where it cannot be told whose a result is, no success is claimed."""
    events = [
        *call("shell", {"command": "a"}, status=None),
        *call("shell", {"command": "b"}, {"exit_code": 0}),
    ]
    unknown = (ShellCommand(command="a"), ShellCommand(command="b"))
    assert summary(events).shell_commands == unknown
    assert summary(events, turn(0), turn(1)).shell_commands == unknown


def test_lists_and_texts_are_bounded() -> None:
    """A runaway agent does not make a runaway summary, and what is left out is counted."""
    events: list[StreamEvent] = []
    for number in range(MAX_LISTED + 20):
        events += call("file_read", {"path": f"f{number}"}, call_id=str(number), name=f"tool{number}")
        events += call("shell", {"command": "x" * 5_000}, call_id=f"s{number}", name="Bash")
        events.append(ErrorEvent(message="e" * 5_000))
    found = summary(events)
    for listed in (found.files_read, found.shell_commands, found.errors, found.tool_calls):
        assert len(listed) == MAX_LISTED
    assert found.files_read[-1] == "… and 21 more"
    assert sum(found.tool_calls.values()) == found.total_tool_calls
    assert max(map(len, found.errors)) == MAX_TEXT
    assert max(len(shell.command) for shell in found.shell_commands) == MAX_TEXT


def test_an_attempt_without_events_has_an_empty_summary() -> None:
    """Nothing happened, and nothing is made up."""
    found = summarise([], [], 3, None, None)
    assert (found.total_turns, found.total_tool_calls, found.usage, found.estimated_cost_usd) == (0, 0, None, None)
