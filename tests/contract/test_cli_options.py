"""What the command-line agents' options give, by the real CLIs: servers, skills, plugins, hooks, limits."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from niceeval._base.errors import ProjectError
from niceeval.adapter import ActionCalled
from niceeval.adapters import bub_agent, codex_agent
from niceeval.adapters.codex._skills import skill_read
from niceeval.adapters.gemini_cli._transcript import Transcript as GeminiCli
from niceeval.adapters.opencode._transcript import Transcript as OpenCode
from niceeval.cli_agent import Hook, Plugin, Skill
from niceeval.testing.scenarios import ModelRequest, Scenario, Step, call, mcp, say, shell, slow, tool
from tests.contract.cli_rows import STARTED_WITHIN, USED_TWICE, attempt, levels, run, shown, used
from tests.contract.cli_ways import (
    LETTERS,
    PLUGIN_SAYS,
    PROBE_WORD,
    SKILL,
    SKILL_SAYS,
    WAYS,
    actions,
    alive,
    offering,
    skill_file,
    written,
)

takes_long = pytest.mark.slow
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


@takes_long
@pytest.mark.parametrize("name", offering("mcp_servers"))
def test_a_server_of_the_protocol(name: str) -> None:
    """The model calls a tool of a real server: it goes by the one name, with what the server answered; where the server
    says that it failed, it failed."""
    ways = WAYS[name]
    works, fails = mcp("my-letters", "count_letters", text="abcde"), mcp("my-letters", "count_letters", text="")
    letters = Scenario("letters", [*ways.finds, call(works), call(fails), say("Counted.")])

    async def counts() -> None:
        async with attempt(ways.cli, scenarios=[letters], mcp_servers=[LETTERS]) as one:
            turn = await one.send("SCENARIO:letters please")
            called = actions(turn, one, "mcp__my-letters__count_letters")
            assert called[0][1:] == ({"text": "abcde"}, "completed", f"5 letters, says {PROBE_WORD}")
            assert [one[1:3] for one in called[1:]] == [({"text": ""}, "failed")]
            assert (turn.status, one.codes) == ("completed", [])

    run(counts())


@pytest.mark.parametrize(
    ("given", "skill"),
    [
        ({"cmd": "cat /home/skills/review/SKILL.md"}, "review"),
        ({"cmd": "sed -n '1,120p' \"/home/my skills/review/SKILL.md\""}, "review"),
        ({"command": ["bash", "-lc", "head -n 50 skills/review/SKILL.md"]}, "review"),
        ({"command": ["cat", "skills/review/SKILL.md"]}, "review"),
        ({"cmd": "cat /x/plugins/cache/m/greeter/1.0.0/skills/greeting/SKILL.md"}, "greeter:greeting"),
        ({"cmd": "cat skills/review/SKILL.md && rm -rf build"}, None),
        ({"cmd": "cat skills/review/SKILL.md\nrm -rf build"}, None),
        ({"cmd": "cat skills/review/SKILL.md > note.txt"}, None),
        ({"cmd": "cat skills/review/SKILL.md $(touch here)"}, None),
        ({"cmd": "cat skills/review/SKILL.md skills/other/SKILL.md"}, None),
        ({"cmd": "rm skills/review/SKILL.md"}, None),
        ({"cmd": "sed -i s/a/b/ skills/review/SKILL.md"}, None),
        ({"cmd": "sed -i -n 1p skills/review/SKILL.md"}, None),
        ({"cmd": "cat SKILL.md"}, None),
        ({"cmd": "cat 'skills/review/SKILL.md"}, None),
        ({"cmd": "cat " + "x" * 3_000 + "/SKILL.md"}, None),
        ({"cmd": 5}, None),
        (None, None),
    ],
)
def test_which_command_of_codex_loads_a_skill(given: Any, skill: str | None) -> None:
    """One that reads the skill's file and does nothing else."""
    assert skill_read(given) == skill


@takes_long
@pytest.mark.parametrize("name", offering("skills"))
def test_a_skill(name: str, tmp_path: Path) -> None:
    """The model is told of the skill before it loads it, has what it says afterwards, and loading is one action that is
    the same for all of them."""
    ways = WAYS[name]
    folder = written(tmp_path / SKILL, {"SKILL.md": skill_file(SKILL, SKILL_SAYS)})
    steps = [lambda request: call(ways.loads(request, SKILL)), say("Read.")]

    async def loads() -> None:
        async with attempt(
            ways.cli, scenarios=[Scenario("skill", steps)], skills=[Skill(folder)], **ways.needs()
        ) as one:
            turn = await one.send("SCENARIO:skill please")
            first, *_, last = one.server.calls("skill")
            assert SKILL in json.dumps(first.body)
            assert SKILL_SAYS not in json.dumps(first.body)
            assert SKILL_SAYS in json.dumps(last.body)
            ((_, given, status, _),) = actions(turn, one, "load_skill")
            assert (given["skill"], status) == (SKILL, "completed")
            assert [event for event in shown(turn, one) if event.get("tool") == "shell"] == []

    run(loads())


@takes_long
@pytest.mark.parametrize("name", [name for name in offering("plugins") if WAYS[name].plugin])
def test_a_plugin(name: str, tmp_path: Path) -> None:
    """A folder of this machine is a plugin of the CLI, and nothing is fetched for it: what it brings is used."""
    ways = WAYS[name]
    assert ways.plugin is not None
    folder = written(tmp_path / "greeter", ways.plugin)
    action, given = ways.greets

    def greets(request: ModelRequest) -> Step:
        return call(ways.loads(request, given["skill"]) if "skill" in given else tool(action, **given))

    async def used() -> None:
        async with attempt(
            ways.cli, scenarios=[Scenario("greet", [greets, say("Ahoy.")])], plugins=[Plugin(folder)]
        ) as one:
            turn = await one.send("SCENARIO:greet please")
            assert PLUGIN_SAYS in json.dumps(one.server.calls("greet")[-1].body)
            ((_, said, status, _),) = actions(turn, one, action)
            assert ({**said, **given}, status) == (said, "completed")
            assert turn.status == "completed"

    run(used())


