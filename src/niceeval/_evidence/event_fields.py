"""One cleaner for each event type: the same fields, each of them checked. A new event type gets one here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from niceeval._base.errors import AdapterError
from niceeval._base.plain_text import shorten
from niceeval._model.events import (
    ActionCalled,
    ActionResult,
    Compaction,
    ErrorEvent,
    InputOption,
    InputRequest,
    InputRequested,
    Message,
    SubagentCalled,
    SubagentCompleted,
    Thinking,
)


class Fields(Protocol):
    """What checks one field: it gives the field as it may be kept, or raises AdapterError (`turn-malformed`)."""

    def text(self, value: object, where: str) -> str: ...

    def optional_text(self, value: object, where: str) -> str | None: ...

    def value(self, value: object, where: str) -> Any: ...

    def one_of(self, value: object, allowed: tuple[str, ...], where: str) -> Any: ...

    def refuse(self, problem: str, fix: str) -> AdapterError: ...


def kind_of(value: object) -> str:
    """A short name for a value that should not be there."""
    if value is None:
        return "None"
    if isinstance(value, str):
        return repr(shorten(value, 40))
    name = type(value).__name__
    return f"a {name}" if name[:1].lower() not in "aeiou" else f"an {name}"


def _message(fields: Fields, event: Message, where: str) -> Message:
    fields.one_of(event.role, ("assistant", "user"), f"{where}.role")
    text = fields.text(event.text, f"{where}.text")
    return event if text is event.text and event.loc is None else Message(role=event.role, text=text)


def _action_called(fields: Fields, event: ActionCalled, where: str) -> ActionCalled:
    return ActionCalled(
        call_id=fields.text(event.call_id, f"{where}.call_id"),
        name=fields.text(event.name, f"{where}.name"),
        input=fields.value(event.input, f"{where}.input"),
        tool=fields.optional_text(event.tool, f"{where}.tool"),
    )


def _action_result(fields: Fields, event: ActionResult, where: str) -> ActionResult:
    return ActionResult(
        call_id=fields.text(event.call_id, f"{where}.call_id"),
        status=fields.one_of(event.status, ("completed", "failed", "rejected"), f"{where}.status"),
        output=fields.value(event.output, f"{where}.output"),
    )


def _subagent_called(fields: Fields, event: SubagentCalled, where: str) -> SubagentCalled:
    return SubagentCalled(
        call_id=fields.text(event.call_id, f"{where}.call_id"),
        name=fields.text(event.name, f"{where}.name"),
        remote_url=fields.optional_text(event.remote_url, f"{where}.remote_url"),
    )


def _subagent_completed(fields: Fields, event: SubagentCompleted, where: str) -> SubagentCompleted:
    return SubagentCompleted(
        call_id=fields.text(event.call_id, f"{where}.call_id"),
        status=fields.one_of(event.status, ("completed", "failed"), f"{where}.status"),
        output=fields.value(event.output, f"{where}.output"),
    )


def _input_requested(fields: Fields, event: InputRequested, where: str) -> InputRequested:
    request = event.request
    if not isinstance(request, InputRequest):
        raise fields.refuse(f"{where}.request is {kind_of(request)}", "it has to be an InputRequest")
    where = f"{where}.request"
    return InputRequested(
        request=InputRequest(
            id=fields.text(request.id, f"{where}.id"),
            action=fields.optional_text(request.action, f"{where}.action"),
            input=fields.value(request.input, f"{where}.input"),
            prompt=fields.optional_text(request.prompt, f"{where}.prompt"),
            display=fields.optional_text(request.display, f"{where}.display"),
            options=_options(fields, request.options, f"{where}.options"),
        )
    )


def _options(fields: Fields, options: object, where: str) -> tuple[InputOption, ...] | None:
    if options is None:
        return None
    if not isinstance(options, (list, tuple)) or not all(isinstance(option, InputOption) for option in options):
        raise fields.refuse(f"{where} is {kind_of(options)}", "it has to be a tuple of InputOption")
    return tuple(
        InputOption(
            id=fields.text(option.id, f"{where}[{number}].id"),
            label=fields.optional_text(option.label, f"{where}[{number}].label"),
        )
        for number, option in enumerate(options)
    )


def _thinking(fields: Fields, event: Thinking, where: str) -> Thinking:
    return Thinking(text=fields.text(event.text, f"{where}.text"))


def _compaction(fields: Fields, event: Compaction, where: str) -> Compaction:
    return Compaction(reason=fields.optional_text(event.reason, f"{where}.reason"))


def _error_event(fields: Fields, event: ErrorEvent, where: str) -> ErrorEvent:
    return ErrorEvent(message=fields.text(event.message, f"{where}.message"))


CLEANERS: Mapping[type, Any] = {
    Message: _message,
    ActionCalled: _action_called,
    ActionResult: _action_result,
    SubagentCalled: _subagent_called,
    SubagentCompleted: _subagent_completed,
    InputRequested: _input_requested,
    Thinking: _thinking,
    Compaction: _compaction,
    ErrorEvent: _error_event,
}
