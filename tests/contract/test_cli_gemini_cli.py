"""The real Gemini CLI in a sandbox, against a scripted model: the rows that differ from what other CLIs show."""

from __future__ import annotations

from typing import Any

import pytest

from niceeval.adapter import Agent
from niceeval.adapters import gemini_cli_agent
from niceeval.testing import ModelServer
from tests.contract.cli_rows import (
    KEY_VARIABLE,
    USED_ONCE,
    USED_TWICE,
    Cli,
    attempt,
    conversation,
    levels,
    run,
    shown,
    used,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("place")]


def agent(command: str, server: ModelServer, **options: Any) -> Agent:
    return gemini_cli_agent(command=command, version="0.61.0", base_url=server.url, api_key_env=KEY_VARIABLE, **options)


CLI = Cli("gemini-cli", agent, model="gemini-2.5-flash")
UNSEEN = {"events": "partial", "data": "unavailable"}
"""What no turn shows: thoughts, compaction, a structured answer."""


async def works_and_is_refused() -> None:
    async with attempt(CLI, denied_tools=["run_shell_command(git push)"]) as one:
        turn = await one.send("SCENARIO:create please")
        assert await one.sandbox.read_file("note.txt") == "hello\n"
        assert shown(turn, one) == [
            {"type": "message", "role": "assistant", "text": "I will write it."},
            {
                "type": "action.called",
                "callId": "call-1",
                "name": "write_file",
                "input": {"file_path": "note.txt", "content": "hello\n"},
                "tool": "file_write",
            },
            {"type": "action.result", "callId": "call-1", "status": "completed"},
            {"type": "message", "role": "assistant", "text": "Done."},
        ]
        assert (turn.status, used(turn)) == ("completed", USED_TWICE)
        assert levels(turn, one) == UNSEEN
        refused = await one.send("SCENARIO:push please")
        (result,) = (event for event in shown(refused, one) if event["type"] == "action.result")
        assert result["status"] == "rejected"
        assert refused.status == "completed"
        assert one.diagnostics == [("cli-version", "info", "gemini-cli 0.61.0")]


def test_it_creates_a_file_and_is_refused_a_command() -> None:
    """Words, call, result and answer as they happened; what a rule denies is rejected, and the turn goes on."""
    run(works_and_is_refused())


def test_a_conversation() -> None:
    """A rate limit is waited out; a second turn sees the first; a new session sees nothing."""
    (limited, again, new), one = run(conversation(CLI))
    assert shown(limited, one) == [{"type": "message", "role": "assistant", "text": "After the limit."}]
    assert shown(again, one) == [{"type": "message", "role": "assistant", "text": "You said: My word is zebra."}]
    assert shown(new, one) == [{"type": "message", "role": "assistant", "text": "nothing"}]
    for turn in (limited, again, new):
        assert used(turn) == USED_ONCE
        assert levels(turn, one) == UNSEEN
