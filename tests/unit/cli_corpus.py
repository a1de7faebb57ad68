"""Transcripts of coding-agent CLIs, and all the ways in which one can be damaged.

`tests/data/cli` holds what real CLIs wrote, with a scripted model behind them; prompts and environments are left out.
Put together by hand, in the shapes that the CLIs write, are `gemini_cli/pieces`, Claude Code's `session_shell` and
`session_task`, and Codex's rollout files except those of `mix`, `spawn`, `read_only` and most of `compaction`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from niceeval.adapter import EvidenceCoverage
from niceeval.adapters.bub import _tape as bub
from niceeval.adapters.claude_code import _transcript as claude_code
from niceeval.adapters.claude_code import _transcript_file as claude_file
from niceeval.adapters.codex import _transcript as codex
from niceeval.adapters.gemini_cli import _transcript as gemini_cli
from niceeval.adapters.opencode import _transcript as opencode
from niceeval.turn_building import Collected

DATA = Path(__file__).parent.parent / "data" / "cli"


class Transcript(NamedTuple):
    """A whole transcript: its bytes, how it is parsed, and the exit code that the CLI ended with."""

    name: str
    data: bytes
    parse: Callable[..., Collected]
    coverage: EvidenceCoverage
    exit_code: int = 0

    def collect(self, data: bytes | None = None, **how: Any) -> Collected:
        """The turn of these bytes, which default to the whole."""
        return self.parse([self.data if data is None else data], **{"exit_code": self.exit_code, **how})


def read(name: str) -> bytes:
    """A file below `tests/data/cli`."""
    return (DATA / name).read_bytes()


def _codex_stream(name: str) -> Callable[..., Collected]:
    rollout = DATA / f"codex/{name}.rollout.jsonl"
    child = DATA / f"codex/{name}.child.rollout.jsonl"

    def parse(chunks: Any, **how: Any) -> Collected:
        children = [[child.read_bytes()]] if child.exists() else []
        own = [rollout.read_bytes()] if rollout.exists() else None
        return codex.parse(
            chunks, rollout=own, skip_turns=int(name == "resume"), children=children, resumed=name == "resume", **how
        )

    return parse


def _codex_rollout(name: str) -> Callable[..., Collected]:
    stream = read(f"codex/{name}.jsonl")
    child = DATA / f"codex/{name}.child.rollout.jsonl"

    def parse(chunks: Any, **how: Any) -> Collected:
        children = [[child.read_bytes()]] if child.exists() else []
        return codex.parse([stream], rollout=chunks, skip_turns=int(name == "resume"), children=children, **how)

    return parse


def _codex_child(name: str) -> Callable[..., Collected]:
    stream, rollout = read(f"codex/{name}.jsonl"), read(f"codex/{name}.rollout.jsonl")

    def parse(chunks: Any, **how: Any) -> Collected:
        return codex.parse([stream], rollout=[rollout], children=[chunks], **how)

    return parse


def _claude_session(call_id: str, child: bytes) -> Callable[..., Collected]:
    def parse(chunks: Any, **how: Any) -> Collected:
        return claude_file.parse_file(chunks, subagents={call_id: [child]}, **how)

    return parse


def _claude_agent(call_id: str, main: bytes) -> Callable[..., Collected]:
    def parse(chunks: Any, **how: Any) -> Collected:
        return claude_file.parse_file([main], subagents={call_id: chunks}, **how)

    return parse


def _last_bub_turn(chunks: Any, **how: Any) -> Collected:
    return bub.parse(chunks, skip_turns=3, **how)


FILE = claude_file.file_coverage
AGENT_CALLS = {"session_task": "toolu_1", "session_spawn": "call_scripted_0f39ad9da1dafe3f_0"}
"""The session files with a subagent, and the ids of the calls that made it."""
FAILING = {"maxturns", "err500", "err400", "resume_bad"}
CLAUDE = "stream_shell fail task two mix spawn compact mcp2 old197_task partial hitl_deny flaky429 maxturns err500"
CODEX = "shell fail two mcp task flaky err400 blocked compaction resume write mix spawn read_only"
ROLLOUTS = "shell fail two mcp task blocked compaction resume mix spawn read_only"


def whole() -> Iterator[Transcript]:
    """Every whole transcript."""
    for name in [*CLAUDE.split(), "resume_bad"]:
        yield _of("claude_code", name, claude_code.parse, claude_code.coverage)
    for file in ("session_mix", "session_shell"):
        yield Transcript(f"claude_code/{file}", read(f"claude_code/{file}.jsonl"), claude_file.parse_file, FILE)
    for file, call_id in AGENT_CALLS.items():
        main, child = read(f"claude_code/{file}.jsonl"), read(f"claude_code/{file}.agent.jsonl")
        yield Transcript(f"claude_code/{file}", main, _claude_session(call_id, child), FILE)
        yield Transcript(f"claude_code/{file}.agent", child, _claude_agent(call_id, main), FILE)
    for name in CODEX.split():
        yield _of("codex", name, _codex_stream(name), codex.coverage)
    for name in ROLLOUTS.split():
        data = read(f"codex/{name}.rollout.jsonl")
        yield Transcript(f"codex/{name}.rollout", data, _codex_rollout(name), codex.coverage)
    for name in ("task", "spawn"):
        data = read(f"codex/{name}.child.rollout.jsonl")
        yield Transcript(f"codex/{name}.child.rollout", data, _codex_child(name), codex.coverage)
    for name in ["shell", "subagent", "anthropic", "err400"]:
        yield _of("bub", name, bub.parse, bub.coverage)
    yield Transcript("bub/turns", read("bub/turns.jsonl"), _last_bub_turn, bub.coverage)
    for name in ["shell", "fail", "ask", "err400", "plain"]:
        yield _of("opencode", name, opencode.parse, opencode.coverage)
    for name in ["shell", "noyolo", "pieces", "err400"]:
        yield _of("gemini_cli", name, gemini_cli.parse, gemini_cli.coverage)


def _of(cli: str, name: str, parse: Callable[..., Collected], coverage: EvidenceCoverage) -> Transcript:
    return Transcript(f"{cli}/{name}", read(f"{cli}/{name}.jsonl"), parse, coverage, int(name in FAILING))


class Damaged(NamedTuple):
    """A damaged transcript: what was done to it, what is left, and how the CLI is said to have ended."""

    what: str
    data: bytes
    how: Mapping[str, Any] = {}


UNKNOWN = b'{"type":"from_the_future","kind":"from_the_future","data":{"x":1}}\n'


def damaged(data: bytes, seed: str) -> Iterator[Damaged]:
    """A transcript's damaged forms, each different from the whole."""
    lines = data.splitlines(keepends=True)
    yield from _cuts(lines)
    yield from _repetitions(lines)
    yield from _moves(lines, seed)
    yield from _spoilt(lines)


