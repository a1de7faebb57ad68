"""What the parsers of coding-agent CLIs make of whole transcripts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    Compaction,
    Coverage,
    ErrorEvent,
    InputRequested,
    Message,
    SubagentCalled,
    SubagentCompleted,
    Thinking,
    Turn,
    Usage,
)
from niceeval.adapters.bub import _tape as bub
from niceeval.adapters.claude_code import _transcript as claude_code
from niceeval.adapters.claude_code import _transcript_file as claude_file
from niceeval.adapters.codex import _transcript as codex
from niceeval.adapters.gemini_cli import _transcript as gemini_cli
from niceeval.adapters.opencode import _transcript as opencode
from tests.unit.cli_corpus import Transcript, damaged, read, whole

WHOLE = {transcript.name: transcript for transcript in whole()}
THOUGHT = "~"
"""Stands for a thinking event in a row of the table."""


def brief(turn: Turn) -> list[str]:
    """The turn's events, one word or two each."""
    said: list[str] = []
    statuses = {event.call_id: event.status for event in turn.events if isinstance(event, ActionResult)}
    for event in turn.events:
        if isinstance(event, Message):
            said.append(event.text)
        elif isinstance(event, ActionCalled):
            said.append(f"{event.name}/{event.tool} {statuses.get(event.call_id)}")
        elif isinstance(event, (SubagentCalled, SubagentCompleted)):
            said.append(f">{event.name}" if isinstance(event, SubagentCalled) else f"<{event.status}")
        elif isinstance(event, ErrorEvent):
            said.append("!" + event.message[:20])
        elif not isinstance(event, ActionResult):
            said.append({Thinking: THOUGHT, Compaction: "compaction", InputRequested: "?"}[type(event)])
    return said


class Row(NamedTuple):
    """What a whole transcript comes to: its events, its usage (None: not asked), status, and partial channels."""

    events: list[str]
    usage: tuple[int | None, ...] | None = None
    status: str = "completed"
    partial: tuple[str, ...] = ()


