"""Transcripts of hundreds of megabytes, or of very many lines: bounded memory, and a turn at the end."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest

from niceeval.adapter import Turn
from niceeval.adapters.bub._tape import Tape
from niceeval.adapters.claude_code._transcript import Transcript as ClaudeCode
from niceeval.adapters.codex._transcript import Transcript as Codex
from niceeval.adapters.gemini_cli._transcript import Transcript as GeminiCli
from niceeval.adapters.opencode._transcript import Transcript as OpenCode
from niceeval.turn_building import Collected
from niceeval.turn_building.builder import MAX_EVENTS, MAX_TURN_CHARS

MEGABYTE = 1_000_000
GROWTH = 2 * MEGABYTE
"""The most that a parser may grow by over the last part of a transcript, when all that it keeps is full."""
OUTPUT = "line of output\n" * 200


class Reader(Protocol):
    """What every parser can do."""

    def feed(self, chunk: bytes) -> None: ...


def encoded(*lines: dict[str, Any]) -> bytes:
    """Lines as bytes."""
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def numbered(*lines: dict[str, Any]) -> Iterator[bytes]:
    """The lines again and again, with `@n` in them counting up, and `@0` to `@2` as places in the file."""
    template = encoded(*lines)
    for number in itertools.count(1):
        chunk = template.replace(b"@n", b"%d" % number)
        for step in range(3):
            chunk = chunk.replace(b'"@%d"' % step, b"%d" % (3 * number - 2 + step))
        yield chunk


def claude_lines() -> Iterator[bytes]:
    """Calls of the same tool, each with its result."""
    call = {"type": "tool_use", "id": "toolu_@n", "name": "Bash", "input": {"command": "run @n"}}
    answer = {"type": "tool_result", "tool_use_id": "toolu_@n", "content": OUTPUT, "is_error": False}
    return numbered(
        {"type": "assistant", "uuid": "a@n", "message": {"id": "m@n", "content": [call]}},
        {"type": "user", "uuid": "u@n", "message": {"content": [answer]}},
    )


def codex_lines() -> Iterator[bytes]:
    """Commands that begin and end."""
    item = {"id": "item_@n", "type": "command_execution", "command": "/bin/bash -lc 'run @n'"}
    ended = {"aggregated_output": OUTPUT, "exit_code": 0, "status": "completed"}
    return numbered(
        {"type": "item.started", "item": {**item, "status": "in_progress"}},
        {"type": "item.completed", "item": {**item, **ended}},
    )


def rollout_lines() -> Iterator[bytes]:
    """A rollout file: calls, what Codex says of them, and their outputs."""
    item = {"type": "CommandExecution", "id": "call_@n", "status": "completed", "exit_code": 0}
    call = {"type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": "call_@n"}
    output = {"type": "function_call_output", "call_id": "call_@n", "output": OUTPUT}
    ended = {"type": "item_completed", "item": {**item, "aggregated_output": OUTPUT}}
    begin = encoded({"ordinal": 0, "type": "event_msg", "payload": {"type": "task_started"}})
    return itertools.chain(
        [begin],
        numbered(
            {"ordinal": "@0", "type": "response_item", "payload": call},
            {"ordinal": "@1", "type": "event_msg", "payload": ended},
            {"ordinal": "@2", "type": "response_item", "payload": output},
        ),
    )


def sized(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Chunks until they come to this many bytes."""
    left = size
    for chunk in chunks:
        left -= len(chunk)
        yield chunk
        if left < 0:
            return


