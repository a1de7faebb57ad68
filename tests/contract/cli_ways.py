"""How each command-line agent's model uses what an adapter's options give: the table of `test_cli_options.py`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from niceeval.adapter import Agent, Turn
from niceeval.adapters import bub_agent, claude_code_agent, codex_agent, gemini_cli_agent, opencode_agent
from niceeval.cli_agent import McpServer
from niceeval.testing.scenarios import Step, call, tool
from tests.contract.cli_rows import Attempt, Cli, shown
from tests.contract.test_cli_bub import CLI as BUB
from tests.contract.test_cli_claude_code import CLI as CLAUDE_CODE
from tests.contract.test_cli_codex import CLI as CODEX
from tests.contract.test_cli_gemini_cli import CLI as GEMINI_CLI
from tests.contract.test_cli_opencode import CLI as OPENCODE

PROBE_WORD = "zebra"
LETTERS = McpServer(
    name="letters",
    command=sys.executable,
    args=(str(Path(__file__).with_name("cli_mcp_server.py")),),
    env={"PROBE_WORD": PROBE_WORD},
)
"""A server of our own, with the tool `count_letters`."""


@dataclass(frozen=True, kw_only=True)
class Ways:
    """What differs between the CLIs.

    `finds`: what the model calls before a server's tool is offered to it, where the CLI holds such tools back.
    """

    cli: Cli
    factory: Callable[..., Agent]
    finds: tuple[Step, ...] = ()


WAYS: Mapping[str, Ways] = {
    ways.cli.name: ways
    for ways in (
        Ways(
            cli=CLAUDE_CODE,
            factory=claude_code_agent,
            finds=(call(tool("ToolSearch", query="select:mcp__letters__count_letters", max_results=1)),),
        ),
        Ways(cli=CODEX, factory=codex_agent),
        Ways(cli=BUB, factory=bub_agent),
        Ways(cli=OPENCODE, factory=opencode_agent),
        Ways(cli=GEMINI_CLI, factory=gemini_cli_agent),
    )
}


def offering(option: str) -> list[str]:
    """The CLIs whose agents have the option."""
    return [name for name, ways in WAYS.items() if option in (ways.factory.__kwdefaults__ or {})]


def actions(turn: Turn, one: Attempt, *names: str) -> list[tuple[Any, ...]]:
    """Each call of these tools: its name, its input, how it ended and what it answered."""
    events = shown(turn, one)
    ended = {event["callId"]: event for event in events if event["type"] == "action.result"}
    return [
        (event["name"], event.get("input"), ended[event["callId"]]["status"], ended[event["callId"]].get("output"))
        for event in events
        if event["type"] == "action.called" and event["name"] in names
    ]
