"""A2A's answers into a turn: messages, tasks and their updates, of versions 1.0 and 0.3.

    turn = a2a.to_turn([response async for response in client.send_message(request)])

A response is one of the SDK's objects, or the JSON object that it is on the wire. The protocol shows what an agent says
and gives, not what it does. https://a2a-protocol.org/latest/specification/
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Collection, Iterable, Mapping
from typing import Any, Final

from niceeval.adapter import Coverage, EvidenceCoverage, InputRequest, Turn
from niceeval.turn_building import Collected, TurnBuilder, list_of, object_of, text_of

__all__ = [
    "Reading",
    "collected",
    "collected_stream",
    "coverage",
    "situations",
    "to_turn",
    "to_turn_stream",
]

_SHOWN: Final = "the protocol shows an agent's states, texts and artifacts, and nothing of what it does"

coverage: Final = EvidenceCoverage.complete_except(
    events=Coverage.partial(_SHOWN),
    actions=Coverage.unavailable(_SHOWN),
    usage=Coverage.unavailable("the protocol counts no tokens"),
    data=Coverage.partial("the protocol can ask for JSON, but not for a schema"),
)

situations: Final[Mapping[str, str]] = {
    "success": "tested",
    "tool failure": "the protocol shows no tool calls",
    "refusal by a human": "the protocol has no approvals: an agent asks in words, and is answered in words",
    "parallel tools": "the protocol shows no tool calls",
    "nested agent": "the protocol does not show whom an agent asks",
    "empty answer": "tested",
    "multi-part content": "tested",
    "structured output": "tested",
    "cached and reasoning tokens": "the protocol counts no tokens",
    "error mid-stream": "tested",
}

_FAILED: Final = frozenset({"failed", "rejected", "canceled"})
_ASKING: Final = frozenset({"input-required", "auth-required"})
_UNDERWAY: Final = frozenset({"submitted", "working"})


class _Said:
    """What the agent said or gave, where it began: texts and data, of one message or one artifact."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.data: list[Any] = []
        self.others = 0

    def add(self, parts: Iterable[Any]) -> None:
        """Parts of any version: of 1.0 by the field that is there, of 0.3 by their kind."""
        for part in parts:
            if isinstance(text := text_of(part, "text"), str):
                self.texts.append(text)
            elif isinstance(part, dict) and "data" in part:
                self.data.append(_whole_numbers(part["data"]))
            else:
                self.others += 1


class Reading:
    """Reads responses as they arrive: `add` each, then `finish`.

    `known` are ids of messages and artifacts that earlier turns had, which a task repeats. `wants_data`: the last data
    part is the turn's data; otherwise a data part is a message of its JSON.
    """

    def __init__(self, *, known: Collection[str] = (), wants_data: bool = False) -> None:
        self._builder = TurnBuilder(coverage)
        self._known = frozenset(known)
        self._wants_data = wants_data
        self._said: dict[str, _Said] = {}
        self._state = ""
        self._last: _Said | None = None
        self._error: str | None = None
        self.task_id: str | None = None
        self.context_id: str | None = None

    @property
    def ids(self) -> frozenset[str]:
        """Ids of the messages and artifacts that have come, for the turn after this."""
        return self._known | frozenset(self._said)

    @property
    def asks(self) -> bool:
        """Whether the task waits for the human."""
        return self._state in _ASKING

    def add(self, response: object) -> None:
        """One response. What cannot be read lowers the coverage and is counted; nothing is raised."""
        kind, body = _opened(response)
        if kind == "message":
            self._state = "completed"
            self._about(body, "")
            self._message(body)
        elif kind == "task":
            self._about(body, "id")
            for message in list_of(body, "history"):
                self._message(message)
            for artifact in list_of(body, "artifacts"):
                self._artifact(artifact, append=False)
            self._status(object_of(body, "status"))
        elif kind == "statusUpdate":
            self._about(body, "taskId")
            self._status(object_of(body, "status"))
        elif kind == "artifactUpdate":
            self._about(body, "taskId")
            self._artifact(object_of(body, "artifact"), append=body.get("append") is True)
        else:
            self._builder.unknown(kind, ("status",))

    def failed(self, error: str) -> None:
        """The agent answered with an error of its own."""
        self._error = error

    def finish(self, cut: str | None = None) -> Collected:
        """The turn. `cut` says why it is not whole, where the connection knows it."""
        if cut is not None:
            self._builder.incomplete(cut)
        asked = self._state in _ASKING
        for said in self._said.values():
            if said is self._last and self._repeats(said):
                continue
            self._tell(said)
        if self._error is not None:
            self._builder.failed(self._error)
        elif asked:
            self._ask()
        else:
            self._end(cut)
        return self._builder.build()

    def _about(self, body: Mapping[str, Any], task: str) -> None:
        self.context_id = text_of(body, "contextId") or self.context_id
        self.task_id = (text_of(body, task) if task else None) or self.task_id

    def _status(self, status: Mapping[str, Any]) -> None:
        self._state = _state(text_of(status, "state"))
        message = object_of(status, "message")
        self._last = self._message(message) if message else None

    def _message(self, message: Any) -> _Said | None:
        if _role(text_of(message, "role")) != "agent":
            return None
        id = text_of(message, "messageId") or f"message {len(self._said)}"
        if id in self._known:
            return None
        if id not in self._said:
            said = self._said[id] = _Said()
            said.add(list_of(message, "parts"))
        return self._said[id]

    def _artifact(self, artifact: Mapping[str, Any], *, append: bool) -> None:
        id = text_of(artifact, "artifactId") or f"artifact {len(self._said)}"
        if id in self._known:
            return
        if id not in self._said or not append:
            self._said[id] = _Said()
        self._said[id].add(list_of(artifact, "parts"))

    def _repeats(self, last: _Said) -> bool:
        """Whether the message at the end says again what was given, which many agents do."""
        text = "".join(last.texts).strip()
        earlier = ["".join(said.texts).strip() for said in self._said.values() if said is not last]
        return bool(text) and not last.data and text in earlier and self._state not in _ASKING

    def _tell(self, said: _Said) -> None:
        builder = self._builder
        builder.message("".join(said.texts))
        for value in said.data:
            if self._wants_data:
                builder.data(value)
            else:
                builder.message(json.dumps(value, ensure_ascii=False, sort_keys=True))
        if said.others:
            builder.partial("messages", "the answer has a part that is neither text nor data")
            builder.diagnostic("parts-not-read", "files, or parts of a kind that is not known", level="info")

    def _ask(self) -> None:
        prompt = "".join(self._last.texts) if self._last is not None else ""
        if self._state == "auth-required":
            prompt = prompt or "authentication is required"
        self._builder.requested(InputRequest(id=self.task_id or "task", prompt=prompt or "input is required"))

    def _end(self, cut: str | None) -> None:
        builder = self._builder
        if self._state in _FAILED:
            why = "".join(self._last.texts) if self._last is not None else ""
            builder.failed(f"the task is {self._state}{': ' if why else ''}{why}", said=bool(why))
        elif not self._state or self._state in _UNDERWAY:
            if cut is None:
                builder.incomplete(f"the answer ended while the task was {self._state or 'not begun'}")
            builder.failed("the answer ended without an end", said=False)
        elif self._state != "completed":
            builder.incomplete(f"the task is in a state that is not known: {self._state[:80]}")


