"""What the command-line agents' options give, by the real CLIs: servers, skills, plugins, hooks, limits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from niceeval.adapter import ActionCalled
from niceeval.adapters.gemini_cli._transcript import Transcript as GeminiCli
from niceeval.adapters.opencode._transcript import Transcript as OpenCode
from niceeval.testing.scenarios import Scenario, call, mcp, say
from tests.contract.cli_rows import attempt, run
from tests.contract.cli_ways import LETTERS, PROBE_WORD, WAYS, actions, offering

slow = pytest.mark.slow
DOCUMENT = Path(__file__).parents[2] / "docs" / "coding-agents.md"


def test_the_documentation_says_who_has_which_option() -> None:
    """The table of servers, skills, plugins and hooks is what the factories take."""
    rows = {"MCP servers": "mcp_servers", "skills": "skills", "plugins": "plugins", "hooks": "hooks"}
    titles = ["claude-code", "codex", "bub", "opencode", "gemini-cli"]
    text = DOCUMENT.read_text("utf-8")
    for row, option in rows.items():
        (line,) = re.findall(rf"^\| {row} \| (.*) \|$", text, re.MULTILINE)
        said = dict(zip(titles, line.split(" | "), strict=True))
        without = {name for name, words in said.items() if words in ("no", "through a plugin")}
        assert set(WAYS) - without == set(offering(option)), option
    assert set(offering("max_turns")) == set(WAYS) - {"codex"}
    assert set(offering("turn_timeout")) == set(WAYS)


@pytest.mark.parametrize(
    ("transcript", "line", "prefix"),
    [
        (GeminiCli, {"type": "tool_use", "tool_id": "1"}, "mcp_"),
        (OpenCode, {"type": "tool_use", "part": {"id": "p", "callID": "1", "state": {"status": "running"}}}, ""),
    ],
)
@pytest.mark.parametrize(
    ("name", "plain"),
    [("a_b_c", "mcp__a_b__c"), ("a_c", "mcp__a__c"), ("a_b_", "mcp__a__b_"), ("a-1_c_d", "mcp__a-1__c_d")],
)
def test_where_a_servers_name_ends(
    transcript: Callable[..., Any], line: dict[str, Any], prefix: str, name: str, plain: str
) -> None:
    """The servers that were given say it, where the CLI puts one sign between the names and in them."""
    reading = transcript(servers=["a", "a_b", "a-1"])
    part = {**line.get("part", {}), "tool": prefix + name}
    reading.feed(json.dumps({**line, "tool_name": prefix + name, "part": part}).encode() + b"\n")
    (event,) = (event for event in reading.finish(exit_code=0).turn.events if isinstance(event, ActionCalled))
    assert event.name == plain


@slow
@pytest.mark.parametrize("name", offering("mcp_servers"))
def test_a_server_of_the_protocol(name: str) -> None:
    """The model calls a tool of a real server: it goes by the one name, with what the server answered; where the server
    says that it failed, it failed."""
    ways = WAYS[name]
    works, fails = mcp("letters", "count_letters", text="abcde"), mcp("letters", "count_letters", text="")
    letters = Scenario("letters", [*ways.finds, call(works), call(fails), say("Counted.")])

    async def counts() -> None:
        async with attempt(ways.cli, scenarios=[letters], mcp_servers=[LETTERS]) as one:
            turn = await one.send("SCENARIO:letters please")
            called = actions(turn, one, "mcp__letters__count_letters")
            assert called[0][1:] == ({"text": "abcde"}, "completed", f"5 letters, says {PROBE_WORD}")
            assert [one[1:3] for one in called[1:]] == [({"text": ""}, "failed")]
            assert (turn.status, one.codes) == ("completed", [])

    run(counts())
