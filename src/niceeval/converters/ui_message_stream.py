"""The AI SDK's UI message stream into a turn: the frames that `useChat` reads, of versions 5, 6 and 7.

    turn = ui_message_stream.to_turn(['{"type":"start"}', ..., "[DONE]"])

A frame is the data of one server-sent event, as text or as the object that it holds; `"[DONE]"` is the last one, and
without it the stream was cut. https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Callable, Collection, Iterable, Mapping
from typing import Any, Final, Literal

from niceeval.adapter import ActionCalled, Coverage, EvidenceCoverage, InputOption, InputRequest, Turn, Usage
from niceeval.turn_building import Collected, TurnBuilder, count_of, object_of, text_of

__all__ = [
    "DONE",
    "OPTIONS",
    "Reading",
    "collected",
    "collected_stream",
    "coverage",
    "situations",
    "to_turn",
    "to_turn_stream",
]

DONE: Final = "[DONE]"
"""The frame that ends a stream."""
MAX_STREAM_CHARS: Final = 64_000_000
"""The most of one stream that is read, in characters; what comes after is left out, and the channels are partial."""
OPTIONS: Final = (InputOption(id="approve", label="Approve"), InputOption(id="reject", label="Reject"))
"""How a request for approval can be answered."""

coverage: Final = EvidenceCoverage.complete_except(
    usage=Coverage.partial("the protocol counts no tokens; an app may put them into the message's metadata"),
    data=Coverage.unavailable("the protocol has no structured answer"),
)

situations: Final[Mapping[str, str]] = {
    "success": "tested",
    "tool failure": "tested",
    "refusal by a human": "tested",
    "parallel tools": "tested",
    "nested agent": "a nested agent is a tool call like any other: what it does inside is not sent",
    "empty answer": "tested",
    "multi-part content": "tested",
    "structured output": "the protocol has no structured answer",
    "cached and reasoning tokens": "tested",
    "error mid-stream": "tested",
}

_SILENT: Final = frozenset({"start-step", "finish-step", "source-url", "source-document"})
_CUT_SHORT: Final = {"length": "it reached its limit of tokens", "content-filter": "it was filtered"}


class _Text:
    """A text that is still coming: it stands where it began."""

    def __init__(self, kind: Literal["message", "thinking"]) -> None:
        self.kind = kind
        self.parts: list[str] = []
        self.open = True


class Reading:
    """Reads a stream as it arrives: `add` each frame, then `finish`.

    `open_calls` are the ids of calls that an earlier turn made and that had no result yet: a stream that goes on after
    an approval may announce them again.
    """

    def __init__(self, open_calls: Collection[str] = ()) -> None:
        self._builder = TurnBuilder(coverage)
        self._open_calls = frozenset(open_calls)
        self._happened: list[_Text | Callable[[], object]] = []
        self._texts: dict[tuple[int, str, str], _Text] = {}
        self._step = 0
        self._begun: dict[str, str] = {}
        self._calls: dict[str, ActionCalled] = {}
        self._results: set[str] = set()
        self._asked = False
        self._extra: dict[str, int] = {}
        self._chars = 0
        self._frames = 0
        self._ended = False
        self._error: str | None = None
        self._reason: str | None = None
        self._usage: Usage | None = None

    @property
    def full(self) -> bool:
        """Whether so much has come that nothing more is read."""
        return self._chars > MAX_STREAM_CHARS

    @property
    def unanswered(self) -> frozenset[str]:
        """Ids of calls, of this stream or an earlier one, that have no result yet."""
        return (self._open_calls | frozenset(self._calls)) - self._results

    def add(self, frame: str | Mapping[str, Any]) -> None:
        """One frame. What cannot be read lowers the coverage and is counted; nothing is raised."""
        if isinstance(frame, str):
            self._chars += len(frame)
            if self.full:
                return
            if frame.strip() == DONE:
                self._ended = True
                return
        found = _object(frame)
        if found is None:
            self._builder.unknown("a frame that is no object", ("status",))
            return
        self._frames += 1
        kind = text_of(found, "type") or "a frame without a type"
        if kind.startswith("data-"):
            self._extra[kind] = self._extra.get(kind, 0) + 1
        elif kind.startswith(("text-", "reasoning-")):
            self._piece(kind, found)
        elif kind.startswith("tool-"):
            self._tool(kind, found)
        else:
            self._other(kind, found)

    def finish(self, cut: str | None = None) -> Collected:
        """The turn. `cut` says why the stream is not whole, where the connection knows it."""
        builder = self._builder
        for event in self._happened:
            if not isinstance(event, _Text):
                event()
            elif event.kind == "message":
                builder.message("".join(event.parts))
            else:
                builder.thinking("".join(event.parts))
        if self._usage is not None:
            builder.add_usage(self._usage)
        self._say_what_is_missing(cut)
        self._status()
        return builder.build()

    # Frames -----------------------------------------------------------------------------------------------------

    def _piece(self, kind: str, frame: Mapping[str, Any]) -> None:
        family, _, what = kind.partition("-")
        if what not in ("start", "delta", "end"):
            self._builder.unknown(kind)
            return
        # Providers use the same ids again in each step.
        key = (self._step, family, text_of(frame, "id") or "")
        text = self._texts.get(key)
        if what == "start" or text is None or not text.open:
            text = self._texts[key] = _Text("message" if family == "text" else "thinking")
            self._happened.append(text)
        if what == "delta":
            text.parts.append(text_of(frame, "delta") or "")
        text.open = what != "end"

    def _tool(self, kind: str, frame: Mapping[str, Any]) -> None:
        call_id = text_of(frame, "toolCallId")
        if call_id is None:
            self._builder.unknown(f"{kind} without a call's id")
        elif kind in ("tool-input-start", "tool-input-delta"):
            self._begun.setdefault(call_id, text_of(frame, "toolName") or "unknown")
        elif kind == "tool-input-available":
            self._called(call_id, frame)
        elif kind == "tool-input-error":
            self._called(call_id, frame)
            self._result(call_id, text_of(frame, "errorText"), "failed")
        elif kind == "tool-output-available":
            # A preliminary output is replaced by the ones after it.
            if frame.get("preliminary") is not True:
                self._result(call_id, frame.get("output"), "completed")
        elif kind == "tool-output-error":
            self._result(call_id, text_of(frame, "errorText"), "failed")
        elif kind == "tool-output-denied":
            self._result(call_id, None, "rejected")
        elif kind == "tool-approval-request":
            self._request(call_id, frame)
        else:
            self._builder.unknown(kind)

    def _called(self, call_id: str, frame: Mapping[str, Any]) -> None:
        name = text_of(frame, "toolName") or self._begun.get(call_id, "unknown")
        self._begun.pop(call_id, None)
        if call_id in self._open_calls:
            return
        call = ActionCalled(call_id=call_id, name=name, input=frame.get("input"))
        self._calls.setdefault(call_id, call)
        self._happened.append(lambda: self._builder.called(call.call_id, call.name, call.input))

    def _result(self, call_id: str, output: Any, status: Literal["completed", "failed", "rejected"]) -> None:
        self._results.add(call_id)
        self._happened.append(lambda: self._builder.result(call_id, output, status))

    def _request(self, call_id: str, frame: Mapping[str, Any]) -> None:
        call = self._calls.get(call_id)
        request = InputRequest(
            id=text_of(frame, "approvalId") or call_id,
            action=None if call is None else call.name,
            input=None if call is None else call.input,
            options=OPTIONS,
        )
        self._asked = True
        self._happened.append(lambda: self._builder.requested(request))

    def _other(self, kind: str, frame: Mapping[str, Any]) -> None:
        if kind == "start-step":
            self._step += 1
        elif kind == "error":
            self._failed(text_of(frame, "errorText") or "an error without a text")
        elif kind == "abort":
            self._failed(f"the turn was aborted: {text_of(frame, 'reason') or 'no reason was given'}")
        elif kind == "file":
            self._builder.partial("messages", "the answer has a file, which is no text")
            self._extra["file"] = self._extra.get("file", 0) + 1
        elif kind in ("start", "finish", "message-metadata"):
            self._reason = text_of(frame, "finishReason") or self._reason
            self._usage = _usage(frame.get("messageMetadata")) or self._usage
        elif kind not in _SILENT:
            self._builder.unknown(kind)

    def _failed(self, message: str) -> None:
        self._error = self._error or message
        self._happened.append(lambda: self._builder.error(message))

    # The end ----------------------------------------------------------------------------------------------------

    def _say_what_is_missing(self, cut: str | None) -> None:
        builder = self._builder
        if self.full:
            builder.incomplete(f"the stream is longer than {MAX_STREAM_CHARS:,} characters, and was not read on")
        elif cut is not None:
            builder.incomplete(cut)
        elif not self._ended:
            builder.incomplete(f"the stream was cut: it has no {DONE}")
        if any(text.open for text in self._texts.values()):
            builder.incomplete("a text has no end", ("events", "messages"))
        for name in self._begun.values():
            builder.incomplete(f"a call of {name[:80]} was begun and never made", ("events", "actions"))
        if self._extra:
            counts = ", ".join(f"{kind[:80]} ({count:,})" for kind, count in list(self._extra.items())[:20])
            builder.diagnostic("parts-not-read", f"parts that the app defines, or no text: {counts}", level="info")

    def _status(self) -> None:
        builder = self._builder
        if self._error is not None:
            builder.failed(self._error, said=False)
        elif self._reason == "error":
            builder.failed("the turn ended in an error that it does not name", said=False)
        elif self._reason in _CUT_SHORT:
            builder.failed(f"the answer ended early: {_CUT_SHORT[self._reason]}", said=False)
        elif not self._ended:
            builder.failed("the stream ended without an end", said=False)
        elif self._asked:
            builder.waiting()
        elif waiting := frozenset(self._calls) - self._results:
            names = ", ".join(sorted({self._calls[id].name[:80] for id in waiting})[:10])
            builder.diagnostic(
                "client-tool", f"no result came of {names}: it was lost, or the tool is one that the client runs"
            )


def collected(frames: Iterable[str | Mapping[str, Any]], *, open_calls: Collection[str] = ()) -> Collected:
    """The turn of a whole stream, with what has to be said about it; `open_calls` as for `Reading`."""
    reading = Reading(open_calls)
    for frame in frames:
        reading.add(frame)
    return reading.finish()


async def collected_stream(
    frames: AsyncIterable[str | Mapping[str, Any]], *, open_calls: Collection[str] = ()
) -> Collected:
    """The turn of a stream that is still coming. One that raises keeps what has come, and is partial."""
    reading = Reading(open_calls)
    try:
        async for frame in frames:
            reading.add(frame)
            if reading.full:
                break
    except Exception as error:  # noqa: BLE001 - whatever breaks it, what has come is evidence
        return reading.finish(f"the stream broke: {type(error).__name__}: {str(error)[:500]}")
    return reading.finish()


def to_turn(frames: Iterable[str | Mapping[str, Any]], *, open_calls: Collection[str] = ()) -> Turn:
    """The turn of a whole stream; `open_calls` as for `Reading`."""
    return collected(frames, open_calls=open_calls).turn


async def to_turn_stream(frames: AsyncIterable[str | Mapping[str, Any]], *, open_calls: Collection[str] = ()) -> Turn:
    """The turn of a stream that is still coming. One that raises keeps what has come, and is partial."""
    return (await collected_stream(frames, open_calls=open_calls)).turn


def _object(frame: str | Mapping[str, Any]) -> Mapping[str, Any] | None:
    if isinstance(frame, str):
        try:
            frame = json.loads(frame)
        except (ValueError, RecursionError):
            return None
    return frame if isinstance(frame, dict) else None


def _usage(metadata: object) -> Usage | None:
    """Tokens, where the app put what the AI SDK counted into the metadata: `totalUsage`, or `usage`."""
    found = object_of(metadata, "totalUsage") or object_of(metadata, "usage")
    total, output = count_of(found, "inputTokens"), count_of(found, "outputTokens")
    if total is None and output is None:
        return None
    inside, of_output = object_of(found, "inputTokenDetails"), object_of(found, "outputTokenDetails")
    read = count_of(inside, "cacheReadTokens")
    # Versions before 7 have these two beside the others.
    read = count_of(found, "cachedInputTokens") if read is None else read
    reasoning = count_of(of_output, "reasoningTokens")
    reasoning = count_of(found, "reasoningTokens") if reasoning is None else reasoning
    written = count_of(inside, "cacheWriteTokens")
    plain = count_of(inside, "noCacheTokens")
    if plain is None and total is not None:
        plain = max(total - (read or 0) - (written or 0), 0)
    return Usage(
        input_tokens=plain,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=reasoning,
    )