def collected(responses: Iterable[object], *, known: Collection[str] = (), wants_data: bool = False) -> Collected:
    """The turn of a whole answer, with what has to be said about it; the arguments are those of `Reading`."""
    reading = Reading(known=known, wants_data=wants_data)
    for response in responses:
        reading.add(response)
    return reading.finish()


async def collected_stream(
    responses: AsyncIterable[object], *, known: Collection[str] = (), wants_data: bool = False
) -> Collected:
    """The turn of an answer that is still coming. One that raises keeps what has come, and is partial."""
    reading = Reading(known=known, wants_data=wants_data)
    try:
        async for response in responses:
            reading.add(response)
    except Exception as error:  # noqa: BLE001 - whatever breaks it, what has come is evidence
        return reading.finish(f"the stream broke: {type(error).__name__}: {str(error)[:500]}")
    return reading.finish()


def to_turn(responses: Iterable[object], *, known: Collection[str] = (), wants_data: bool = False) -> Turn:
    """The turn of a whole answer; the arguments are those of `Reading`."""
    return collected(responses, known=known, wants_data=wants_data).turn


async def to_turn_stream(
    responses: AsyncIterable[object], *, known: Collection[str] = (), wants_data: bool = False
) -> Turn:
    """The turn of an answer that is still coming; the arguments are those of `Reading`."""
    return (await collected_stream(responses, known=known, wants_data=wants_data)).turn


_KINDS: Final[Mapping[str, str]] = {"status-update": "statusUpdate", "artifact-update": "artifactUpdate"}


def _opened(response: object) -> tuple[str, Mapping[str, Any]]:
    """What a response is, and its body: of 1.0 by the field that it has, of 0.3 by its kind."""
    if hasattr(response, "DESCRIPTOR"):
        from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped,unused-ignore]

        response = MessageToDict(response)
    if not isinstance(response, dict):
        return "a response that is no object", {}
    kind = text_of(response, "kind")
    if kind is not None:
        return _KINDS.get(kind, kind), response
    for field in ("message", "task", "statusUpdate", "artifactUpdate"):
        if isinstance(response.get(field), dict):
            return field, response[field]
    return "a response of no known kind", {}


def _state(state: str | None) -> str:
    return (state or "").removeprefix("TASK_STATE_").lower().replace("_", "-")


def _role(role: str | None) -> str:
    return (role or "").removeprefix("ROLE_").lower()


def _whole_numbers(value: Any) -> Any:
    """On the way through the SDK every number becomes a float: one that is whole was written as such."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {key: _whole_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(inner) for inner in value]
    return value
