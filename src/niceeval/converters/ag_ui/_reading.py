"""AG-UI's events, read as they arrive."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Literal

from niceeval.adapter import Coverage, EvidenceCoverage, InputOption, InputRequest
from niceeval.converters.ag_ui._parts import Call, Result, Text, content_of, decoded, usage_of
from niceeval.turn_building import Collected, TurnBuilder, list_of, object_of, text_of

MAX_STREAM_CHARS: Final = 64_000_000
"""The most of one stream that is read, in characters; what comes after is left out, and the channels are partial."""
OPTIONS: Final = (InputOption(id="approve", label="Approve"), InputOption(id="reject", label="Reject"))
"""How a request for approval can be answered."""

coverage: Final = EvidenceCoverage.complete_except(
    usage=Coverage.partial("a server need not say what was used"),
    data=Coverage.unavailable("the protocol has no place for an output schema"),
)

_NO_STATUS: Final = "a tool's result has no status in the protocol: one that failed may look like any other"
_SILENT: Final = frozenset(
    {
        "RUN_STARTED",
        "STEP_STARTED",
        "STEP_FINISHED",
        "STATE_SNAPSHOT",
        "STATE_DELTA",
        "REASONING_START",
        "REASONING_END",
        "THINKING_START",
        "THINKING_END",
    }
)
_OF_THE_APP: Final = frozenset({"RAW", "CUSTOM", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA"})
_TEXTS: Final[Mapping[str, Literal["message", "thinking"]]] = {
    "TEXT_MESSAGE": "message",
    "REASONING_MESSAGE": "thinking",
    "THINKING_TEXT_MESSAGE": "thinking",
}
_HIDDEN: Final[Mapping[object, Literal["failed", "rejected"]]] = {
    "failed": "failed",
    "retried": "failed",
    "interrupted": "failed",
    "denied": "rejected",
}


class Reading:
    """Reads events as they arrive: `add` each, then `finish`.

    `open_calls` are the ids of calls that an earlier turn made and that had no result yet, `refused` those of them
    that a human refused: a result does not say so. `known_messages` are the ids of messages from before this turn,
    which a snapshot of the messages repeats.
    """

    def __init__(
        self,
        *,
        open_calls: Collection[str] = (),
        refused: Collection[str] = (),
        known_messages: Collection[str] = (),
    ) -> None:
        self._builder = TurnBuilder(coverage)
        self._open_calls = frozenset(open_calls)
        self._refused = frozenset(refused)
        self._known = set(known_messages)
        self._happened: list[Text | Call | Result | Callable[[], object]] = []
        self._texts: dict[str, Text] = {}
        self._calls: dict[str, Call] = {}
        self._results: dict[str, Result] = {}
        self._last: dict[str, str] = {}
        self._hidden: dict[str, Literal["failed", "rejected"]] = {}
        self._extra: dict[str, int] = {}
        self._chars = 0
        self._end: Mapping[str, Any] | None = None
        self._interrupts: list[Mapping[str, Any]] = []

    @property
    def full(self) -> bool:
        """Whether so much has come that nothing more is read."""
        return self._chars > MAX_STREAM_CHARS

    @property
    def unanswered(self) -> frozenset[str]:
        """Ids of calls, of this stream or an earlier one, that have no result yet."""
        return (self._open_calls | frozenset(self._calls)) - frozenset(self._results)

    @property
    def interrupts(self) -> tuple[Mapping[str, Any], ...]:
        """What the run waits for, as the protocol has it."""
        return tuple(self._interrupts)

    def add(self, event: str | Mapping[str, Any]) -> None:
        """One event. What cannot be read lowers the coverage and is counted; nothing is raised."""
        if isinstance(event, str):
            self._chars += len(event)
            if self.full:
                return
        found = decoded(event)
        if found is None:
            self._builder.unknown("an event that is no object", ("status",))
            return
        kind = text_of(found, "type") or "an event without a type"
        family, _, what = kind.rpartition("_")
        if family in _TEXTS:
            self._piece(family, what, found)
        elif kind.startswith("TOOL_CALL_"):
            self._tool(what, found)
        elif kind.startswith("SUBAGENT_"):
            self._subagent(what, found)
        else:
            self._other(kind, found)
        if what != "CHUNK":
            # A chunk continues the one before it only where nothing came between them.
            self._end_chunks()

    def finish(self, cut: str | None = None) -> Collected:
        """The turn. `cut` says why the stream is not whole, where the connection knows it."""
        for event in self._happened:
            self._tell(event)
        self._say_what_is_missing(cut)
        self._status()
        return self._builder.build()

    # Events -----------------------------------------------------------------------------------------------------

    def _piece(self, family: str, what: str, event: Mapping[str, Any]) -> None:
        if what not in ("START", "CONTENT", "END", "CHUNK"):
            self._builder.unknown(f"{family}_{what}")
            return
        id = text_of(event, "messageId") or self._last.get(family) or ""
        key = f"{family} {id}"
        text = self._texts.get(key)
        if text is None or (what in ("START", "CHUNK") and not text.open):
            text = self._texts[key] = Text(self._kind(family, event))
            self._happened.append(text)
        self._known.add(id)
        if what == "CHUNK":
            self._chunk(family, id)
        text.parts.append(text_of(event, "delta") or "")
        text.open = what != "END"

    def _kind(self, family: str, event: Mapping[str, Any]) -> Literal["message", "thinking", ""]:
        # What a subagent says to its parent is not said to the user.
        own = text_of(event, "subagentRunId") is None and text_of(event, "role") in (None, "assistant", "reasoning")
        return _TEXTS[family] if own else ""

    def _tool(self, what: str, event: Mapping[str, Any]) -> None:
        call_id = text_of(event, "toolCallId") or (self._last.get("TOOL_CALL") if what == "CHUNK" else None)
        if call_id is None:
            self._builder.unknown(f"TOOL_CALL_{what} without a call's id")
        elif what == "START":
            self._begin(call_id, event)
        elif what in ("ARGS", "END", "CHUNK"):
            call = self._begin(call_id, event)
            call.parts.append(text_of(event, "delta") or "")
            call.open = what != "END"
            if what == "CHUNK":
                self._chunk("TOOL_CALL", call_id)
        elif what == "RESULT":
            self._result(Result(call_id, content_of(event.get("content")), text_of(event, "messageId")))
        else:
            self._builder.unknown(f"TOOL_CALL_{what}")

    def _begin(self, call_id: str, event: Mapping[str, Any]) -> Call:
        call = self._calls.get(call_id)
        if call is None:
            call = self._calls[call_id] = Call(call_id, text_of(event, "toolCallName") or "unknown")
            if call_id not in self._open_calls:
                self._happened.append(call)
        return call

    def _result(self, result: Result) -> None:
        if result.message_id is not None:
            self._known.add(result.message_id)
        self._results.setdefault(result.call_id, result)
        self._happened.append(result)

    def _subagent(self, what: str, event: Mapping[str, Any]) -> None:
        id = text_of(event, "subagentRunId")
        if id is None or what not in ("STARTED", "FINISHED", "ERROR"):
            self._builder.unknown(f"SUBAGENT_{what}", ("actions",))
        elif what == "STARTED":
            name = text_of(event, "name") or "unknown"
            self._happened.append(lambda: self._builder.subagent(id, name))
        elif what == "ERROR":
            self._happened.append(lambda: self._builder.subagent_done(id, text_of(event, "message"), "failed"))
        elif text_of(event, "outcome", "type") != "suspended":
            self._happened.append(lambda: self._builder.subagent_done(id, event.get("result")))

    def _other(self, kind: str, event: Mapping[str, Any]) -> None:
        if kind in ("RUN_FINISHED", "RUN_ERROR"):
            self._end = event
        elif kind == "MESSAGES_SNAPSHOT":
            self._snapshot(list_of(event, "messages"))
        elif kind == "REASONING_ENCRYPTED_VALUE":
            self._encrypted(event)
        elif kind in _OF_THE_APP:
            name = text_of(event, "name") or text_of(event, "activityType") or ""
            shown = f"{kind} {name[:80]}".strip()
            self._extra[shown] = self._extra.get(shown, 0) + 1
        elif kind not in _SILENT:
            self._builder.unknown(kind)

    def _encrypted(self, event: Mapping[str, Any]) -> None:
        # For others an opaque value: Pydantic AI says here what became of the call.
        said = decoded(text_of(event, "encryptedValue") or "")
        status = _HIDDEN.get(text_of(said, "pydantic_ai", "outcome"))
        if status is not None:
            self._hidden[text_of(event, "entityId") or ""] = status

    def _snapshot(self, messages: list[Any]) -> None:
        """What a snapshot has of this turn: after the last user message, and not said before."""
        users = [place for place, message in enumerate(messages) if text_of(message, "role") == "user"]
        for message in messages[users[-1] + 1 if users else 0 :]:
            role, id = text_of(message, "role"), text_of(message, "id") or ""
            if role == "tool":
                self._snapshot_result(message, id)
            elif role == "assistant":
                for call in list_of(message, "toolCalls"):
                    self._snapshot_call(call)
                self._snapshot_text("message", id, message)
            elif role == "reasoning":
                self._snapshot_text("thinking", id, message)

    def _snapshot_text(self, kind: Literal["message", "thinking"], id: str, message: Mapping[str, Any]) -> None:
        if id in self._known or text_of(message, "subagentRunId") is not None:
            return
        self._known.add(id)
        text = Text(kind)
        text.parts.append(text_of(message, "content") or "")
        text.open = False
        self._happened.append(text)

    def _snapshot_call(self, call: Any) -> None:
        call_id = text_of(call, "id")
        if call_id is None or call_id in self._calls or call_id in self._open_calls:
            return
        made = self._begin(call_id, {"toolCallName": text_of(call, "function", "name")})
        made.parts.append(text_of(call, "function", "arguments") or "")
        made.open = False

    def _snapshot_result(self, message: Mapping[str, Any], id: str) -> None:
        call_id = text_of(message, "toolCallId") or ""
        error = text_of(message, "error")
        known = self._results.get(call_id)
        if known is None and id not in self._known and call_id:
            known = Result(call_id, content_of(message.get("content")), id)
            self._result(known)
        if known is not None:
            known.sure = True
            if error is not None:
                known.status, known.output = "failed", known.output or error

    def _chunk(self, family: str, id: str) -> None:
        if self._last.get(family) != id:
            self._end_chunks()
            self._last[family] = id

    def _end_chunks(self) -> None:
        for family, id in self._last.items():
            begun = self._calls.get(id) if family == "TOOL_CALL" else self._texts.get(f"{family} {id}")
            if begun is not None:
                begun.open = False
        self._last.clear()

    # The end ----------------------------------------------------------------------------------------------------

    def _tell(self, event: Text | Call | Result | Callable[[], object]) -> None:
        builder = self._builder
        if isinstance(event, Text):
            if event.kind == "message":
                builder.message("".join(event.parts))
            elif event.kind == "thinking":
                builder.thinking("".join(event.parts))
        elif isinstance(event, Call):
            if not event.open:
                builder.called(event.id, event.name, event.input)
        elif isinstance(event, Result):
            self._tell_result(event)
        else:
            event()

    def _tell_result(self, result: Result) -> None:
        status = self._hidden.get(result.message_id or "", result.status)
        if result.call_id in self._refused:
            status = "rejected"
        elif status == "completed" and not result.sure:
            self._builder.partial("actions", _NO_STATUS)
            if self._end is None:
                # What did not come may have said that it failed.
                return
        self._builder.result(result.call_id, result.output, status)

    def _say_what_is_missing(self, cut: str | None) -> None:
        builder = self._builder
        if self.full:
            builder.incomplete(f"the stream is longer than {MAX_STREAM_CHARS:,} characters, and was not read on")
        elif cut is not None:
            builder.incomplete(cut)
        elif self._end is None:
            builder.incomplete("the stream was cut: the run has no end")
        if any(text.open for text in self._texts.values()):
            builder.incomplete("a text has no end", ("events", "messages"))
        for call in self._calls.values():
            if call.open and call.id not in self._open_calls:
                builder.incomplete(f"a call of {call.name[:80]} was begun and never made", ("events", "actions"))
        if self._extra:
            counts = ", ".join(f"{kind} ({count:,})" for kind, count in list(self._extra.items())[:20])
            builder.diagnostic("events-not-read", f"events whose meaning the app defines: {counts}", level="info")

    def _status(self) -> None:
        builder, end = self._builder, self._end
        if end is None:
            builder.failed("the run ended without an end", said=False)
            return
        for number, used in enumerate(list_of(end, "usage")):
            if usage := usage_of(used):
                builder.add_usage(usage, str(number))
        outcome = text_of(end, "outcome", "type")
        if text_of(end, "type") == "RUN_ERROR":
            builder.failed(text_of(end, "message") or "an error without a text")
        elif outcome == "interrupt":
            self._interrupted(list_of(end, "outcome", "interrupts"))
        elif outcome == "cancelled":
            builder.failed("the run was cancelled", said=False)
        elif outcome is not None and outcome != "success":
            builder.partial("status", f"the run's outcome is of a kind that is not known: {outcome[:80]}")
        elif outcome is None and self._open_in_this_run():
            builder.partial("status", "the run says no outcome, while a call has no result: it may have paused")

    def _open_in_this_run(self) -> bool:
        return bool(frozenset(self._calls) - frozenset(self._results))

    def _interrupted(self, interrupts: list[Any]) -> None:
        for interrupt in interrupts:
            id = text_of(interrupt, "id")
            if id is None:
                self._builder.unknown("an interrupt without an id", ("status",))
                continue
            call = self._calls.get(text_of(interrupt, "toolCallId") or "")
            self._interrupts.append(interrupt)
            self._builder.requested(
                InputRequest(
                    id=id,
                    action=None if call is None else call.name,
                    input=None if call is None else call.input,
                    prompt=text_of(interrupt, "message") or text_of(interrupt, "reason"),
                    options=OPTIONS if asks_for_approval(interrupt) else None,
                )
            )
        if not self._interrupts:
            self._builder.failed("the run waits for nothing that can be answered", said=False)


def asks_for_approval(interrupt: Mapping[str, Any]) -> bool:
    """Whether an interrupt is answered by yes or no; else it takes a text."""
    schema = object_of(interrupt, "responseSchema")
    if not schema:
        return text_of(interrupt, "toolCallId") is not None
    return text_of(schema, "properties", "approved", "type") == "boolean"
