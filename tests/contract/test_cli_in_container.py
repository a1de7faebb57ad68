"""The real commands in a real container: not root, without a home of their own, reached through a bridge."""

from __future__ import annotations

import pytest

from niceeval.adapter import ActionResult, AgentSession, Message
from tests.contract import test_cli_claude_code, test_cli_codex
from tests.contract.cli_rows import USED_ONCE, USED_TWICE, Cli, attempt, in_container, levels, run, used

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("cli", [test_cli_claude_code.CLI, test_cli_codex.CLI], ids=lambda cli: cli.name)
def test_it_works_in_a_container(cli: Cli) -> None:
    """A file, a conversation over two turns, and a new one; usage and coverage as elsewhere."""

    async def works() -> None:
        async with attempt(cli, in_container()) as one:
            session = AgentSession()
            made = await one.send("SCENARIO:create please", session)
            assert await one.sandbox.read_file("note.txt") == "hello\n"
            assert [event.status for event in made.events if isinstance(event, ActionResult)] == ["completed"]
            again = await one.send("SCENARIO:recall What did I say?", session)
            new = await one.send("SCENARIO:recall What did I say?")
            said = [event.text for turn in (again, new) for event in turn.events if isinstance(event, Message)]
            assert said == ["You said: please", "nothing"]
            for turn, usage in ((made, USED_TWICE), (again, USED_ONCE), (new, USED_ONCE)):
                assert used(turn).items() >= usage.items()
                assert levels(turn, one) == {"data": "unavailable"}
            assert one.codes == []

    run(works())
