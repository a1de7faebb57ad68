"""The real Bub in a sandbox, against a scripted model: events, usage and coverage, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from niceeval.adapter import Agent
from niceeval.adapters import bub_agent
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
    return bub_agent(command=command, version="0.5.1", base_url=server.openai_url, api_key_env=KEY_VARIABLE, **options)


# Bub puts a header with the time before each prompt.
CLI = Cli("bub", agent)
UNSEEN = {"data": "unavailable"}
"""What no turn shows."""
UNSURE = {"actions": "partial", "data": "unavailable"}
"""A tape does not say whether a tool failed."""


async def creates() -> None:
    async with attempt(CLI) as one:
        turn = await one.send("SCENARIO:create please")
        assert await one.sandbox.read_file("note.txt") == "hello\n"
        assert shown(turn, one) == [
            {"type": "message", "role": "assistant", "text": "I will write it."},
            {
                "type": "action.called",
                "callId": "call-1",
                "name": "fs_write",
                "input": {"path": "note.txt", "content": "hello\n"},
                "tool": "file_write",
            },
            {"type": "action.result", "callId": "call-1", "status": "completed", "output": "wrote: WORKDIR/note.txt"},
            {"type": "message", "role": "assistant", "text": "Done."},
        ]
        assert (turn.status, used(turn)) == ("completed", {**USED_TWICE, "requests": 2})
        assert levels(turn, one) == UNSURE
        assert one.diagnostics == [("cli-version", "info", "bub 0.5.1")]


def test_it_creates_a_file() -> None:
    """Words, call, result and answer come as they happened, with what they used. Chat Completions has no thoughts."""
    run(creates())


async def runs_commands() -> None:
    async with attempt(CLI) as one:
        failed = await one.send("SCENARIO:fails please")
        called, result, answer = shown(failed, one)
        assert (called["name"], called["tool"], called["input"]) == (
            "bash",
            "shell",
            {"command": "echo bad >&2; exit 3"},
        )
        assert result["status"] == "failed"
        assert "command exited with code 3" in result["output"]["details"]["error"]
        assert answer["text"] == "It failed."
        assert (failed.status, levels(failed, one)) == ("completed", UNSURE)
        both = await one.send("SCENARIO:two please")
        assert parallel(both, one) == [
            ("action.called", "call-1", None),
            ("action.called", "call-2", None),
            ("action.result", "call-1", "one"),
            ("action.result", "call-2", "two"),
            ("message", None, None),
        ]
        assert used(both) == {**USED_TWICE, "requests": 2}
        assert levels(both, one) == UNSURE


def test_a_command_that_fails_and_two_at_once() -> None:
    """A failing command is a failed action of a turn that goes on; each of two parallel calls has its own result."""
    run(runs_commands())


def test_it_never_asks() -> None:
    """Bub has no permissions: there is nothing to allow or to deny, and a prompt is never taken for its own command."""
    options = bub_agent.__kwdefaults__ or {}
    assert not {"allowed_tools", "denied_tools", "permission_mode"} & set(options)

    async def asked() -> None:
        async with attempt(CLI) as one:
            turn = await one.send(",help SCENARIO:recall")
            assert [event.get("text") for event in shown(turn, one)] == ["nothing"]
            assert len(one.server.calls("recall")) == 1

    run(asked())


def test_a_conversation() -> None:
    """A rate limit is waited out, which a tape does not say; a second turn sees the first; a new session nothing."""
    (limited, again, new), one = run(conversation(CLI))
    assert [request.status for request in one.server.calls("limited")] == [429, 200]
    assert shown(limited, one) == [{"type": "message", "role": "assistant", "text": "After the limit."}]
    (said,) = shown(again, one)
    assert said["text"].startswith("You said: ")
    assert said["text"].endswith("My word is zebra.")
    assert shown(new, one) == [{"type": "message", "role": "assistant", "text": "nothing"}]
    for turn in (limited, again, new):
        assert used(turn) == {**USED_ONCE, "requests": 1}
        assert levels(turn, one) == UNSEEN


def test_a_cancelled_turn_leaves_nothing_running() -> None:
    """Neither Bub nor the command that it ran."""
    run(cancelled(CLI))