def test_plugins_that_are_none(tmp_path: Path) -> None:
    """They are refused when the agent is made, in words: what is no plugin of Codex's, two of one name, and packages
    for a Bub that is not installed."""
    bad = written(tmp_path / "bad", {"README.md": "nothing"})
    odd = written(tmp_path / "odd", {".codex-plugin/plugin.json": '{"name": "../up"}'})
    fine = written(tmp_path / "fine", {".claude-plugin/plugin.json": '{"name": "same"}'})
    for folders, said in (([bad], "no plugin of Codex"), ([odd], "no plugin of Codex"), ([fine, fine], "two plugins")):
        with pytest.raises(ProjectError, match=said):
            codex_agent(plugins=[Plugin(folder) for folder in folders])
    with pytest.raises(ProjectError, match="nothing is installed"):
        bub_agent(plugins=["bub-mcp"], command="bub")


HOOK = """input=$(cat)
case $input in *forbidden*) echo 'not in this house' >&2; exit 2;; esac
echo "$input" >> hook-was-told"""
"""A hook that keeps what it is told of each call, and blocks those that say so."""


@takes_long
@pytest.mark.parametrize("name", offering("hooks"))
def test_a_hook(name: str) -> None:
    """It runs before the tools that it is for, and is told what is called; a call that it blocks is not done, and is
    rejected, not failed, with the hook's reason; the turn goes on."""
    ways = WAYS[name]
    event, matcher = ways.before_tool
    hook = Hook(event=event, matcher=matcher, command=HOOK, timeout=STARTED_WITHIN)
    steps = [call(shell("echo allowed")), call(shell("echo forbidden > note.txt")), say("Done.")]

    async def hooked() -> None:
        async with attempt(ways.cli, scenarios=[Scenario("hooked", steps)], hooks=[hook]) as one:
            turn = await one.send("SCENARIO:hooked please")
            told = json.loads(await one.sandbox.read_file("hook-was-told"))
            assert (told["hook_event_name"], told["tool_input"]["command"]) == (event, "echo allowed")
            assert not await one.sandbox.file_exists("note.txt")
            events = shown(turn, one)
            done, blocked = (event for event in events if event["type"] == "action.result")
            assert (done["status"], done["output"].strip()) == ("completed", "allowed")
            assert blocked["status"] == "rejected"
            assert "not in this house" in blocked["output"]
            assert (events[-1]["text"], turn.status) == ("Done.", "completed")

    run(hooked())


@takes_long
@pytest.mark.parametrize("name", offering("max_turns"))
def test_a_limit_of_model_calls(name: str) -> None:
    """A model that never stops calling tools is stopped: the turn failed, and says why; what it did until then is
    there, whole where the CLI itself stops."""
    ways = WAYS[name]
    on_and_on = Scenario("on", [call(shell("echo step >> steps"))], repeats=True)

    async def limited() -> None:
        async with attempt(ways.cli, scenarios=[on_and_on], max_turns=2, **ways.needs()) as one:
            turn = await one.send("SCENARIO:on please")
            results = [event for event in shown(turn, one) if event["type"] == "action.result"]
            assert turn.status == "failed"
            assert [event["status"] for event in results[:2]] == ["completed", "completed"]
            reasons = [str(event.get("message")) for event in shown(turn, one) if event["type"] == "error"]
            reasons += [message for _, _, message in one.diagnostics]
            assert re.search(ways.limit, " ".join(reasons)), reasons
            if ways.stops_itself:
                assert (len(results), len(one.server.calls("on"))) == (2, 2)
                assert used(turn)["inputTokens"] == USED_TWICE["inputTokens"]
                assert levels(turn, one).get("messages", "complete") == "complete"
            else:
                assert levels(turn, one)["actions"] == "partial"

    run(limited())


LONGER = (1.0, 4.0, 30.0)
"""What `soon` is multiplied with, one after the other: how fast a machine is must not matter."""


@takes_long
@pytest.mark.parametrize("name", offering("turn_timeout"))
def test_a_limit_of_time(name: str) -> None:
    """A model that does not answer any more: at the limit the CLI is killed with all that it began, what it had shown
    by then is kept, and nothing is claimed to be whole."""
    ways = WAYS[name]
    hanging = Scenario("hang", [call(shell("echo one; sleep 900 > /dev/null 2>&1 &")), slow(say("Never."), 600.0)])

    async def timed_out(seconds: float) -> bool:
        async with attempt(ways.cli, scenarios=[hanging], turn_timeout=seconds, **ways.needs()) as one:
            sending, seen = asyncio.create_task(one.send("SCENARIO:hang please")), False
            while not sending.done():
                await asyncio.sleep(0.2)
                seen = seen or (not sending.done() and alive(one) != [])
            turn = await sending
            assert alive(one) == []
            assert (turn.status, "cli-killed" in one.codes) == ("failed", True)
            assert {"events", "actions", "messages", "usage"} <= set(levels(turn, one))
            called = [event for event in shown(turn, one) if event["type"].startswith("action.")]
            return seen and len(one.server.calls("hang")) >= 2 and len(called) == (2 if ways.streams else 0)

    assert any(run(timed_out(ways.soon * longer)) for longer in LONGER)
