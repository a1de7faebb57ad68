"""The real Codex in a sandbox, against a scripted model: events, usage and coverage, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from niceeval.adapter import Agent
from niceeval.adapters import codex_agent
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

RETRIES = {"model_providers": {"niceeval": {"request_max_retries": 2, "stream_max_retries": 2}}}


def agent(command: str, server: ModelServer, **options: Any) -> Agent:
    return codex_agent(
        command=command,
        version="0.171.0",
        base_url=server.openai_url,
        api_key_env=KEY_VARIABLE,
        settings=RETRIES,
        **options,
    )


CLI = Cli(
    "codex",
    agent,
    varies=((r"exceeded retry limit, last status: (\d+)[^)]*", r"exceeded retry limit, last status: \1"),),
)
UNSEEN = {"data": "unavailable"}
"""What no turn shows."""
UNKNOWN_MODEL = {
    "type": "error",
    "message": "Model metadata for `scripted-model` not found. Defaulting to fallback metadata; this can degrade "
    "performance and cause issues.",
}
"""What Codex says first to a model that it does not know."""


async def creates() -> None:
    async with attempt(CLI) as one:
        turn = await one.send("SCENARIO:create please")
        assert await one.sandbox.read_file("note.txt") == "hello\n"
        assert shown(turn, one) == [
            UNKNOWN_MODEL,
            {"type": "thinking", "text": "A file."},
            {"type": "message", "role": "assistant", "text": "I will write it."},
            {
                "type": "action.called",
                "callId": "call-1",
                "name": "exec_command",
                "input": {"cmd": "printf %s 'hello\n' > note.txt"},
                "tool": "shell",
            },
            {"type": "action.result", "callId": "call-1", "status": "completed", "output": ""},
            {"type": "message", "role": "assistant", "text": "Done."},
        ]
        assert (turn.status, used(turn)) == ("completed", {**USED_TWICE, "requests": 2})
        assert levels(turn, one) == UNSEEN
        assert one.diagnostics == [("cli-version", "info", "codex 0.171.0")]


def test_it_creates_a_file() -> None:
    """Thought, words, call, result and answer come as they happened, with what they used."""
    run(creates())


async def runs_commands() -> None:
    async with attempt(CLI) as one:
        failed = await one.send("SCENARIO:fails please")
        assert shown(failed, one)[1:3] == [
            {
                "type": "action.called",
                "callId": "call-1",
                "name": "exec_command",
                "input": {"cmd": "echo bad >&2; exit 3"},
                "tool": "shell",
            },
            {"type": "action.result", "callId": "call-1", "status": "failed", "output": "bad\n"},
        ]
        assert (failed.status, levels(failed, one)) == ("completed", UNSEEN)
        both = await one.send("SCENARIO:two please")
        assert parallel(both, one)[1:] == [
            ("action.called", "call-1", None),
            ("action.called", "call-2", None),
            ("action.result", "call-1", "one\n"),
            ("action.result", "call-2", "two\n"),
            ("message", None, None),
        ]
        assert used(both) == {**USED_TWICE, "requests": 2}
        assert levels(both, one) == UNSEEN


def test_a_command_that_fails_and_two_at_once() -> None:
    """A failing command is a failed action of a turn that goes on; each of two parallel calls has its own result."""
    run(runs_commands())


def test_a_command_is_refused() -> None:
    """`codex exec` never asks; what a rule forbids is rejected, not failed, and only its thread's file shows it."""

    async def refused() -> None:
        async with attempt(CLI, denied_commands=["git push"]) as one:
            turn = await one.send("SCENARIO:push please")
            called, result = (event for event in shown(turn, one) if event["type"].startswith("action."))
            assert called["input"] == {"cmd": "git push origin main"}
            assert result["status"] == "rejected"
            assert "policy forbids commands starting with `git push`" in result["output"]
            assert (turn.status, levels(turn, one), one.codes) == ("completed", UNSEEN, [])

    run(refused())


def test_a_conversation() -> None:
    """A rate limit is waited out and said; a second turn sees the first, and counts its own tokens alone; a new session
    sees nothing."""
    (limited, again, new), one = run(conversation(CLI))
    assert shown(limited, one) == [
        UNKNOWN_MODEL,
        {"type": "error", "message": "Reconnecting... 1/2 (exceeded retry limit, last status: 429)"},
        {"type": "message", "role": "assistant", "text": "After the limit."},
    ]
    assert one.codes == ["rate-limited"]
    assert shown(again, one)[1:] == [{"type": "message", "role": "assistant", "text": "You said: My word is zebra."}]
    assert shown(new, one)[1:] == [{"type": "message", "role": "assistant", "text": "nothing"}]
    for turn in (limited, again, new):
        assert used(turn) == {**USED_ONCE, "requests": 1}
        assert levels(turn, one) == UNSEEN


def test_a_cancelled_turn_leaves_nothing_running() -> None:
    """Neither the CLI nor the command that it ran."""
    run(cancelled(CLI))
