"""Checks of single turns: what the boundary had to say, what was declared, and what came."""

from __future__ import annotations

from collections.abc import Iterator

from niceeval._base.errors import AdapterError
from niceeval._drive.turn import assistant_text
from niceeval._evidence.scope import TurnRecord
from niceeval._model.coverage import Channel, EvidenceCoverage
from niceeval._model.events import Message
from niceeval._model.usage import Usage
from niceeval.testing._agent.check import (
    Answer,
    Check,
    absent,
    check,
    ended_early,
    failed,
    failed_at,
    failed_by,
    not_checked,
    not_promised,
    passed,
)
from niceeval.testing._agent.drives import Drive
from niceeval.testing._agent.evidence import Evidence
from niceeval.testing._agent.report import EventRef

WITHOUT_USAGE = "a turn came without usage"
"""The boundary's own reason for lowering `usage`; any other reason is the adapter's, and honest."""


@check("coverage-declared", "all six channels are declared, with a reason wherever one is not complete")
def coverage_declared(evidence: Evidence) -> Answer:
    given: object = evidence.agent.evidence_coverage
    if not isinstance(given, EvidenceCoverage):
        return failed(f"evidence_coverage is {type(given).__name__}", "make the agent with define_agent")
    try:
        given.require_valid(evidence.agent.name)
    except AdapterError as error:
        return failed(error.message(), error.next_step())
    return passed()


@check("coverage-consistent", "events is complete only where actions and messages are: they are part of the stream")
def coverage_consistent(evidence: Evidence) -> Answer:
    channels: tuple[Channel, ...] = ("actions", "messages")
    worse = [channel for channel in channels if evidence.declared(channel).level != "complete"]
    if evidence.declared("events").level == "complete" and worse:
        return failed(
            f"events is declared complete, {' and '.join(worse)} not: `not_event` would pass on what cannot be seen",
            "declare events partial, with the same reason",
        )
    return passed()


@check("turn-accepted", "send returns a Turn that niceeval can use")
def turn_accepted(evidence: Evidence) -> Answer:
    first = evidence.get("hello")
    if first is None:
        return not_checked("nothing was sent")
    if first.fault is None:
        return passed()
    if first.fault.phase == "setup":
        return ended_early(first, "hooks-run")
    return failed_by(first.fault, first.fault.next_step or "raise only where no conclusion can be drawn")


@check("turn-completes", "a plain text ends in a completed turn")
def turn_completes(evidence: Evidence) -> Answer:
    first = evidence.get("hello")
    if evidence.broken or first is None:
        return absent(evidence, "hello", '"a text that ends in a plain answer"')
    other = [turn for turn in first.turns if turn.status != "completed"]
    if other:
        return failed_at(
            [(start_of(first, turn), f"the turn's status is {turn.status}") for turn in other],
            'status is "completed" where the agent answered; or give another Probes(hello=...)',
        )
    return passed()


def _boundary(id: str, says: str, codes: tuple[str, ...], next: str) -> Check:
    """A check that the boundary makes at every turn: a diagnostic of these codes is a failure."""

    @check(id, says)
    def judge(evidence: Evidence) -> Answer:
        if evidence.broken:
            return absent(evidence, "hello", '"..."')
        said = [
            (turn_ref(drive, diagnostic.turn), diagnostic.message)
            for drive in evidence.drives.values()
            for diagnostic in drive.diagnostics
            if diagnostic.code in codes and diagnostic.turn is not None
        ]
        return failed_at(said, next) if said else passed()

    return judge


VALUES_PLAIN = _boundary(
    "values-plain",
    "events and data are plain JSON within the limits, and are kept as they came",
    ("turn-normalised", "turn-cut"),
    "convert it in the adapter (numbers, text, lists, mappings with text keys), and leave out what is large",
)
EVENT_TYPES = _boundary(
    "event-types",
    "every event is of one of the nine types",
    ("unknown-event",),
    "map it to one of the nine types, or leave it out and declare events partial",
)
REQUESTS_WAIT = _boundary(
    "requests-wait",
    "a turn that asks is waiting",
    ("requests-without-waiting",),
    'return status="waiting" where the turn has an InputRequested; otherwise nobody can answer it',
)
UNASKED_DATA = _boundary(
    "data-only-when-asked",
    "data comes only where an output_schema was given",
    ("data-without-schema",),
    "set Turn.data only where input.output_schema is not None",
)
TURN_COVERAGE = _boundary(
    "turn-coverage",
    "a turn's own coverage is never better than what is declared",
    ("coverage-upgrade",),
    "declare the channel as it can be at best, and make it worse in the turns where it is",
)


@check("usage-sane", "usage counts tokens, and its parts fit together")
def usage_sane(evidence: Evidence) -> Answer:
    if evidence.broken:
        return absent(evidence, "hello", '"..."')
    problems = [
        (turn_ref(drive, diagnostic.turn), diagnostic.message)
        for drive in evidence.drives.values()
        for diagnostic in drive.diagnostics
        if diagnostic.code == "usage-malformed" and diagnostic.turn is not None
    ]
    seen = 0
    for drive, turn in evidence.turns():
        seen += turn.usage is not None
        problem = None if turn.usage is None else _odd_usage(turn.usage, assistant_text(turn))
        if problem is not None:
            problems.append((start_of(drive, turn), problem))
    if problems:
        return failed_at(problems, "report what the protocol gives, and leave out (None) what it does not")
    return passed() if seen else not_checked("no turn reported usage")


