"""Real agents that speak ACP, in a sandbox and in a container, against a scripted model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from niceeval.adapter import Agent, AgentSession, InputRequest, InputRequested, InputResponse, Turn, TurnInput
from niceeval.adapters import acp_agent
from niceeval.testing import ModelServer
from tests.contract.cli_rows import (
    KEY_VARIABLE,
    USED_ONCE,
    USED_TWICE,
    Attempt,
    Cli,
    attempt,
    cancelled,
    conversation,
    levels,
    run,
    shown,
    used,
)

pytestmark = pytest.mark.slow

GEMINI_MODEL = "gemini-2.5-flash"
GEMINI_SETTINGS = {
    "general": {"enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}},
}
IN_OWN_HOME = """
set -e
mkdir -p home/.gemini home/config
printf '%s' "$FIRST_SETTINGS" > home/.gemini/settings.json
HOME=$PWD/home GEMINI_CLI_HOME=$PWD/home XDG_CONFIG_HOME=$PWD/home/config XDG_DATA_HOME=$PWD/home/data
XDG_STATE_HOME=$PWD/home/state XDG_CACHE_HOME=$PWD/home/cache
export HOME GEMINI_CLI_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_CACHE_HOME
exec "$@"
"""
"""The program is nobody's who has a home here: what it keeps stays in the workspace."""


def gemini(command: str, server: ModelServer, **options: Any) -> Agent:
    return acp_agent(
        command=["sh", "-c", IN_OWN_HOME, "sh", command, "--acp", "--model", GEMINI_MODEL],
        name="gemini-acp",
        env={
            "GOOGLE_GEMINI_BASE_URL": server.url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "NO_COLOR": "1",
            "FIRST_SETTINGS": json.dumps(GEMINI_SETTINGS),
        },
        secret_env={"GEMINI_API_KEY": KEY_VARIABLE},
        **options,
    )


def opencode(command: str, server: ModelServer, **options: Any) -> Agent:
    model = "scripted-model"
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "permission": {"bash": "ask", "edit": "ask"},
        "model": f"own/{model}",
        "small_model": f"own/{model}",
        "provider": {
            "own": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "own",
                "options": {"baseURL": server.openai_url, "apiKey": "{env:OWN_KEY}"},
                "models": {model: {}},
            }
        },
    }
    return acp_agent(
        command=["sh", "-c", IN_OWN_HOME, "sh", command, "acp"],
        name="opencode-acp",
        env={
            "OPENCODE_CONFIG_CONTENT": json.dumps(settings),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "FIRST_SETTINGS": "{}",
        },
        secret_env={"OWN_KEY": KEY_VARIABLE},
        **options,
    )


GEMINI = Cli("gemini-cli", gemini, model=GEMINI_MODEL)
OPENCODE = Cli("opencode", opencode)
AGENTS = pytest.mark.parametrize("cli", [GEMINI, OPENCODE], ids=["gemini", "opencode"])
SEEN = {"events": "partial", "actions": "partial", "usage": "partial", "data": "unavailable"}
"""What the protocol promises of every turn, whatever the agent."""
ALLOW = {"gemini-cli": "proceed_once", "opencode": "once"}
REFUSE = {"gemini-cli": "cancel", "opencode": "reject"}
ENDED = {
    "gemini-cli": [("message", "Not pushed."), ("action.result", "rejected")],
    "opencode": [("action.result", "rejected")],
}
"""What comes of a refusal: Gemini tells its model and says no more of the call; opencode ends the turn."""
COUNTED = {"gemini-cli": USED_TWICE, "opencode": USED_ONCE}
"""The tokens of a turn of two model calls: opencode reports the last one's."""


def asked(turn: Turn) -> list[InputRequest]:
    """What a turn waits for."""
    return [event.request for event in turn.events if isinstance(event, InputRequested)]


async def answered(one: Attempt, session: AgentSession, turn: Turn, option: str) -> list[Turn]:
    """Answer whatever a turn asks, and what the next one asks; all turns that followed."""
    turns: list[Turn] = []
    while turn.status == "waiting":
        assert len(turns) < 4
        answers = tuple(InputResponse(request_id=request.id, option_id=option) for request in asked(turn))
        turn = await one.agent.send(TurnInput(text="", responses=answers), one.context(session))
        turns.append(turn)
    return turns


def told(turn: Turn, one: Attempt) -> list[tuple[str, Any]]:
    """The kind of each event, with a message's text or a result's status; thoughts are each agent's own."""
    events = [event for event in shown(turn, one) if event["type"] != "thinking"]
    return [(event["type"], event.get("text") or event.get("status")) for event in events]


async def asks_before_it_acts(cli: Cli) -> None:
    async with attempt(cli) as one:
        session = AgentSession()
        waiting = await one.send("SCENARIO:create please", session)
        kinds = [("message", "I will write it."), ("action.called", None), ("input.requested", None)]
        assert (waiting.status, told(waiting, one)) == ("waiting", kinds)
        (request,) = asked(waiting)
        assert request.action == "edit"
        assert {ALLOW[cli.name], REFUSE[cli.name]} < {option.id for option in request.options or ()}
        assert not await one.sandbox.file_exists("note.txt")
        (done,) = await answered(one, session, waiting, ALLOW[cli.name])
        assert told(done, one) == [("action.result", "completed"), ("message", "Done.")]
        assert (used(done), levels(done, one)) == (COUNTED[cli.name], SEEN)
        assert await one.sandbox.read_file("note.txt") == "hello\n"

        waiting = await one.send("SCENARIO:push please", session)
        (called,) = (event for event in shown(waiting, one) if event["type"] == "action.called")
        assert "git push origin main" in called["input"].values()
        assert (called["name"], called["tool"]) == ("execute", "shell")
        (refused,) = await answered(one, session, waiting, REFUSE[cli.name])
        assert (refused.status, told(refused, one)) == ("completed", ENDED[cli.name])

        first = await one.send("SCENARIO:two please", session)
        turns = [first, *await answered(one, session, first, ALLOW[cli.name])]
        events = [event for turn in turns for event in turn.events]
        calls = [event.call_id for event in events if event.__class__.__name__ == "ActionCalled"]
        results = [event.call_id for event in events if event.__class__.__name__ == "ActionResult"]
        assert len(calls) == len(set(calls)) == 2
        assert sorted(calls) == sorted(results)
        assert told(turns[-1], one)[-1] == ("message", "Both ran.")
        assert one.codes == []


@AGENTS
@pytest.mark.usefixtures("place")
def test_it_asks_before_it_acts(cli: Cli) -> None:
    """What was allowed is done, and not before; a refusal is rejected; calls are said once, over however many turns."""
    run(asks_before_it_acts(cli))


@AGENTS
def test_a_conversation(cli: Cli) -> None:
    """A rate limit is waited out; a second turn sees the first; a new session sees nothing."""
    (limited, again, new), one = run(conversation(cli, permissions="allow"))
    assert told(limited, one) == [("message", "After the limit.")]
    assert told(again, one) == [("message", "You said: My word is zebra.")]
    assert told(new, one) == [("message", "nothing")]
    for turn in (limited, again, new):
        assert used(turn) == USED_ONCE
        assert levels(turn, one) == SEEN


@AGENTS
@pytest.mark.usefixtures("place")
def test_a_cancelled_turn(cli: Cli) -> None:
    """The command that runs is dead when the cancellation is over."""
    run(cancelled(cli, permissions="allow"))
