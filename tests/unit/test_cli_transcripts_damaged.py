"""A damaged transcript never says what the whole one contradicts: at most it says less."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from niceeval import EvalContext
from niceeval.adapter import ActionCalled, EvidenceCoverage, Message, SubagentCalled, Turn, derive_facts
from tests.unit.cli_corpus import Damaged, Transcript, damaged, whole
from tests.unit.drive_harness import agent, run_eval

WHOLE = list(whole())
MOST_ENTRIES = 9_000
Question = tuple[str, Callable[[Any], object]]


def _tool_questions(turn: Turn) -> list[Question]:
    names = {"shell", "exec_command", "Bash", "bash", "file_edit", "agent_task", "no_such_tool", "load_skill"}
    for event in turn.events:
        if isinstance(event, ActionCalled):
            names |= {event.name, event.tool or event.name}
    asked: list[Question] = []
    for name in sorted(names):
        asked.append((f"called {name}", lambda on, name=name: on.called_tool(name)))
        asked.append((f"not called {name}", lambda on, name=name: on.not_called_tool(name)))
        for count in (0, 1, 2):
            asked.append((f"called {name} x{count}", lambda on, name=name, n=count: on.called_tool(name, count=n)))
        for status in ("completed", "failed", "rejected"):
            asked.append((f"{status} {name}", lambda on, name=name, s=status: on.called_tool(name, status=s)))
        hello = re.compile("hello|one|notes|denied")
        asked.append((f"{name} gave", lambda on, name=name, p=hello: on.called_tool(name, output=p)))
    return asked


def _text_questions(turn: Turn) -> list[Question]:
    texts = [event.text for event in turn.events if isinstance(event, Message)]
    pieces = {text for whole in texts for text in (whole, whole[: len(whole) // 2], whole[3:-3]) if text}
    pieces |= {"not there", "The answer -two.", "is fortyThe answer", "is fortyis forty", "The answer The answer"}
    pieces |= {"DoDo", "ne.ne.", "ne.Do", ".Plain"}
    return [(f"says {text!r}", lambda on, text=text: on.message_includes(text)) for text in sorted(pieces)]


def questions(turn: Turn) -> list[Question]:
    """What is asked of a turn and of every damaged form of it."""
    asked = [*_tool_questions(turn), *_text_questions(turn)]
    facts = derive_facts(turn.events)
    for bound in range(len(facts.tool_calls) + 2):
        asked.append((f"at most {bound} calls", lambda on, n=bound: on.max_tool_calls(n)))
    total = (turn.usage and turn.usage.total_tokens) or 0
    for bound in {0, total - 1, total, total * 2, 10_000_000} - {-1}:
        asked.append((f"at most {bound} tokens", lambda on, n=bound: on.max_tokens(n)))
    for count in range(4):
        asked.append((f"{count} messages", lambda on, n=count: on.event("message", count=n)))
    for kind in ("compaction", "thinking", "error", "input.requested"):
        asked.append((f"{kind}", lambda on, kind=kind: on.event(kind)))
        asked.append((f"no {kind}", lambda on, kind=kind: on.not_event(kind)))
    subagents = {event.name for event in turn.events if isinstance(event, SubagentCalled)} | {"helper"}
    for name in sorted(subagents):
        asked.append((f"subagent {name}", lambda on, name=name: on.called_subagent(name)))
        asked.append((f"subagent {name} done", lambda on, name=name: on.called_subagent(name, status="completed")))
    return [
        *asked,
        ("no failed actions", lambda on: on.no_failed_actions()),
        ("no tools", lambda on: on.used_no_tools()),
        ("succeeded", lambda on: on.succeeded()),
        ("parked", lambda on: on.parked()),
    ]


def outcomes(turns: Sequence[Turn], asked: Sequence[Question], coverage: EvidenceCoverage) -> list[list[str]]:
    """What each question comes to for each turn, through real attempts, with each turn in a session of its own."""
    size = MOST_ENTRIES // len(asked)
    batches = [turns[start : start + size] for start in range(0, len(turns), size)]
    return [answers for batch in batches for answers in _attempt(batch, asked, coverage)]


def _attempt(turns: Sequence[Turn], asked: Sequence[Question], coverage: EvidenceCoverage) -> list[list[str]]:
    async def case(t: EvalContext) -> None:
        for _ in turns:
            line = t.new_session()
            await line.send("go")
            for _, ask in asked:
                ask(line)

    ran = run_eval(case, agent(*turns, coverage=coverage), timeout=300.0)
    assert ran.error_code is None or ran.error_code == "unavailable", ran.result.error_info
    found = [entry.outcome for entry in ran.result.assertions]
    assert len(found) == len(turns) * len(asked)
    return [found[start : start + len(asked)] for start in range(0, len(found), len(asked))]


def _evidence(turn: Turn) -> str:
    """All of a turn that decides an answer: its reasons for a level do not."""
    levels = {channel: coverage.level for channel, coverage in (turn.evidence_coverage or {}).items()}
    return repr((turn.events, turn.status, turn.usage, levels))


@pytest.mark.parametrize("transcript", WHOLE, ids=lambda one: one.name)
def test_what_a_damaged_transcript_says_is_not_contradicted_by_the_whole(transcript: Transcript) -> None:
    """Over every damaged form: an answer is the whole one's answer, or `unavailable`; and no form raises."""
    full = transcript.collect().turn
    asked = questions(full)
    forms: list[Damaged] = list(damaged(transcript.data, transcript.name))
    assert len(forms) >= 5
    turns = [transcript.collect(form.data, **form.how).turn for form in forms]
    # Many forms come to the same evidence; what is asked of one is asked of all of them.
    distinct: dict[str, int] = {}
    unique: list[Turn] = [full]
    place = [distinct.setdefault(_evidence(turn), len(distinct) + 1) for turn in turns]
    for turn, number in zip(turns, place, strict=True):
        if number == len(unique):
            unique.append(turn)
    assert len(unique) > 1
    answers = outcomes(unique, asked, transcript.coverage)
    assert {"passed", "failed"} <= set(answers[0])
    contradictions = [
        f"{form.what}: {question} is {said}, but {true} in the whole"
        for form, number in zip(forms, place, strict=True)
        for (question, _), said, true in zip(asked, answers[number], answers[0], strict=True)
        if "unavailable" not in (said, true) and said != true
    ]
    assert not contradictions, "\n".join(contradictions[:20])