def _cuts(lines: list[bytes]) -> Iterator[Damaged]:
    for count in range(len(lines)):
        kept = b"".join(lines[:count])
        yield Damaged(f"cut after {count} lines", kept)
        yield Damaged(f"cut after {count} lines, exit unknown", kept, {"exit_code": None})
        yield Damaged(f"cut after {count} lines, killed", kept, {"exit_code": -9, "killed": True})
        yield Damaged(f"cut within line {count}", kept + lines[count][: len(lines[count]) // 2])
        yield Damaged(f"cut within line {count}, killed", kept + lines[count][:-3], {"exit_code": None, "killed": True})


def _repetitions(lines: list[bytes]) -> Iterator[Damaged]:
    for place, line in enumerate(lines):
        yield Damaged(f"line {place} twice", b"".join([*lines[:place], line, line, *lines[place + 1 :]]))
    yield Damaged("all twice", b"".join(lines + lines))
    yield Damaged("every line twice", b"".join(line + line for line in lines))


def _moves(lines: list[bytes], seed: str) -> Iterator[Damaged]:
    for place in range(len(lines) - 1):
        yield Damaged(
            f"lines {place} and {place + 1} swapped",
            b"".join([*lines[:place], lines[place + 1], lines[place], *lines[place + 2 :]]),
        )
    dice = random.Random(seed)
    for number in range(4):
        moved = list(lines)
        dice.shuffle(moved)
        yield Damaged(f"shuffled {number}", b"".join(moved))
    yield Damaged("backwards", b"".join(reversed(lines)))


def _spoilt(lines: list[bytes]) -> Iterator[Damaged]:
    for place, line in enumerate(lines):
        before, after = b"".join(lines[:place]), b"".join(lines[place + 1 :])
        yield Damaged(f"an unknown line before line {place}", before + UNKNOWN + line + after)
        middle = len(line) // 2
        yield Damaged(f"line {place} is no UTF-8", before + line[:middle] + b"\xff\xc3" + line[middle:] + after)
        yield Damaged(f"line {place} is cut", before + line[:middle] + b"\n" + after)
        yield Damaged(f"line {place} is no object", before + b'["x"]\n' + after)