def _odd_usage(usage: Usage, answer: str) -> str | None:
    reasoning, output = usage.reasoning_tokens, usage.output_tokens
    if reasoning is not None and output is not None and reasoning > output:
        return f"{reasoning} reasoning tokens of {output} output tokens, which they are a part of"
    if usage.input_tokens == 0 and not (usage.cache_read_tokens or usage.cache_write_tokens):
        return "0 input tokens for a turn that was sent: a count that is not known is None, not 0"
    if output == 0 and answer.strip():
        return "0 output tokens for a turn with an answer: a count that is not known is None, not 0"
    return None


@check("usage-given", "usage that is declared complete comes with every turn")
def usage_given(evidence: Evidence) -> Answer:
    if evidence.broken:
        return absent(evidence, "hello", '"..."')
    unpromised = not_promised(evidence, "usage")
    if unpromised is not None:
        return unpromised
    without = [
        (start_of(drive, turn), "no usage" if turn.usage is None else "usage without input or output tokens")
        for drive, turn in evidence.turns()
        if (turn.usage is None or turn.usage.total_tokens is None) and not _lowered(turn)
    ]
    if without:
        return failed_at(without, "report it, or declare usage partial or unavailable (for one turn: in the Turn)")
    return passed()


def _lowered(turn: TurnRecord) -> bool:
    return any(reason != WITHOUT_USAGE for reason in turn.coverage["usage"][1])


@check("messages-given", "messages that are declared complete hold the answer of every completed turn")
def messages_given(evidence: Evidence) -> Answer:
    if evidence.broken:
        return absent(evidence, "hello", '"..."')
    unpromised = not_promised(evidence, "messages")
    if unpromised is not None:
        return unpromised
    silent = [
        (start_of(drive, turn), "a completed turn without an assistant message")
        for drive, turn in _plain_turns(evidence)
        if not assistant_text(turn).strip() and turn.coverage["messages"][0] == "complete"
    ]
    if silent:
        return failed_at(silent, 'add Message(role="assistant", text=...), or declare messages partial')
    return passed()


@check("no-echo", "what the user said does not come back as an event")
def no_echo(evidence: Evidence) -> Answer:
    if evidence.broken:
        return absent(evidence, "hello", '"..."')
    next = "leave the user's text out: niceeval records it, and an assistant message is what the agent said"
    echoes = [echo for drive, turn in _plain_turns(evidence) for echo in _user_echoes(drive, turn)]
    if echoes:
        return failed_at(echoes, next)
    spoken = [(drive, turn, _said(turn)) for drive, turn in _plain_turns(evidence)]
    parroted = [(drive, turn) for drive, turn, said in spoken if _input(turn) in said]
    # An agent may well answer one text with the same words; one that does it every time passes on what it was sent.
    if parroted and len(parroted) == len(spoken):
        drive, turn = parroted[0]
        return failed_at(
            [(start_of(drive, turn), "every turn has an assistant message with the user's own text")], next
        )
    return passed()


def _user_echoes(drive: Drive, turn: TurnRecord) -> Iterator[tuple[EventRef, str]]:
    for index, event in turn.events[1:]:
        if isinstance(event, Message) and event.role == "user" and event.text.strip() == _input(turn):
            yield EventRef(drive.name, index), "a second message with the user's text"


def _said(turn: TurnRecord) -> list[str]:
    return [e.text.strip() for _, e in turn.events if isinstance(e, Message) and e.role == "assistant"]


def _input(turn: TurnRecord) -> str:
    first = turn.events[0][1]
    assert isinstance(first, Message)
    return first.text.strip()


def _plain_turns(evidence: Evidence) -> Iterator[tuple[Drive, TurnRecord]]:
    """Completed turns that answered a plain text: no data, no approval."""
    for drive in [*evidence.named("hello"), *evidence.named("parallel-"), *evidence.named("memory")]:
        for turn in drive.turns:
            if turn.status == "completed" and turn.data is None:
                yield drive, turn


@check("coverage-modest", "what is declared unavailable is not there")
def coverage_modest(evidence: Evidence) -> Answer:
    if evidence.broken:
        return absent(evidence, "hello", '"..."')
    seen = _channels_seen(evidence)
    hidden = [channel for channel in seen if evidence.declared(channel).level == "unavailable"]
    if hidden:
        named = " and ".join(hidden)
        return passed(
            f"{named} {'is' if len(hidden) == 1 else 'are'} declared unavailable, yet something came",
            f"declare {named} partial or complete, where that can be relied on: more assertions can be answered then",
        )
    return passed()


def _channels_seen(evidence: Evidence) -> list[Channel]:
    seen: list[Channel] = []
    turns = list(evidence.turns())
    if any(drive.calls(number) for drive in evidence.drives.values() for number in range(len(drive.lines))):
        seen.append("actions")
    if any(assistant_text(turn) for _, turn in turns):
        seen.append("messages")
    if any(turn.usage is not None for _, turn in turns):
        seen.append("usage")
    if any(turn.data is not None for _, turn in turns):
        seen.append("data")
    return seen


def start_of(drive: Drive, turn: TurnRecord) -> EventRef:
    """The event that a turn begins with: the user's message."""
    return EventRef(drive.name, turn.events[0][0])


def turn_ref(drive: Drive, number: int | None) -> EventRef:
    """The beginning of the turn of that number."""
    turn = next((turn for turn in drive.turns if turn.number == number), None)
    return EventRef(drive.name, 0) if turn is None else start_of(drive, turn)


TURN_CHECKS = (
    coverage_declared,
    coverage_consistent,
    turn_accepted,
    turn_completes,
    VALUES_PLAIN,
    EVENT_TYPES,
    REQUESTS_WAIT,
    UNASKED_DATA,
    TURN_COVERAGE,
    usage_sane,
    usage_given,
    messages_given,
    no_echo,
    coverage_modest,
)
