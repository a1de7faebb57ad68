"""The real opencode in a sandbox, against a scripted model: the rows that differ from what other CLIs show."""

from __future__ import annotations

from typing import Any

import pytest

from niceeval.adapter import Agent
from niceeval.adapters import opencode_agent
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
    return opencode_agent(
        command=command, version="1.18.33", base_url=server.openai_url, api_key_env=KEY_VARIABLE, **options
    )


CLI = Cli("opencode", agent)
UNSEEN = {"data": "unavailable"}
"""What no turn shows."""


async def works_and_is_refused() -> None:
    rules = {"permission": {"bash": {"*": "allow", "git push*": "ask"}}}
    async with attempt(CLI, settings=rules) as one:
        turn = await one.send("SCENARIO:create please")
        assert await one.sandbox.read_file("note.txt") == "hello\n"
        events = shown(turn, one)
        assert [event["type"] for event in events if event["type"] != "thinking"] == [
            "message",
            "action.called",
            "action.result",
            "message",
        ]
        called, result = (event for event in events if event["type"].startswith("action."))
        assert called["input"] == {"filePath": "note.txt", "content": "hello\n"}
        assert (called["name"], called["tool"], result["status"]) == ("write", "file_write", "completed")
        assert (turn.status, used(turn)) == ("completed", {**USED_TWICE, "requests": 2})
        assert levels(turn, one) == UNSEEN
        refused = await one.send("SCENARIO:push please")
        results = [event for event in shown(refused, one) if event["type"] == "action.result"]
        assert [event["status"] for event in results] == ["rejected"]
        assert (refused.status, levels(refused, one)) == ("completed", UNSEEN)
        assert one.diagnostics == [("cli-version", "info", "opencode 1.18.33")]


def test_it_creates_a_file_and_is_refused_a_command() -> None:
    """Words, call, result and answer as they happened; what would have to be asked is rejected, and ends the turn."""
    run(works_and_is_refused())


def test_a_conversation() -> None:
    """A rate limit is waited out; a second turn sees the first; a new session sees nothing."""
    (limited, again, new), one = run(conversation(CLI))
    assert [event["text"] for event in shown(limited, one) if event["type"] == "message"] == ["After the limit."]
    assert shown(again, one) == [{"type": "message", "role": "assistant", "text": "You said: My word is zebra."}]
    assert shown(new, one) == [{"type": "message", "role": "assistant", "text": "nothing"}]
    for turn in (limited, again, new):
        assert used(turn) == {**USED_ONCE, "requests": 1}
        assert levels(turn, one) == UNSEEN
