"""One turn of `codex exec`: its events, and what the turn added to the files of its thread and of its subagents."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from niceeval.adapter import SessionSlot, Usage
from niceeval.adapters.codex._transcript import Transcript
from niceeval.cli_agent import CliRun, CliTurn
from niceeval.turn_building import Collected, text_of

MAX_ROLLOUT_BYTES: Final = 64_000_000
"""The largest rollout file that is read; of a larger one the turn has the events alone."""
MAX_ROLLOUTS: Final = 200
"""The most rollout files of a turn that are looked at."""
MAX_FIRST_LINE: Final = 200_000
"""Bytes of a rollout file's beginning that are searched for whose it is."""

_LIST: Final = (
    'find "$CODEX_HOME/sessions" -type f -name "rollout-*.jsonl" 2>/dev/null | while IFS= read -r file; '
    'do printf "%s %s\\n" "$(wc -c < "$file")" "$file"; done'
)


@dataclass(slots=True)
class _Thread:
    """What earlier turns of the conversation left: the files that were there, how long they were, tokens so far."""

    files: dict[str, int] = field(default_factory=dict)
    total: Usage | None = None


_THREAD: Final = SessionSlot[_Thread]("codex thread", default=_Thread)


async def read_thread(
    turn: CliTurn, words: list[str], timeout: float | None, servers: Collection[str]
) -> tuple[CliRun, Collected]:
    """Run the turn, and read it from its events and from its rollout files. `servers`: the MCP servers' names."""
    thread = turn.ctx.session.get(_THREAD)
    going_on = turn.session_id is not None
    transcript = Transcript(total_before=thread.total if going_on else None, resumed=going_on, servers=servers)
    run = await turn.run(words, stdin=turn.prompt, reader=transcript, timeout=timeout)
    turn.continues_as(transcript.thread_id)
    before, now = thread.files, await _files(turn)
    main = _file_of(now, transcript.thread_id)
    rollout = await _read(turn, main, now, before.get(main, 0) if going_on else 0) if main is not None else None
    children = [] if main is None else await _children(turn, transcript.thread_id, now, before)
    collected = transcript.finish(exit_code=run.exit_code, killed=run.killed, rollout=rollout, children=children)
    turn.ctx.session.set(_THREAD, _Thread(now, transcript.thread_total or thread.total))
    return run, collected


async def _files(turn: CliTurn) -> dict[str, int]:
    """The rollout files with their sizes in bytes."""
    listed = await turn.sandbox.run_shell(_LIST, env={"CODEX_HOME": turn.home}, timeout=60)
    found = {}
    for line in listed.stdout.splitlines()[:MAX_ROLLOUTS]:
        size, _, path = line.strip().partition(" ")
        if size.isdecimal() and path:
            found[path] = int(size)
    return found


def _file_of(files: dict[str, int], thread_id: str | None) -> str | None:
    return None if thread_id is None else next((path for path in files if path.endswith(f"{thread_id}.jsonl")), None)


async def _read(turn: CliTurn, path: str, files: dict[str, int], start: int) -> list[bytes] | None:
    if files[path] > MAX_ROLLOUT_BYTES:
        turn.ctx.diagnostic(
            "rollout-too-long", "warning", f"a rollout file has {files[path]:,} bytes, and was not read"
        )
        return None
    return [(await turn.sandbox.read_bytes(path))[start:]]


async def _children(
    turn: CliTurn, thread_id: str | None, files: dict[str, int], before: dict[str, int]
) -> list[list[bytes]]:
    """The files of the threads that this turn's thread began."""
    found = []
    for path in files:
        if path in before or path.endswith(f"{thread_id}.jsonl"):
            continue
        chunks = await _read(turn, path, files, 0)
        if chunks is not None and _parent(chunks[0]) == thread_id:
            found.append(chunks)
    return found


def _parent(data: bytes) -> str | None:
    try:
        meta = json.loads(data[:MAX_FIRST_LINE].partition(b"\n")[0])
    except (ValueError, RecursionError):
        return None
    spawned = text_of(meta, "payload", "source", "subagent", "thread_spawn", "parent_thread_id")
    return text_of(meta, "payload", "parent_thread_id") or spawned
