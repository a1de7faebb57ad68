"""Several answers of a model are one turn: what a converter made of each goes into the turn's builder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from niceeval._model.events import (
    ActionCalled,
    ActionResult,
    Compaction,
    ErrorEvent,
    InputRequested,
    Message,
    SubagentCalled,
    SubagentCompleted,
    Thinking,
)
from niceeval.turn_building import Collected, TurnBuilder

_SEPARATOR: Final = "; "
"""Between the reasons of one channel."""


def replay(collected: Collected, builder: TurnBuilder, ids: Mapping[str, str], *, closed_here: bool) -> None:
    """Add an answer to a turn.

    `ids`: what the turn's events call the calls of the answer. `closed_here`: whoever adds it gives their results, so
    that it is no lack that the answer has none.
    """
    turn = collected.turn
    for event in turn.events:
        _add(event, builder, ids)
    worse = turn.evidence_coverage or {}
    for channel, coverage in worse.items():
        reason = coverage.reason or "the converter gave no reason"
        if closed_here and channel == "actions":
            # What lowers the actions alone is about results; what is missing of the calls lowers the events as well.
            events = worse["events"].reason if "events" in worse else None
            reason = _SEPARATOR.join(part for part in reason.split(_SEPARATOR) if part in (events or ""))
        if reason:
            add = builder.unavailable if coverage.level == "unavailable" else builder.partial
            add(channel, reason)  # type: ignore[arg-type]
    if turn.usage is not None:
        builder.add_usage(turn.usage)
    if turn.data is not None:
        builder.data(turn.data)
    for said in collected.diagnostics:
        builder.diagnostic(said.code, said.message, said.data, level=said.level)


def without_data(collected: Collected) -> Collected:
    """An answer that calls tools before it gives its data: that it has none yet is nothing to say."""
    diagnostics = tuple(said for said in collected.diagnostics if said.code != "output-not-json")
    return replace(collected, turn=replace(collected.turn, data=None), diagnostics=diagnostics)


def _add(event: object, builder: TurnBuilder, ids: Mapping[str, str]) -> None:
    match event:
        case Message(role=role, text=text):
            builder.message(text, role)
        case Thinking(text=text):
            builder.thinking(text)
        case ActionCalled(call_id=id, name=name, input=given, tool=tool):
            builder.called(ids.get(id, id), name, given, tool)
        case ActionResult(call_id=id, output=output, status=status):
            builder.result(ids.get(id, id), output, status)
        case SubagentCalled(call_id=id, name=name, remote_url=url):
            builder.subagent(id, name, url)
        case SubagentCompleted(call_id=id, output=output, status=ended):
            builder.subagent_done(id, output, ended)
        case InputRequested(request=request):
            builder.requested(request)
        case Compaction(reason=reason):
            builder.compaction(reason)
        case ErrorEvent(message=message):
            builder.error(message)
        case _:
            builder.unknown(type(event).__name__)
