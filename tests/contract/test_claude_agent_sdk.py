"""Real runs of the Claude Agent SDK, against a scripted model: what its converter makes of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from niceeval.adapter import (
    ActionResult,
    ErrorEvent,
    Message,
    SubagentCompleted,
    Thinking,
    Turn,
    Usage,
    derive_facts,
)
from niceeval.converters import claude_agent_sdk as converter
from niceeval.testing import model_server
from niceeval.testing.scenarios import Scenario, call, fail, say, shell, structured, task

pytestmark = pytest.mark.slow
sdk = pytest.importorskip(
    "claude_agent_sdk", reason="its SDK is not installed: pip install 'niceeval[claude-agent-sdk]'"
)

SCENARIOS = [
    Scenario(
        "tools",
        [
            call(shell("echo hi"), shell("exit 3"), text="Let me.", thinking="hm"),
            say("Done.", usage=Usage(input_tokens=900, cache_read_tokens=600, output_tokens=40)),
        ],
    ),
    Scenario("delete", [call(shell("rm -rf x")), say("I keep it.")]),
    Scenario("child", [call(shell("echo inner")), say("It is here.")]),
    Scenario("agent", [call(task("SCENARIO:child look for it")), say("Started."), say("Noted.")]),
    Scenario("data", [structured({"degrees": "x"}), structured({"degrees": 3}), say("ok")]),
    Scenario("broken", [call(shell("echo hi")), fail(400)]),
]
SCHEMA = {"type": "object", "properties": {"degrees": {"type": "integer"}}, "required": ["degrees"]}


def run(scenario: str, folder: Path, *, asks: Any = None, **options: Any) -> Turn:
    """The turn of a real run."""
    allowed = [] if asks else ["Bash", "Agent", "Task"]

    async def prompts() -> AsyncIterator[dict[str, Any]]:
        yield {"type": "user", "message": {"role": "user", "content": f"go SCENARIO:{scenario}"}}

    async def go() -> Turn:
        with model_server(*SCENARIOS) as server:
            environment = {
                "ANTHROPIC_BASE_URL": server.url,
                "ANTHROPIC_API_KEY": "none",
                "HOME": str(folder),
                "CLAUDE_CONFIG_DIR": str(folder / "config"),
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            }
            given = sdk.ClaudeAgentOptions(
                cwd=str(folder),
                env=environment,
                setting_sources=[],
                allowed_tools=allowed,
                can_use_tool=asks,
                **options,
            )
            return await converter.to_turn_stream(sdk.query(prompt=prompts(), options=given), cost_before=0)

    return asyncio.run(asyncio.wait_for(go(), 120))


def statuses(turn: Turn) -> list[str]:
    return [event.status for event in turn.events if isinstance(event, ActionResult)]


def texts(turn: Turn) -> list[str]:
    return [event.text for event in turn.events if isinstance(event, Message)]


@pytest.mark.parametrize("pieces", [False, True])
def test_tools(tmp_path: Path, pieces: bool) -> None:
    """Two calls at once, one of which fails, with the tokens of both requests; also where texts come in pieces too."""
    turn = run("tools", tmp_path, include_partial_messages=pieces)
    assert turn.events[0] == Thinking(text="hm")
    assert (statuses(turn), texts(turn), turn.status) == (["completed", "failed"], ["Let me.", "Done."], "completed")
    assert turn.usage is not None
    assert (turn.usage.input_tokens, turn.usage.cache_read_tokens, turn.usage.requests) == (1000, 600, 2)
    assert turn.evidence_coverage is None


def test_a_refusal(tmp_path: Path) -> None:
    """What a person refused is rejected."""

    async def no(name: str, given: Any, context: Any) -> Any:
        return sdk.PermissionResultDeny(message="keep it")

    turn = run("delete", tmp_path, asks=no)
    assert (statuses(turn), texts(turn), turn.evidence_coverage) == (["rejected"], ["I keep it."], None)


def test_an_agent_in_the_background(tmp_path: Path) -> None:
    """Everything that it did is there when the run has ended."""
    turn = run("agent", tmp_path)
    done = [event for event in turn.events if isinstance(event, SubagentCompleted)]
    assert [(event.output, event.status) for event in done] == [("It is here.", "completed")]
    assert [tool.name for tool in derive_facts(turn.events).tool_calls] == ["Agent", "Bash"]
    assert set(turn.evidence_coverage or {}) == {"usage"}


def test_a_structured_answer(tmp_path: Path) -> None:
    """The tool that gives it is no action."""
    turn = run("data", tmp_path, output_format={"type": "json_schema", "schema": SCHEMA})
    assert (turn.data, derive_facts(turn.events).tool_calls) == ({"degrees": 3}, ())


def test_a_model_that_fails(tmp_path: Path) -> None:
    """The turn failed, once."""
    turn = run("broken", tmp_path)
    assert (turn.status, statuses(turn)) == ("failed", ["completed"])
    assert [event.message for event in turn.events if isinstance(event, ErrorEvent)] == [
        "API Error: 400 scripted error"
    ]