CREATE, DONE = "I will create the file.", "Done: out.txt holds hello-from-mock."
NO_MODEL = "!Model metadata for `"
NO_ROLLOUT = ("actions", "events")
MIX = [
    THOUGHT,
    "I look.",
    "Bash/shell completed",
    "Bash/shell failed",
    "Bash/shell completed",
    "Write/file_write completed",
    "Done: all.",
]
TABLE: Mapping[str, Row] = {
    # input, output, cache read, cache write, reasoning, requests
    "claude_code/stream_shell": Row([THOUGHT, CREATE, "Bash/shell completed", DONE], (290, 41, 10, 14, 0, 2)),
    "claude_code/fail": Row(["Bash/shell failed", "The command failed with 3."], (280, 41, 10, 14, 0, 2)),
    "claude_code/two": Row(
        ["Bash/shell completed", "Bash/shell completed", "Ran two commands in parallel."], (300, 41, 10, 14, 0, 2)
    ),
    "claude_code/task": Row(
        [
            "Agent/agent_task completed",
            ">general-purpose",
            "The subagent finished.",
            "Bash/shell completed",
            "<completed",
            "The subagent finished.",
        ],
        (760, 103, 25, 35, 0, 5),
    ),
    "claude_code/old197_task": Row(
        [
            "Agent/agent_task completed",
            ">general-purpose",
            "Bash/shell completed",
            "<completed",
            "The subagent finished.",
        ],
        (280, 41, 10, 14, None, 3),
        partial=("usage",),
    ),
    "claude_code/hitl_deny": Row([THOUGHT, CREATE, "Bash/shell rejected", DONE], (290, 41, 10, 14, 0, 2)),
    "claude_code/mcp2": Row(["mcp__echosrv__echo/None completed", "MCP answered."], (280, 41, 10, 14, 0, 2)),
    "claude_code/compact": Row(["compaction"], (460, 40, 10, 14, 0, None)),
    "claude_code/flaky429": Row(["!retry 1 of 10 after ", "unknown scenario flaky429"], (130, 20, 5, 7, 0, 1)),
    "claude_code/maxturns": Row(
        [THOUGHT, CREATE, "Bash/shell completed", "!Reached maximum numb"], (130, 20, 5, 7, 0, 1), "failed"
    ),
    "claude_code/err500": Row(
        ["!retry 1 of 1 after 5", "!API Error: 500 mock "], (0, 0, None, None, None, None), "failed"
    ),
    "claude_code/resume_bad": Row(["!No conversation foun"], (0, 0, 0, 0, 0, None), "failed"),
    "claude_code/partial": Row(["Plain answer."], (130, 20, 5, 7, 0, 1)),
    "claude_code/session_shell": Row(
        [THOUGHT, CREATE, "Bash/shell completed", "Write/file_write rejected", "compaction", DONE],
        (430, 51, 15, 21, None, 3),
    ),
    "claude_code/session_task": Row(
        [
            "Agent/agent_task completed",
            ">general-purpose",
            "<completed",
            "The subagent finished.",
            "Bash/shell completed",
        ],
        (580, 82, 20, 28, None, 4),
    ),
    "claude_code/mix": Row(MIX, (500, 100, 0, 0, 0, 5)),
    "claude_code/session_mix": Row(MIX, (500, 100, 0, 0, 0, 5)),
    "claude_code/spawn": Row(
        [
            "Agent/agent_task completed",
            ">general-purpose",
            "Bash/shell completed",
            "Bash/shell completed",
            "<completed",
            "Delegated.",
        ],
        (500, 100, 0, 0, 0, 5),
    ),
    "claude_code/session_spawn": Row(
        [
            "Agent/agent_task completed",
            ">general-purpose",
            "Bash/shell completed",
            "Delegated.",
            "Bash/shell completed",
            "<completed",
        ],
        (500, 100, 0, 0, 0, 5),
    ),
    "codex/mix": Row(
        [
            THOUGHT,
            "I look.",
            "exec_command/shell completed",
            "exec_command/shell failed",
            "exec_command/shell completed",
            "apply_patch/file_edit completed",
            "Done: all.",
        ],
        (500, 100, 0, 0, 0, 5),
    ),
    "codex/read_only": Row(
        ["apply_patch/file_edit rejected", "no_such_tool/None failed", "Blocked."], (300, 60, 0, 0, 0, 3)
    ),
    "codex/spawn": Row(
        [
            "tool_search/None completed",
            "spawn_agent/agent_task completed",
            ">subagent",
            "exec_command/shell completed",
            "Delegated.",
            "exec_command/shell completed",
            "<completed",
        ],
        (600, 120, 0, 0, 0, 6),
    ),
    "codex/shell": Row([NO_MODEL, THOUGHT, CREATE, "exec_command/shell completed", DONE], (250, 41, 80, 0, 12, 1)),
    "codex/fail": Row(["exec_command/shell failed", "The command failed with 3."], (260, 41, 80, 0, 12, 1)),
    "codex/two": Row(["exec_command/shell completed"] * 2 + ["Ran two commands in parallel."], (280, 41, 80, 0, 12, 1)),
    "codex/mcp": Row([NO_MODEL, "mcp__echosrv__echo/None completed", "MCP answered."], (240, 41, 80, 0, 12, 1)),
    "codex/task": Row(
        [
            NO_MODEL,
            "spawn_agent/agent_task completed",
            ">worker",
            "The subagent finished.",
            "exec_command/shell completed",
            "<completed",
        ],
        (490, 82, 160, 0, 24, 2),
    ),
    "codex/blocked": Row(
        [NO_MODEL, THOUGHT, CREATE, "exec_command/shell rejected", "open_file/None failed", DONE],
        (250, 41, 80, 0, 12, 1),
    ),
    "codex/compaction": Row(
        [
            NO_MODEL,
            "exec_command/shell completed",
            "compaction",
            "exec_command/shell completed",
            "Big usage done.",
        ],
        (1_559_840, 82, 160, 0, 24, 4),
    ),
    "codex/resume": Row([NO_MODEL, "Earlier messages: 9; saw PELICAN: False"], (160, 20, 40, 0, 6, 1)),
    "codex/write": Row(
        ["Writing.", "file_edit/file_edit completed", "Wrote note.txt."], (270, 41, 80, 0, 12, None), partial=NO_ROLLOUT
    ),
    "codex/flaky": Row(
        ["!Reconnecting... 1/1 ", "unknown scenario flaky429"], (120, 20, 40, 0, 6, None), partial=NO_ROLLOUT
    ),
    "codex/err400": Row(['!{"type": "error", "e'], None, "failed", (*NO_ROLLOUT, "usage")),
    "bub/shell": Row([CREATE, "bash/shell completed", DONE], (180, 41, 80, None, 12, 2), partial=("actions",)),
    "bub/turns": Row(["Plain answer."], (160, 20, 40, None, 6, 1)),
    "bub/subagent": Row(
        ["subagent/agent_task completed", ">subagent", "<completed", "The subagent finished."],
        (180, 41, 80, None, 12, 2),
        partial=("actions", "events", "usage"),
    ),
    "bub/anthropic": Row([CREATE, "bash/shell completed", DONE], (264, 41, 10, None, None, 2), partial=("actions",)),
    "bub/err400": Row(["!Error code: 400 - mo"], None, "failed"),
    "opencode/shell": Row([CREATE, "bash/shell completed", DONE], (180, 41, 80, 0, 12, 2)),
    "opencode/fail": Row(["bash/shell failed", "The command failed with 3."], (180, 41, 80, 0, 12, 2)),
    "opencode/ask": Row([CREATE, "bash/shell rejected"], (80, 20, 40, 0, 6, 1)),
    "opencode/plain": Row(["Plain answer."], (80, 20, 40, 0, 6, 1)),
    "opencode/err400": Row(["!mock 400"], None, "failed"),
    "gemini_cli/shell": Row(
        [CREATE, "run_shell_command/shell completed", DONE], (190, 53, 80, None, 12, None), partial=("actions",)
    ),
    "gemini_cli/noyolo": Row([CREATE, "MISSING_shell/None failed", DONE], (190, 53, 80, None, 12, None)),
    "gemini_cli/pieces": Row(
        ["The answer is forty-two.", "read_file/file_read completed", "Done."], (200, 50, 50, None, 10, None)
    ),
    "gemini_cli/err400": Row(['![API Error: {"type":'], (0, 0, 0, None, 0, None), "failed"),
}


