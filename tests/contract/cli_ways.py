"""How each command-line agent's model uses what an adapter's options give: the table of `test_cli_options.py`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from niceeval.adapter import Agent, Turn
from niceeval.adapters import bub_agent, claude_code_agent, codex_agent, gemini_cli_agent, opencode_agent
from niceeval.cli_agent import McpServer
from niceeval.testing.scenarios import ModelRequest, Operation, Step, call, shell, tool
from tests.contract.cli_installs import installed
from tests.contract.cli_rows import Attempt, Cli, shown
from tests.contract.test_cli_bub import CLI as BUB
from tests.contract.test_cli_claude_code import CLI as CLAUDE_CODE
from tests.contract.test_cli_codex import CLI as CODEX
from tests.contract.test_cli_gemini_cli import CLI as GEMINI_CLI
from tests.contract.test_cli_opencode import CLI as OPENCODE

PROBE_WORD = "zebra"
PLUGIN_SAYS = "Greet with ahoy."
SKILL, SKILL_SAYS = "house-style", "Write about pelicans."
LETTERS = McpServer(
    name="my-letters",
    command=sys.executable,
    args=(str(Path(__file__).with_name("cli_mcp_server.py")),),
    env={"PROBE_WORD": PROBE_WORD},
)
"""A server of our own, with the tool `count_letters`."""


@dataclass(frozen=True, kw_only=True)
class Ways:
    """What differs between the CLIs.

    `loads`: how the model loads a skill of a name. `plugin`: the files of a plugin that is called `greeter` and brings
    a skill, or a tool, called `greeting`; `greets`: what the action is called in which that is used, and its input.
    `before_tool`: the event at which a hook runs before a tool, and a matcher for the shell.
    `finds`: what the model calls before a server's tool is offered to it, where the CLI holds such tools back. `needs`:
    options without which the CLI does not work here. `limit`: what it says at the limit of model calls, as a pattern.
    `soon`: seconds in which it has mostly called its first tool. `streams`: what it did is there before it ends.
    """

    cli: Cli
    factory: Callable[..., Agent]
    loads: Callable[[ModelRequest, str], Operation]
    plugin: Mapping[str, str] | None = None
    greets: tuple[str, Mapping[str, str]] = ("load_skill", {"skill": "greeting"})
    needs: Callable[[], dict[str, Any]] = dict
    before_tool: tuple[str, str] = ("PreToolUse", "Bash")
    finds: tuple[Step, ...] = ()
    limit: str = ""
    stops_itself: bool = True
    soon: float = 4.0
    streams: bool = True


def named(tool_name: str, argument: str = "name") -> Callable[[ModelRequest, str], Operation]:
    """A skill is loaded with a tool of the CLI."""
    return lambda request, skill: tool(tool_name, **{argument: skill})


def read_from_list(request: ModelRequest, skill: str) -> Operation:
    """A skill is loaded with a command: Codex's list says `(file: r0/house-style/SKILL.md)`, and what `r0` is."""
    said = json.dumps(request.body, ensure_ascii=False)
    ((root, rest),) = re.findall(rf"- {skill}: [^\\]*\(file: (\w+)/([^)]+)\)", said)
    folder = re.findall(rf"`{root}` = `([^`]+)`", said)[0]
    return shell(f"sed -n '1,200p' {folder}/{rest}")


def skill_file(name: str, says: str) -> str:
    """A `SKILL.md`."""
    return f"---\nname: {name}\ndescription: How text is written here\n---\n{says}\n"


def plugin_with_skill(manifest: str) -> dict[str, str]:
    """A plugin that is a manifest and a skill."""
    said = {"name": "greeter", "version": "1.0.0", "description": "Greets"}
    return {manifest: json.dumps(said), "skills/greeting/SKILL.md": skill_file("greeting", PLUGIN_SAYS)}


PLUGIN_OF_OPENCODE = f"""
export const Greeter = async () => ({{
  tool: {{ greeting: {{ description: "How to greet", args: {{}}, execute: async () => "{PLUGIN_SAYS}" }} }},
}})
"""


def with_ripgrep() -> dict[str, Any]:
    """The option with which opencode finds `rg`, which it would fetch from the internet: Codex brings one."""
    node = Path(installed("codex")).parent.parent
    (program,) = node.glob("@openai/codex-linux-*/vendor/*/codex-path/rg")
    return {"env": {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}}


WAYS: Mapping[str, Ways] = {
    ways.cli.name: ways
    for ways in (
        Ways(
            cli=CLAUDE_CODE,
            factory=claude_code_agent,
            loads=named("Skill", "skill"),
            plugin=plugin_with_skill(".claude-plugin/plugin.json"),
            greets=("load_skill", {"skill": "greeter:greeting"}),
            limit=r"maximum number of turns \(2\)",
            finds=(call(tool("ToolSearch", query="select:mcp__my-letters__count_letters", max_results=1)),),
        ),
        Ways(
            cli=CODEX,
            factory=codex_agent,
            loads=read_from_list,
            plugin=plugin_with_skill(".codex-plugin/plugin.json"),
            greets=("load_skill", {"skill": "greeter:greeting"}),
        ),
        Ways(
            cli=BUB,
            factory=bub_agent,
            loads=named("skill"),
            limit="its limit of 2 model calls",
            soon=9.0,
            streams=False,
        ),
        Ways(
            cli=OPENCODE,
            factory=opencode_agent,
            loads=named("skill"),
            plugin={"greeter.js": PLUGIN_OF_OPENCODE},
            greets=("greeting", {}),
            needs=with_ripgrep,
            limit="went on after \\d+ calls, the limit",
            stops_itself=False,
            soon=12.0,
        ),
        Ways(
            cli=GEMINI_CLI,
            factory=gemini_cli_agent,
            loads=named("activate_skill"),
            plugin=plugin_with_skill("gemini-extension.json"),
            limit="max session turns",
            soon=8.0,
            before_tool=("BeforeTool", "run_shell_command"),
        ),
    )
}


def offering(option: str) -> list[str]:
    """The CLIs whose agents have the option."""
    return [name for name, ways in WAYS.items() if option in (ways.factory.__kwdefaults__ or {})]


def written(folder: Path, files: Mapping[str, str]) -> Path:
    """The folder, with these files in it."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    return folder


def alive(one: Attempt) -> list[str]:
    """The processes of this machine that have a folder of the attempt in their environment: the CLI, and its own."""
    mark, found = os.fsencode(one.sandbox.private_dir), []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def actions(turn: Turn, one: Attempt, *names: str) -> list[tuple[Any, ...]]:
    """Each call of these tools: its name, its input, how it ended and what it answered."""
    events = shown(turn, one)
    ended = {event["callId"]: event for event in events if event["type"] == "action.result"}
    return [
        (event["name"], event.get("input"), ended[event["callId"]]["status"], ended[event["callId"]].get("output"))
        for event in events
        if event["type"] == "action.called" and event["name"] in names
    ]
