"""The standard event stream: nine event types, ordered as they happened (design of the adapter contract).

Each is a frozen msgspec struct with keyword fields; its JSON form is the camelCase of its fields plus `type`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from niceeval._base.errors import AuthorError
from niceeval._model.json_types import JsonValue
from niceeval._model.turn_input import InputResponse

ActionStatus = Literal["completed", "failed", "rejected"]
SubagentStatus = Literal["completed", "failed"]


class Loc(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where in the author's source something was called; line and column from 1, file relative to the project."""

    file: str
    line: int
    column: int | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.column is None else f"{self.file}:{self.line}:{self.column}"


class InputOption(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer that an agent offers; `id` is what goes back, `label` what a person would read."""

    id: str
    label: str | None = None


class InputRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A question the agent stopped for (human in the loop).

    `action` and `input` name the tool call it wants approved; `options` are the choices; without options any text
    is an answer.
    """

    id: str
    action: str | None = None
    input: JsonValue = None
    prompt: str | None = None
    display: str | None = None
    options: tuple[InputOption, ...] | None = None

    def choose(self, option_id: str) -> InputResponse:
        """Answer with one of the options. Raises AuthorError (`unknown-option`) for an id that was not offered."""
        known = [option.id for option in self.options or ()]
        if option_id not in known:
            raise AuthorError(
                "unknown-option",
                request=self.id,
                option=option_id,
                options=", ".join(known) or "no options: reply with text",
                fix=f'request.choose("{known[0]}")' if known else 'request.reply("...")',
            )
        return InputResponse(request_id=self.id, option_id=option_id)

    def reply(self, text: str) -> InputResponse:
        """Answer with free text."""
        return InputResponse(request_id=self.id, text=text)


class _Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag_field="type"):
    pass


class Message(_Event, frozen=True, kw_only=True, tag="message"):
    """Something said in the conversation. A tool's result is not a message."""

    role: Literal["assistant", "user"]
    text: str
    loc: Loc | None = None


class ActionCalled(_Event, frozen=True, kw_only=True, tag="action.called"):
    """The agent called a tool: `name` is its own, `tool` the canonical one where it is known."""

    call_id: str
    name: str
    input: JsonValue
    tool: str | None = None


class ActionResult(_Event, frozen=True, kw_only=True, tag="action.result"):
    """What a tool call came to. A human's refusal is `rejected`, not `failed`."""

    call_id: str
    status: ActionStatus
    output: JsonValue = None


class SubagentCalled(_Event, frozen=True, kw_only=True, tag="subagent.called"):
    """The agent handed work to another agent."""

    call_id: str
    name: str
    remote_url: str | None = None


class SubagentCompleted(_Event, frozen=True, kw_only=True, tag="subagent.completed"):
    """What a subagent came back with."""

    call_id: str
    status: SubagentStatus
    output: JsonValue = None


class InputRequested(_Event, frozen=True, kw_only=True, tag="input.requested"):
    """The agent stopped and asks a human."""

    request: InputRequest


class Thinking(_Event, frozen=True, kw_only=True, tag="thinking"):
    """A piece of visible reasoning."""

    text: str


class Compaction(_Event, frozen=True, kw_only=True, tag="compaction"):
    """The agent shortened its own context."""

    reason: str | None = None


class ErrorEvent(_Event, frozen=True, kw_only=True, tag="error"):
    """An error the agent met and lived through; one that ends the turn is `status="failed"` or an exception."""

    message: str


class UnknownEvent:
    """An event of a type that this version does not know, kept as it came."""

    __slots__ = ("data", "type")

    def __init__(self, type: str, data: Mapping[str, JsonValue]) -> None:
        self.type = type
        self.data = data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnknownEvent) and other.type == self.type and other.data == self.data

    def __hash__(self) -> int:
        return hash(self.type)

    def __repr__(self) -> str:
        return f"UnknownEvent(type={self.type!r}, data={self.data!r})"


KnownEvent: TypeAlias = (
    Message
    | ActionCalled
    | ActionResult
    | SubagentCalled
    | SubagentCompleted
    | InputRequested
    | Thinking
    | Compaction
    | ErrorEvent
)
StreamEvent: TypeAlias = KnownEvent | UnknownEvent

EVENT_CLASSES: Mapping[str, type[KnownEvent]] = {
    "message": Message,
    "action.called": ActionCalled,
    "action.result": ActionResult,
    "subagent.called": SubagentCalled,
    "subagent.completed": SubagentCompleted,
    "input.requested": InputRequested,
    "thinking": Thinking,
    "compaction": Compaction,
    "error": ErrorEvent,
}
"""The registry of event types: a new one is a struct above and a row here."""

_TYPE_OF: Mapping[type, str] = {cls: name for name, cls in EVENT_CLASSES.items()}

CANONICAL_TOOLS = frozenset(
    {
        "file_read",
        "file_write",
        "file_edit",
        "shell",
        "web_fetch",
        "web_search",
        "glob",
        "grep",
        "list_dir",
        "agent_task",
        "unknown",
    }
)
"""Tool names that mean the same for every agent; assertions accept these and the agent's own."""


def event_type(event: StreamEvent) -> str:
    """The JSON `type` of an event."""
    return event.type if isinstance(event, UnknownEvent) else _TYPE_OF[type(event)]


def encode_events(events: list[StreamEvent]) -> bytes:
    """The `events.json` form: one JSON array."""
    return msgspec.json.encode([event.data if isinstance(event, UnknownEvent) else event for event in events])