def figures(usage: Usage | None) -> tuple[int | None, ...] | None:
    """A usage as the table writes it."""
    if usage is None:
        return None
    tokens = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    return (*tokens, usage.reasoning_tokens, usage.requests)


@pytest.mark.parametrize("name", TABLE)
def test_a_whole_transcript_comes_to_its_row_of_the_table(name: str) -> None:
    """Events in order, calls with their outcome, usage in buckets that exclude each other, status and coverage."""
    turn = WHOLE[name].collect().turn
    row = TABLE[name]
    assert brief(turn) == row.events
    assert (figures(turn.usage), turn.status) == (row.usage, row.status)
    assert tuple(sorted(turn.evidence_coverage or {})) == row.partial


@pytest.mark.parametrize("name", WHOLE)
def test_chunks_make_no_difference(name: str) -> None:
    """A transcript that arrives a few bytes at a time is the same turn."""
    transcript = WHOLE[name]
    pieces = [transcript.data[start : start + 7] for start in range(0, len(transcript.data), 7)]
    assert transcript.parse(pieces, exit_code=transcript.exit_code) == transcript.collect()


def test_the_corpus_is_as_large_as_it_is_meant_to_be() -> None:
    """Every format has at least sixty damaged forms, and every whole transcript is in the table or a part of one."""
    forms: dict[str, int] = {}
    for name, transcript in WHOLE.items():
        forms[name.split("/")[0]] = forms.get(name.split("/")[0], 0) + len(list(damaged(transcript.data, name)))
    assert min(forms.values()) >= 60
    assert set(TABLE) <= set(WHOLE)
    assert {name.removesuffix(".rollout").removesuffix(".child").removesuffix(".agent") for name in WHOLE} == set(TABLE)


