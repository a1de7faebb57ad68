"""Making a recording of a real run, and holding an agent to one."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from niceeval._base.errors import AdapterError
from niceeval._base.redaction import secret_values
from niceeval._model.agent import Agent
from niceeval._model.json_types import JsonValue
from niceeval._model.sandbox import Sandbox
from niceeval._version import __version__
from niceeval.testing._recording.driving import drive
from niceeval.testing._recording.recording import Hiding, Recording, load_recording
from niceeval.testing._recording.sandboxes import RecordingSandbox, ReplayingSandbox

MAX_DIFFERENCES = 20
"""Differences that are shown of one recording."""


async def record_agent(
    agent: Agent,
    sandbox: Sandbox,
    prompts: Sequence[str],
    *,
    model: str | None = None,
    reasoning_effort: str | None = None,
    flags: Mapping[str, JsonValue] | None = None,
    about: Mapping[str, Any] | None = None,
) -> Recording:
    """Run an agent once in a sandbox, and give what it saw there, without secrets and names of this machine.

    What the turns came to is what going through the recording gives, so that the recording can be held to it.
    """
    if agent.kind != "sandbox":
        fix = "record an agent that is made with define_sandbox_agent"
        raise AdapterError("recording", folder=agent.name, problem="it uses no sandbox", fix=fix)
    secrets = sorted(secret_values(os.environ, {}, agent.secret_env))
    hide = Hiding(secrets, workdir=sandbox.workdir, private=sandbox.private_dir)
    recorder = RecordingSandbox(sandbox, hide)
    given: dict[str, Any] = {"model": model, "reasoning_effort": reasoning_effort, "flags": dict(flags or {})}
    live = await drive(agent, recorder, prompts, **given)
    versions = [one for turn in live for one in turn["diagnostics"] if one["code"] == "cli-version"]
    replayed = await _replayed(agent, recorder.calls, prompts, agent.name, given)
    return Recording(
        agent=agent.name,
        prompts=tuple(hide(prompt) for prompt in prompts),
        calls=recorder.calls,
        turns=hide.deep(replayed),
        about=hide.deep({"niceeval": __version__, "versions": versions, **(about or {})}),
        **given,
    )


async def _replayed(
    agent: Agent, calls: Sequence[Any], prompts: Sequence[str], folder: str, given: dict[str, Any]
) -> list[Any]:
    sandbox = ReplayingSandbox(calls, folder)
    with _keys(agent):
        return await drive(agent, sandbox, prompts, **given)


def check_recording(folder: str | os.PathLike[str], agent: Agent) -> None:
    """Go through a recording with an agent, as it is now, and compare what its turns come to; nothing is run.

    `agent` is made as the one that was recorded was: its options decide what it asks its sandbox for. Keys that it
    needs may be missing.

    Raises AssertionError with the differences, and AdapterError (`recording`) where the agent asks its sandbox for
    other things than it did.
    """
    recording = load_recording(folder)
    given = {"model": recording.model, "reasoning_effort": recording.reasoning_effort, "flags": recording.flags}
    found = asyncio.run(_replayed(agent, recording.calls, recording.prompts, str(Path(folder)), dict(given)))
    differences = list(_differences("turns", recording.turns, found))
    if differences:
        shown = "\n".join(f"  {line}" for line in differences[:MAX_DIFFERENCES])
        more = f"\n  and {len(differences) - MAX_DIFFERENCES} more" if len(differences) > MAX_DIFFERENCES else ""
        raise AssertionError(f"{agent.name} reads {folder} otherwise than when it was recorded:\n{shown}{more}")


def _differences(place: str, before: Any, now: Any) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted({*before, *now}):
            yield from _differences(f"{place}.{key}", before.get(key), now.get(key))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for index, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from _differences(f"{place}[{index}]", old, new)
    elif before != now:
        yield f"{place}: {_short(before)} -> {_short(now)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"


@contextmanager
def _keys(agent: Agent) -> Iterator[None]:
    """A value for each key that the agent asks for and this machine has not: none is used in a recording."""
    missing = [name for name in agent.secret_env if not os.environ.get(name)]
    os.environ.update(dict.fromkeys(missing, "not-a-key"))
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)