def growth(work: Callable[[], object]) -> int:
    """By how many bytes memory has grown at most during the work."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def fill(reader: Reader, chunks: Iterator[bytes], size: int) -> None:
    """Feed so many bytes; the last megabyte may not make the reader grow."""
    for chunk in sized(chunks, size - MEGABYTE):
        reader.feed(chunk)

    def rest() -> None:
        for chunk in sized(chunks, MEGABYTE):
            reader.feed(chunk)

    assert growth(rest) < GROWTH


def check_is_cut(collected: Collected) -> None:
    """What is kept is bounded, and the turn does not claim to be whole."""
    turn: Turn = collected.turn
    outputs = [output for event in turn.events if isinstance(output := getattr(event, "output", None), str)]
    assert 1_000 < len(turn.events) <= MAX_EVENTS
    assert sum(map(len, outputs)) <= MAX_TURN_CHARS
    levels = {channel: coverage.level for channel, coverage in (turn.evidence_coverage or {}).items()}
    assert {levels["events"], levels["actions"], levels["messages"]} == {"partial"}
    assert "turn-cut" in [said.code for said in collected.diagnostics]


@pytest.mark.slow
def test_two_hundred_megabytes_of_claude_code() -> None:
    """The result line after it still says how it ended and what was used."""
    transcript = ClaudeCode()
    fill(transcript, claude_lines(), 200 * MEGABYTE)
    models = {"model": {"inputTokens": 7}}
    transcript.feed(encoded({"type": "result", "is_error": False, "model_usage_since_last_result": models}))
    collected = transcript.finish(exit_code=0)
    check_is_cut(collected)
    assert collected.turn.status == "completed"
    assert collected.turn.usage is not None
    assert collected.turn.usage.input_tokens == 7
    assert "status" not in (collected.turn.evidence_coverage or {})


@pytest.mark.slow
def test_two_hundred_megabytes_of_codex() -> None:
    """A hundred of the stream, and a hundred of the rollout file that is merged with it."""
    usage = {"input_tokens": 9, "output_tokens": 1}
    transcript = Codex()
    fill(transcript, codex_lines(), 100 * MEGABYTE)
    transcript.feed(encoded({"type": "turn.completed", "usage": usage}))

    def rollout() -> Iterator[bytes]:
        chunk = b""
        for chunk in sized(rollout_lines(), 100 * MEGABYTE):
            yield chunk
        last = json.loads(chunk.splitlines()[-1])["ordinal"]
        record = {"turn_token_usage": usage, "thread_token_usage": usage}
        yield encoded(
            {"ordinal": last + 1, "type": "token_usage_record", "payload": record},
            {"ordinal": last + 2, "type": "event_msg", "payload": {"type": "task_complete"}},
        )

    collected = transcript.finish(exit_code=0, rollout=rollout())
    check_is_cut(collected)
    first = collected.turn.events[0]
    assert getattr(first, "call_id", None) == "call_1"
    assert collected.turn.usage is not None
    assert (collected.turn.usage.input_tokens, collected.turn.status) == (9, "completed")


SAID = {"id": "m@n", "content": [{"type": "text", "text": "said @n"}]}
DENIED = {"is_error": True, "permission_denials": [{"tool_use_id": "t@n"}], "modelUsage": {"model @n": {}}}
RUN = {"name": "run", "data": {"usage": {"prompt_tokens": 1, "completion_tokens": 1}}}
FLOODS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "claude code": (ClaudeCode, {"type": "assistant", "uuid": "u@n", "message": SAID}),
    "codex": (Codex, {"type": "item.completed", "item": {"id": "i@n", "type": "agent_message", "text": "x@n"}}),
    "bub": (Tape, {"kind": "message", "payload": {"role": "assistant", "content": "x@n"}}),
    "opencode": (OpenCode, {"type": "text", "part": {"id": "p@n", "type": "text", "text": "x@n"}}),
    "pieces": (GeminiCli, {"type": "message", "role": "assistant", "content": "piece @n " * 20, "delta": True}),
    "unknown kinds": (ClaudeCode, {"type": "kind @n"}),
    "errors": (Codex, {"type": "error", "message": "error @n"}),
    "results": (ClaudeCode, {"type": "result", **DENIED}),
    "usage": (Tape, {"kind": "event", "payload": RUN, "meta": {"run_id": "r@n"}}),
    "open calls": (GeminiCli, {"type": "tool_use", "tool_id": "t@n", "tool_name": "glob", "parameters": {}}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOODS)
def test_very_many_small_lines_are_bounded_too(name: str) -> None:
    """Sixty thousand lines of one kind, each with ids of its own; at the end nothing grows any more."""
    made, line = FLOODS[name]
    reader = made()
    if made is Tape:
        reader.feed(encoded({"kind": "event", "payload": {"name": "loop.start"}}))
    chunks = numbered(line)
    for chunk in itertools.islice(chunks, 60_000):
        reader.feed(chunk)

    def rest() -> None:
        for chunk in itertools.islice(chunks, 1_000):
            reader.feed(chunk)

    assert growth(rest) < GROWTH / 8
    collected = reader.finish(exit_code=1)
    assert len(collected.turn.events) <= MAX_EVENTS
    assert len(collected.diagnostics) <= 60