def test_a_killed_stream_is_partial_wherever_something_may_be_missing() -> None:
    """A real stream that ended on SIGTERM: nothing is claimed of what came after, and the turn did not succeed."""
    turn = claude_code.parse([read("claude_code/sigterm.jsonl")], exit_code=143, killed=True).turn
    assert turn.status == "failed"
    assert {coverage.level for coverage in (turn.evidence_coverage or {}).values()} == {"partial"}
    assert set(turn.evidence_coverage or {}) == {"events", "actions", "messages", "usage", "status"}


def test_a_codex_stream_without_its_end_is_partial_and_its_open_call_has_no_result() -> None:
    """A real stream that was killed within a command."""
    turn = codex.parse([read("codex/compact.jsonl")], exit_code=None, killed=True).turn
    called = [event.call_id for event in turn.events if isinstance(event, ActionCalled)]
    ended = [event.call_id for event in turn.events if isinstance(event, ActionResult)]
    assert called == [*ended, "item_5"]
    assert (turn.evidence_coverage or {})["status"].level == "partial"


def test_claude_code_waits_for_a_permission_when_it_is_paused_and_only_then() -> None:
    """A question that is open when the adapter stops reading is a request; in a stream that broke off it is none."""
    lines = read("claude_code/hitl_deny.jsonl").splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if b"can_use_tool" in line)
    transcript = claude_code.Transcript()
    transcript.feed(b"".join(lines[: place + 1]))
    (question,) = transcript.questions
    assert (question.action, [option.id for option in question.options or ()]) == ("Bash", ["allow", "deny"])
    paused = transcript.finish(paused=True).turn
    assert (paused.status, brief(paused)[-1]) == ("waiting", "?")
    assert set(paused.evidence_coverage or {}) == {"usage"}
    broken = claude_code.parse([b"".join(lines[: place + 1])], exit_code=1).turn
    assert (broken.status, "?" in brief(broken)) == ("failed", False)
    assert not claude_code.Transcript().questions


def test_an_older_claude_code_says_at_the_end_what_was_denied() -> None:
    """Without a decision beside the result, the result line's denials count; without that line nothing is claimed."""
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "not granted", "is_error": True}
    lines = [
        {"type": "assistant", "message": {"id": "m", "content": [call]}},
        {"type": "user", "message": {"content": [result]}},
        {
            "type": "result",
            "is_error": False,
            "usage": {"input_tokens": 1},
            "permission_denials": [{"tool_use_id": "t1"}],
        },
    ]
    data = [json.dumps(line).encode() + b"\n" for line in lines]
    assert brief(claude_code.parse(data).turn) == ["Bash/shell rejected"]
    assert brief(claude_code.parse(data[:2]).turn) == ["Bash/shell None"]


def test_a_loaded_skill_is_the_action_that_assertions_know() -> None:
    """The agents' own tools for it become `load_skill` with the skill's name."""
    block = {"type": "tool_use", "id": "t", "name": "Skill", "input": {"skill": "pdf"}}
    turn = claude_code.parse(
        [json.dumps({"type": "assistant", "message": {"id": "m", "content": [block]}}).encode()]
    ).turn
    assert turn.events[0] == ActionCalled(call_id="t", name="load_skill", input={"skill": "pdf"})


def test_codex_usage_is_the_turns_and_not_the_threads() -> None:
    """Without a rollout file: the difference to the total before; where that is not known, no usage at all."""
    stream = read("codex/resume.jsonl")
    before = Usage(input_tokens=250, output_tokens=41, cache_read_tokens=80, cache_write_tokens=0, reasoning_tokens=12)
    known = codex.parse([stream], exit_code=0, total_before=before).turn
    assert figures(known.usage) == (160, 20, 40, 0, 6, None)
    unknown = codex.parse([stream], exit_code=0, resumed=True).turn
    assert unknown.usage is None
    assert (unknown.evidence_coverage or {})["usage"].level == "unavailable"


