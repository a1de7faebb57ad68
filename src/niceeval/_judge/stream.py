"""Assertions on messages and on the event stream itself (channels `messages` and `events`).

An event is evidence for more than one channel: that no `action.called` was seen means nothing where `actions` is not
complete, whatever an agent says of `events`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence

from niceeval._base.errors import AuthorError
from niceeval._evidence.coverage import FROM_EVENTS, channels_of_type
from niceeval._evidence.facts import IndexedEvent
from niceeval._evidence.scope import Scope
from niceeval._judge.availability import incomplete
from niceeval._judge.counting import Count, count_score, count_text
from niceeval._judge.evaluation import Evaluation, event_line, plural, refs_of
from niceeval._model.events import EVENT_CLASSES, Message, StreamEvent, event_type
from niceeval._model.matching import ask, predicate_name, truth

SHOWN_TEXT = 2_000
"""Characters of received text that an assertion keeps."""


def message_includes(scope: Scope, pattern: str | re.Pattern[str]) -> Evaluation:
    """Some assistant message contains the text, or the pattern is found in it; each message is tested alone."""
    said = [(index, event) for index, event in scope.events if isinstance(event, Message) and event.role == "assistant"]
    found = [(index, event) for index, event in said if _contains(event.text, pattern)]
    wanted = f"/{pattern.pattern}/" if isinstance(pattern, re.Pattern) else repr(pattern)
    return Evaluation(
        score=1.0 if found else 0.0,
        expected=f"an assistant message with {wanted}",
        received=_last_text([event for _, event in found or said]),
        evidence=_lines(found),
        refs=refs_of((index, None) for index, _ in found or said),
        reason=None if found else incomplete(scope, "messages"),
    )


def event(scope: Scope, kind: str, count: Count) -> Evaluation:
    """Events of a type occur; `message` counts assistant messages only."""
    found = _of_type(scope, kind)
    passed, reason = count_score(scope, channels_of_type(kind), len(found), count)
    return Evaluation(
        score=1.0 if passed and reason is None else 0.0,
        expected=f"{count_text(count, 'event')} of type {kind}",
        received=plural(len(found), "such event"),
        evidence=_lines(found),
        refs=refs_of((index, None) for index, _ in found),
        reason=reason,
    )


def not_event(scope: Scope, kind: str) -> Evaluation:
    """No event of a type occurs."""
    reason = incomplete(scope, *channels_of_type(kind))
    found = _of_type(scope, kind)
    return Evaluation(
        score=0.0 if found or reason else 1.0,
        expected=f"no event of type {kind}",
        received=plural(len(found), "such event"),
        evidence=_lines(found),
        refs=refs_of((index, None) for index, _ in found),
        reason=reason,
    )


def event_order(scope: Scope, kinds: Sequence[str]) -> Evaluation:
    """The types occur in this order, gaps allowed."""
    used: list[IndexedEvent] = []
    for index, item in scope.events:
        if len(used) < len(kinds) and _counts_as(item, kinds[len(used)]):
            used.append((index, item))
    found = len(used) == len(kinds)
    channels = dict.fromkeys(channel for kind in kinds for channel in channels_of_type(kind))
    return Evaluation(
        score=1.0 if found and scope.turns else 0.0,
        expected=" -> ".join(kinds),
        received=" -> ".join(event_type(item) for _, item in scope.events[:50]) or "no events",
        detail=None if found else f"no {kinds[len(used)]} after {kinds[len(used) - 1] if used else 'the start'}",
        evidence=_lines(used),
        refs=refs_of((index, None) for index, _ in used),
        reason=incomplete(scope, *channels) if not found or not scope.turns else None,
    )


def events_satisfy(scope: Scope, label: str, predicate: Callable[[Sequence[StreamEvent]], object]) -> Evaluation:
    """A predicate over all events of the scope.

    Raises AuthorError (`bad-matcher`) where the predicate raises or gives no truth.
    """
    reason = incomplete(scope, *FROM_EVENTS)
    passed = reason is None and truth(ask(predicate, [item for _, item in scope.events]), predicate_name(predicate))
    return Evaluation(
        score=1.0 if passed else 0.0,
        expected=label,
        received=plural(len(scope.events), "event") + ("" if reason else f", {'true' if passed else 'false'}"),
        refs=refs_of((index, None) for index, _ in scope.events) if not passed else (),
        reason=reason,
    )


def require_event_type(kind: object, call: str) -> None:
    """Raises AuthorError (`bad-argument`) for a type that no event has: a slip of the pen must not pass `not_event`."""
    if isinstance(kind, str) and kind in EVENT_CLASSES:
        return
    close = difflib.get_close_matches(kind, EVENT_CLASSES, n=1) if isinstance(kind, str) else []
    raise AuthorError(
        "bad-argument",
        call=call,
        argument=f'"{kind}"' if isinstance(kind, str) else type(kind).__name__,
        problem="is not an event type" + (f'; "{close[0]}" is close' if close else ""),
        fix="the types are " + ", ".join(EVENT_CLASSES),
    )


def _contains(text: str, pattern: str | re.Pattern[str]) -> bool:
    return pattern in text if isinstance(pattern, str) else pattern.search(text) is not None


def _of_type(scope: Scope, kind: str) -> list[IndexedEvent]:
    return [(index, item) for index, item in scope.events if _counts_as(item, kind)]


def _counts_as(item: StreamEvent, kind: str) -> bool:
    return event_type(item) == kind and not (isinstance(item, Message) and item.role != "assistant")


def _lines(found: Sequence[IndexedEvent]) -> str | None:
    return " · ".join(event_line(index, item) for index, item in found[:3]) or None


def _last_text(messages: Sequence[Message]) -> str:
    if not messages:
        return "no assistant message"
    text = messages[-1].text
    return text if len(text) <= SHOWN_TEXT else f"{text[:SHOWN_TEXT]} [+{len(text) - SHOWN_TEXT} chars]"
