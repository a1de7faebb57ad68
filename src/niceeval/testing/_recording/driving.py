"""Driving an agent through a few turns of one conversation, in a sandbox that may be a recording."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from niceeval._base.guest import GuestHost, GuestScope
from niceeval._base.threads import DaemonThreads
from niceeval._evidence.coverage import declared, downgrade, stored
from niceeval._evidence.normalise import normalise_turn
from niceeval._model.agent import Agent, AgentSession, SandboxAgentContext
from niceeval._model.events import encode_events
from niceeval._model.json_types import JsonValue
from niceeval._model.sandbox import Sandbox
from niceeval._model.turn_input import TurnInput

TURN_LIMIT = 600.0
"""Seconds that one turn, or the setup, may take."""


async def drive(
    agent: Agent,
    sandbox: Sandbox,
    prompts: Sequence[str],
    *,
    model: str | None,
    reasoning_effort: str | None,
    flags: Mapping[str, JsonValue],
) -> list[Any]:
    """Set the agent up, send the prompts, tear it down. What each turn came to, as JSON.

    Raises whatever the agent raises, and GuestTimeout.
    """
    said: list[dict[str, Any]] = []

    def diagnose(code: str, level: str, message: str, data: JsonValue = None) -> None:
        said.append({"code": code, "level": level, "message": message, "data": data})

    context = SandboxAgentContext(
        session=AgentSession(),
        model=model,
        reasoning_effort=reasoning_effort,
        flags=flags,
        experiment_id="recording",
        eval_id="recording",
        attempt=0,
        log=lambda message: None,
        progress=lambda message, *, current=None, total=None: None,
        diagnostic=diagnose,
        sandbox=sandbox,
    )
    threads = DaemonThreads(4)
    scope = GuestScope(GuestHost(threads), "recording")
    turns: list[Any] = []
    try:
        if agent.setup is not None:
            await scope.call("setup", TURN_LIMIT, agent.setup, context)
        for prompt in prompts:
            value = await scope.call("send", TURN_LIMIT, agent.send, TurnInput(text=prompt), context)
            turns.append(_turn(agent, value, said))
    finally:
        if agent.teardown is not None:
            await scope.call("teardown", TURN_LIMIT, agent.teardown, context)
        threads.close()
    return turns


def _turn(agent: Agent, value: object, said: list[dict[str, Any]]) -> Any:
    normal = normalise_turn(value, agent=agent.name, declared=agent.evidence_coverage, wants_data=False)
    coverage = stored(downgrade(declared(agent.evidence_coverage), normal.downgrades))
    found = {
        "status": normal.status,
        "events": json.loads(encode_events(normal.events)),
        "usage": None if normal.usage is None else msgspec.to_builtins(normal.usage),
        "coverage": {channel: msgspec.to_builtins(one) for channel, one in coverage.items()},
        "diagnostics": [*said, *(msgspec.to_builtins(one) for one in normal.diagnostics)],
    }
    said.clear()
    # As it reads when it comes back from disk.
    return json.loads(json.dumps(found))