def test_a_rollout_of_another_turn_or_thread_is_not_used() -> None:
    """Its calls would be evidence of something else: the stream alone counts, and the diagnostics say so."""
    stream, first = read("codex/shell.jsonl"), read("codex/fail.rollout.jsonl")
    for rollout, skip in ((first, 0), (read("codex/shell.rollout.jsonl"), 1), (b"", 0)):
        collected = codex.parse([stream], exit_code=0, rollout=[rollout], skip_turns=skip)
        assert "shell/shell completed" in brief(collected.turn)
        assert "rollout-not-used" in [said.code for said in collected.diagnostics]
        assert set(collected.turn.evidence_coverage or {}) >= {"events", "actions"}


def test_rate_limits_are_said() -> None:
    """Of a retry after 429 the turn keeps an error event and a diagnostic."""
    for name in ("claude_code/flaky429", "codex/flaky"):
        assert "rate-limited" in [said.code for said in WHOLE[name].collect().diagnostics]


CLOSERS: Mapping[str, tuple[Any, bytes]] = {
    "claude_code": (claude_code.parse, b'{"type":"new_kind"}\n{"type":"system","subtype":"new_kind"}\n'),
    "codex": (codex.parse, b'{"type":"new.kind"}\n{"type":"item.completed","item":{"id":"i","type":"new_kind"}}\n'),
    "bub": (bub.parse, b'{"kind":"event","payload":{"name":"loop.start"}}\n{"kind":"new_kind"}\n'),
    "opencode": (opencode.parse, b'{"type":"new_kind"}\n'),
    "gemini_cli": (gemini_cli.parse, b'{"type":"new_kind"}\n'),
}


@pytest.mark.parametrize("name", CLOSERS)
def test_an_unknown_kind_is_said_and_lowers_the_channels(name: str) -> None:
    """It is in the diagnostics by its name, and whatever it may have carried evidence for is partial."""
    parse, data = CLOSERS[name]
    collected = parse([data], exit_code=0)
    (said,) = [one for one in collected.diagnostics if one.code == "unknown-lines"]
    assert "new" in said.message
    assert (collected.turn.evidence_coverage or {})["actions"].level == "partial"


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | st.just("tool_use"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "id", "name"]), inner),
    max_leaves=6,
)


def _replaced(value: Any, steps: list[int], new: Any) -> Any:
    """The value with something in it, found by some steps, replaced."""
    if not steps or not isinstance(value, (dict, list)) or not value:
        return new
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = keys[steps[0] % len(keys)]
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[key] = _replaced(value[key], steps[1:], new)
    return changed


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(WHOLE)), st.integers(0, 99), st.lists(st.integers(0, 20), min_size=1, max_size=6), VALUES)
def test_a_field_of_any_shape_is_never_an_exception(name: str, line: int, steps: list[int], new: Any) -> None:
    """Any one field of any line replaced by anything: the parser comes to a turn that can be encoded."""
    transcript: Transcript = WHOLE[name]
    lines = transcript.data.splitlines(keepends=True)
    place = line % len(lines)
    lines[place] = json.dumps(_replaced(json.loads(lines[place]), steps, new)).encode() + b"\n"
    turn = transcript.collect(b"".join(lines)).turn
    assert turn.status in ("completed", "failed")
    for channel, coverage in (turn.evidence_coverage or {}).items():
        declared = transcript.coverage[channel]  # type: ignore[index]
        assert isinstance(coverage, Coverage)
        assert not declared.worse_than(coverage)


def test_session_files_of_claude_code_without_an_end_mark_are_partial() -> None:
    """An older version writes none: what was said and done is there, and nothing else is claimed."""
    lines = read("claude_code/session_shell.jsonl").splitlines(keepends=True)
    turn = claude_file.parse_file([line for line in lines if b"cost-state" not in line], exit_code=0).turn
    assert brief(turn) == TABLE["claude_code/session_shell"].events
    assert set(turn.evidence_coverage or {}) == {"events", "actions", "messages", "usage", "status"}
