"""The real Claude Code in a sandbox, against a scripted model: events, usage and coverage, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from niceeval.adapter import Agent
from niceeval.adapters import claude_code_agent
from niceeval.testing import ModelServer
from tests.contract.cli_rows import (
    KEY_VARIABLE,
    USED_ONCE,
    USED_TWICE,
    Cli,
    attempt,
    cancelled,
    conversation,
    levels,
    parallel,
    run,
    shown,
    used,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("place")]


def agent(command: str, server: ModelServer, **options: Any) -> Agent:
    return claude_code_agent(
        command=command,
        version="2.1.332",
        base_url=server.url,
        api_key_env=KEY_VARIABLE,
        env={"CLAUDE_CODE_MAX_RETRIES": "2"},
        **options,
    )


CLI = Cli("claude-code", agent)
UNSEEN = {"data": "unavailable"}
"""What no turn shows."""


def without_cost(usage: dict[str, Any]) -> dict[str, Any]:
    """What the CLI takes a model for that it does not know is its own matter."""
    return {key: value for key, value in usage.items() if key != "costUSD"}


async def creates() -> None:
    async with attempt(CLI) as one:
        turn = await one.send("SCENARIO:create please")
        assert await one.sandbox.read_file("note.txt") == "hello\n"
        assert shown(turn, one) == [
            {"type": "thinking", "text": "A file."},
            {"type": "message", "role": "assistant", "text": "I will write it."},
            {
                "type": "action.called",
                "callId": "call-1",
                "name": "Write",
                "input": {"file_path": "note.txt", "content": "hello\n"},
                "tool": "file_write",
            },
            {
                "type": "action.result",
                "callId": "call-1",
                "status": "completed",
                "output": "File created successfully at: note.txt (file state is current in your context — no need to "
                "Read it back)",
            },
            {"type": "message", "role": "assistant", "text": "Done."},
        ]
        assert (turn.status, without_cost(used(turn))) == ("completed", {**USED_TWICE, "requests": 2})
        assert levels(turn, one) == UNSEEN
        assert one.diagnostics == [("cli-version", "info", "claude-code 2.1.332")]


def test_it_creates_a_file() -> None:
    """Thought, words, call, result and answer come as they happened, with what they used."""
    run(creates())


async def runs_commands() -> None:
    async with attempt(CLI) as one:
        failed = await one.send("SCENARIO:fails please")
        assert shown(failed, one)[:2] == [
            {
                "type": "action.called",
                "callId": "call-1",
                "name": "Bash",
                "input": {"command": "echo bad >&2; exit 3", "description": "scripted shell"},
                "tool": "shell",
            },
            {"type": "action.result", "callId": "call-1", "status": "failed", "output": "Exit code 3\nbad"},
        ]
        assert (failed.status, levels(failed, one)) == ("completed", UNSEEN)
        both = await one.send("SCENARIO:two please")
        assert parallel(both, one) == [
            ("action.called", "call-1", None),
            ("action.called", "call-2", None),
            ("action.result", "call-1", "one"),
            ("action.result", "call-2", "two"),
            ("message", None, None),
        ]
        assert without_cost(used(both)) == {**USED_TWICE, "requests": 2}
        assert levels(both, one) == UNSEEN


def test_a_command_that_fails_and_two_at_once() -> None:
    """A failing command is a failed action of a turn that goes on; each of two parallel calls has its own result."""
    run(runs_commands())


@pytest.mark.parametrize(
    "options",
    [{"permission_mode": "default"}, {"permission_mode": "default", "allowed_tools": ["Bash(git status:*)"]}],
    ids=["default", "another allowed"],
)
def test_a_tool_is_refused(options: dict[str, Any]) -> None:
    """What would have to be asked is rejected, not failed, and is not done."""

    async def refused() -> None:
        async with attempt(CLI, **options) as one:
            turn = await one.send("SCENARIO:create please")
            assert not await one.sandbox.file_exists("note.txt")
            (result,) = (event for event in shown(turn, one) if event["type"] == "action.result")
            assert result["status"] == "rejected"
            assert (turn.status, levels(turn, one), one.codes) == ("completed", UNSEEN, [])

    run(refused())


def test_a_conversation() -> None:
    """A rate limit is waited out and said; a second turn sees the first; a new session sees nothing."""
    (limited, again, new), one = run(conversation(CLI))
    assert shown(limited, one) == [
        {"type": "error", "message": "retry 1 of 2 after 429 (rate_limit)"},
        {"type": "message", "role": "assistant", "text": "After the limit."},
    ]
    assert one.codes == ["rate-limited"]
    assert shown(again, one) == [{"type": "message", "role": "assistant", "text": "You said: My word is zebra."}]
    assert shown(new, one) == [{"type": "message", "role": "assistant", "text": "nothing"}]
    for turn in (limited, again, new):
        assert without_cost(used(turn)) == {**USED_ONCE, "requests": 1}
        assert levels(turn, one) == UNSEEN


def test_a_cancelled_turn_leaves_nothing_running() -> None:
    """Neither the CLI nor the command that it ran."""
    run(cancelled(CLI))
