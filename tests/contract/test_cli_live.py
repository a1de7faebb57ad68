"""The same tasks against the vendors' models, where `NICEEVAL_LIVE=1` and a key is set. It costs money.

What a real model says is its own matter: what is held is that the work was done, seen, counted and remembered.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from niceeval.adapter import Agent, AgentSession, Message, Turn, derive_facts
from niceeval.adapters import bub_agent, claude_code_agent, codex_agent, gemini_cli_agent, opencode_agent
from niceeval.testing import ModelServer
from tests.contract.cli_rows import Cli, attempt, run

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Vendor:
    """A CLI with its vendor's key; `model` where the CLI itself has none, from `NICEEVAL_LIVE_MODEL_<CLI>` first."""

    name: str
    key: str
    factory: Callable[..., Agent]
    model: str | None = None


VENDORS = (
    Vendor("claude-code", "ANTHROPIC_API_KEY", claude_code_agent),
    Vendor("codex", "OPENAI_API_KEY", codex_agent),
    Vendor("bub", "OPENAI_API_KEY", bub_agent, "gpt-5.5"),
    Vendor("opencode", "ANTHROPIC_API_KEY", opencode_agent, "anthropic/claude-opus-5-5"),
    Vendor("gemini-cli", "GEMINI_API_KEY", gemini_cli_agent),
)


def live(vendor: Vendor) -> Cli:
    """The CLI, or a skip that says what is missing."""
    if os.environ.get("NICEEVAL_LIVE") != "1":
        pytest.skip("set NICEEVAL_LIVE=1, and keys, to ask real models; it costs money")
    if not os.environ.get(vendor.key):
        pytest.skip(f"set {vendor.key} to ask {vendor.name}'s vendor")

    def make(command: str, server: ModelServer, **options: object) -> Agent:
        return vendor.factory(command=command, api_key_env=vendor.key, **options)

    variable = f"NICEEVAL_LIVE_MODEL_{vendor.name.replace('-', '_').upper()}"
    return Cli(vendor.name, make, model=os.environ.get(variable) or vendor.model)


def said(turn: Turn) -> str:
    """All that the agent said, in lower case."""
    return " ".join(event.text for event in turn.events if isinstance(event, Message)).lower()


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
def test_a_real_model(vendor: Vendor) -> None:
    """A file, a failing command, two commands at once, a second turn, a new session."""
    cli = live(vendor)

    async def works() -> None:
        async with attempt(cli) as one:
            made = await one.send("Create a file note.txt that holds the word hello, and nothing else.")
            assert (await one.sandbox.read_file("note.txt")).strip() == "hello"
            assert {call.tool for call in derive_facts(made.events).tool_calls} & {"file_write", "file_edit", "shell"}
            failed = await one.send("Run exactly this command in the shell, once: ls /no-such-folder")
            calls = [call for call in derive_facts(failed.events).tool_calls if call.tool == "shell"]
            assert "no such file" in repr([call.output for call in calls]).lower()
            both = await one.send("Run these two shell commands, in one step if you can: `echo one` and `echo two`.")
            assert [call for call in derive_facts(both.events).tool_calls if call.tool == "shell"]
            session = AgentSession()
            await one.send("Remember the word zebra. Answer with OK.", session)
            again = await one.send("Which word did I ask you to remember? Answer with the word.", session)
            assert "zebra" in said(again)
            new = await one.send("Which word did I ask you to remember before? If I did not, answer with NONE.")
            assert "zebra" not in said(new)
            for turn in (made, failed, both, again, new):
                assert turn.status == "completed"
                assert turn.usage is not None
                assert turn.usage.output_tokens

    run(works())
