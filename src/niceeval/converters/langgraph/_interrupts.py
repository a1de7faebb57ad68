"""What a graph stopped for, as requests, and the answers in the form that the graph goes on with.

Three forms are known: LangChain's approval of several calls at once (`action_requests`, answered by position), its
approval of one call (`tool_approval`), and whatever else a node gave to `interrupt(...)`, which is a question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from niceeval.adapter import InputOption, InputRequest, InputResponse
from niceeval.converters._attributes import field, items, text_field, without_bytes
from niceeval.converters.langgraph._messages import json_text

APPROVE: Final = "approve"
REJECT: Final = "reject"
_LABELS: Final = {APPROVE: "Approve", REJECT: "Reject"}
_ALL: Final = (APPROVE, "edit", REJECT, "respond")
_QUESTIONS: Final = ("question", "prompt", "message", "query", "description", "text")
"""Where a node that interrupts with an object is looked through for the question."""

Resume = Callable[[Any, InputResponse], Any]
"""Makes what `interrupt(value)` returns of its value and the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """One open question of a graph. `interrupt` is the id that the graph goes on by; `place` is the position among the
    calls that are approved together, None for a question that stands alone."""

    request: InputRequest
    interrupt: str
    value: Any
    form: Literal["batch", "call", "question"]
    place: int | None = None
    allowed: tuple[str, ...] = ()


def pauses(interrupts: Iterable[object]) -> list[Pause]:
    """The open questions, each once, in their order."""
    found: dict[str, Pause] = {}
    for interrupt in interrupts:
        for pause in _of(interrupt):
            found.setdefault(pause.request.id, pause)
    return list(found.values())


def resume_values(
    asked: Iterable[Pause], responses: Iterable[InputResponse], resume: Resume | None = None
) -> tuple[dict[str, Any], list[str]]:
    """What to give to `Command(resume=...)`: a value for each interrupt that is answered whole. The second is what is
    wrong with the answers, as sentences; empty where nothing is."""
    answers = {response.request_id: response for response in responses}
    known = {pause.request.id: pause for pause in asked}
    wrong = [f"nothing was asked under {id!r}" for id in answers if id not in known]
    values: dict[str, Any] = {}
    by_interrupt: dict[str, list[Pause]] = {}
    for pause in known.values():
        by_interrupt.setdefault(pause.interrupt, []).append(pause)
    for id, group in by_interrupt.items():
        given = [pause.request.id for pause in group if pause.request.id in answers]
        if not given:
            continue
        if len(given) < len(group):
            wrong.append(f"{len(group)} calls wait to be decided together, and {len(given)} were")
        elif group[0].form == "batch":
            values[id] = {"decisions": [_decision(pause, answers[pause.request.id]) for pause in group]}
        elif group[0].form == "call":
            values[id] = _decision(group[0], answers[given[0]])
        else:
            answer = answers[given[0]]
            values[id] = resume(group[0].value, answer) if resume else answer.text or answer.option_id
    return values, wrong


def _of(interrupt: object) -> list[Pause]:
    id, value = text_field(interrupt, "id") or "interrupt", field(interrupt, "value")
    requests = items(field(value, "action_requests")) if isinstance(value, Mapping) else []
    if requests:
        reviews = items(field(value, "review_configs"))
        return [
            _approval(id, place, request, _decisions(reviews[place] if place < len(reviews) else None))
            for place, request in enumerate(requests)
        ]
    if text_field(value, "type") == "tool_approval":
        return [_approval(id, None, value, _by_schema(field(interrupt, "response_schema")))]
    return [Pause(request=_question(id, value), interrupt=id, value=value, form="question")]


def _approval(id: str, place: int | None, asked: object, allowed: tuple[str, ...]) -> Pause:
    options = tuple(InputOption(id=word, label=_LABELS[word]) for word in (APPROVE, REJECT) if word in allowed)
    request = InputRequest(
        id=id if place is None else f"{id}:{place}",
        action=text_field(asked, "name"),
        input=without_bytes(field(asked, "args")),
        prompt=text_field(asked, "description"),
        options=options or None,
    )
    form: Literal["batch", "call"] = "call" if place is None else "batch"
    return Pause(request=request, interrupt=id, value=asked, form=form, place=place, allowed=allowed)


def _decisions(review: object) -> tuple[str, ...]:
    allowed = tuple(word for word in items(field(review, "allowed_decisions")) if isinstance(word, str))
    return allowed or _ALL


def _by_schema(schema: object) -> tuple[str, ...]:
    found = field(field(schema, "discriminator"), "mapping")
    if isinstance(found, Mapping):
        return tuple(word for word in _ALL if word in found)
    only = text_field(field(field(schema, "properties"), "type"), "const")
    return (only,) if only else _ALL


def _question(id: str, value: Any) -> InputRequest:
    if isinstance(value, str):
        return InputRequest(id=id, prompt=value)
    prompt = next((found for name in _QUESTIONS if (found := text_field(value, name))), None)
    return InputRequest(id=id, prompt=prompt or json_text(without_bytes(value)), input=without_bytes(value))


def _decision(pause: Pause, answer: InputResponse) -> dict[str, Any]:
    if answer.option_id == APPROVE:
        return {"type": APPROVE}
    if answer.option_id is None and REJECT not in pause.allowed and "respond" in pause.allowed:
        # Nothing but a person's words can come of such a call: they are its result.
        return {"type": "respond", "message": answer.text or ""}
    return {"type": REJECT, "message": answer.text} if answer.text else {"type": REJECT}
