"""Reads a whole tool loop: messages, streamed or not, and the user's messages with results between them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from niceeval.adapter import Coverage, EvidenceCoverage, Usage
from niceeval.converters._attributes import text_field
from niceeval.converters._client_calls import ClientCalls
from niceeval.converters._plain_json import decoded, plain
from niceeval.converters.anthropic_messages._blocks import BlockReader, blocks_of
from niceeval.converters.anthropic_messages._events import HELPERS, KINDS, Events
from niceeval.turn_building import Collected, TurnBuilder, count_of, list_of, text_of

MAX_STREAM_CHARS: Final = 64_000_000
"""The most of one streamed message that is read, in characters; what comes after is left out."""

coverage: Final = EvidenceCoverage(
    events=Coverage.complete,
    actions=Coverage.complete,
    messages=Coverage.complete,
    usage=Coverage.complete,
    status=Coverage.complete,
    data=Coverage.complete,
)
"""The messages of a tool loop, with the results, are all that was done in it, in order. A turn says where they are not:
calls whose results are not there, reasoning that is redacted, a message that was cut."""

_WHOLE: Final = frozenset({"end_turn", "stop_sequence", "tool_use"})
_PAUSED: Final = frozenset({"pause_turn", "compaction"})
_CUT_SHORT: Final[Mapping[str, str]] = {
    "max_tokens": "it reached its limit of tokens",
    "model_context_window_exceeded": "it filled the model's context",
    "refusal": "the model refused to go on",
}


class Reading:
    """Reads what came, piece by piece: messages, events of streamed ones, results. Arguments as for `collected`."""

    def __init__(self, *, rejected: Collection[str] = (), structured: bool = False) -> None:
        self._builder = TurnBuilder(coverage)
        self._calls = ClientCalls(self._builder, (), rejected)
        self._blocks = BlockReader(self._builder, self._calls)
        self._structured = structured
        self._events: Events | None = None
        self._last: Any = None
        self._answer: tuple[str, Any] = ("", None)
        self._read = 0
        self._reason: str | None = None
        self._error: str | None = None

    @property
    def full(self) -> bool:
        """Whether so much of a stream has come that nothing more is read."""
        return self._events is not None and self._events.size > MAX_STREAM_CHARS

    def add(self, given: Any) -> None:
        """One thing that came. What cannot be read lowers the coverage and is counted; nothing is raised."""
        kind = text_field(given, "type") or ""
        if kind in HELPERS:
            return
        item = plain(given)
        if not isinstance(item, dict):
            self._builder.unknown("something that is no object", ("status",))
        elif kind in KINDS and (kind != "error" or self._events is not None):
            self._event(kind, item)
        else:
            self._flush()
            self._whole(item)

    def broke(self, error: Exception) -> Collected:
        """The turn of a stream that raised: what has come, and no more."""
        text = f"{type(error).__name__}: {str(error)[:500]}"
        self._flush()
        if getattr(error, "body", None) is not None:
            # The server said so itself, in the middle of its answer.
            self._failed(text)
        return self.finish(f"the stream broke: {text}")

    def finish(self, cut: str | None = None) -> Collected:
        """The turn. `cut` says why a stream is not whole, where that is known."""
        if self.full:
            cut = f"the stream is longer than {MAX_STREAM_CHARS:,} characters, and was not read on"
        self._flush()
        self._calls.finish()
        self._say_how_it_ended(cut)
        if self._structured:
            self._data(cut)
        return self._builder.build()

    # What came --------------------------------------------------------------------------------------------------

    def _event(self, kind: str, event: Mapping[str, Any]) -> None:
        if kind == "message_start":
            self._flush()
        if self._events is None:
            self._events = Events()
        self._events.add(event)

    def _flush(self) -> None:
        events, self._events = self._events, None
        if events is None:
            return
        if events.lost:
            self._builder.incomplete("a block of the stream has no beginning")
        self._message(events.message())
        if events.error is not None:
            self._failed(_message_of(events.error))

    def _whole(self, item: Mapping[str, Any]) -> None:
        role = text_of(item, "role")
        if role == "assistant" and ("stop_reason" in item or "usage" in item):
            self._message(item)
        elif role == "assistant":
            self._bare(item)
        elif role == "user":
            self._blocks.user(blocks_of(item.get("content")))
        elif text_of(item, "type") == "tool_result":
            self._blocks.user([item])
        elif item.get("error"):
            self._read += 1
            self._reason = None
            self._failed(_message_of(item["error"]))
            self._builder.partial("usage", "the request failed: what it used is not known")
        elif role != "system":
            self._builder.unknown(role or text_of(item, "type") or "an object that is no message", ("status",))

    def _message(self, item: Mapping[str, Any]) -> None:
        if item == self._last and item.get("id"):
            return
        self._last, self._error = item, None
        self._read += 1
        self._reason = text_of(item, "stop_reason")
        whole = self._reason is not None and self._reason not in _CUT_SHORT
        self._answer = self._blocks.assistant(blocks_of(item.get("content")), whole=whole)
        self._usage(item.get("usage"))
        if self._reason is None:
            self._builder.incomplete("a message was cut: it does not say why it ends")
        elif self._reason == "refusal":
            why = text_of(item, "stop_details", "explanation") or "no reason was given"
            self._builder.diagnostic("model-refused", f"the model refused to go on: {why}", level="info")

    def _usage(self, said: object) -> None:
        usage = _usage_of(said)
        if usage is None:
            self._builder.partial("usage", "a message came without usage")
            return
        self._builder.add_usage(usage)
        for one in list_of(said, "iterations"):
            kind = text_of(one, "type")
            if kind == "compaction":
                # The sums leave it out.
                self._builder.add_usage(_usage_of(one) or Usage())
            elif kind != "message":
                self._builder.partial("usage", "some of the tokens are counted apart, in a way that is not known")

    def _bare(self, item: Mapping[str, Any]) -> None:
        """A message as it goes back to the model: the one that came before, or one without its end and usage."""
        content = blocks_of(item.get("content"))
        if self._last is not None and _essence(content) == _essence(blocks_of(self._last.get("content"))):
            return
        self._read += 1
        self._reason = "end_turn"
        self._answer = self._blocks.assistant(content, whole=True)
        self._builder.incomplete("a message has no end and no usage", ("usage", "status"))

    # The end ----------------------------------------------------------------------------------------------------

    def _failed(self, message: str) -> None:
        self._error = message
        self._builder.error(message)

    def _say_how_it_ended(self, cut: str | None) -> None:
        builder = self._builder
        if cut is not None:
            builder.incomplete(cut)
        if not self._read:
            builder.incomplete("there is no message")
        if self._error is not None:
            builder.failed(self._error, said=False)
        elif self._reason is None:
            builder.failed(cut or "there is no whole message", said=False)
        elif self._reason in _CUT_SHORT:
            builder.failed(f"the answer ended early: {_CUT_SHORT[self._reason]}", said=False)
        elif self._reason in _PAUSED:
            builder.incomplete("the answer paused, and how it went on is not there")
        elif self._reason not in _WHOLE:
            builder.partial("status", f"the answer ended for a reason that is not known: {self._reason[:80]}")

    def _data(self, cut: str | None) -> None:
        if cut is not None or self._reason is None:
            self._builder.partial("data", cut or "there is no whole message")
        text, parsed = self._answer
        if parsed is not None:
            self._builder.data(parsed)
            return
        value, _ = decoded(text)
        if text and value != text:
            self._builder.data(value)
        else:
            self._builder.diagnostic("output-not-json", "the answer is not the JSON that was asked for")


def _usage_of(usage: object) -> Usage | None:
    """What `usage` says. Cached tokens are counted beside the input here."""
    total, output = count_of(usage, "input_tokens"), count_of(usage, "output_tokens")
    if total is None and output is None:
        return None
    return Usage(
        input_tokens=total,
        output_tokens=output,
        cache_read_tokens=count_of(usage, "cache_read_input_tokens"),
        cache_write_tokens=count_of(usage, "cache_creation_input_tokens"),
        reasoning_tokens=count_of(usage, "output_tokens_details", "thinking_tokens"),
        requests=1,
    )


def _message_of(error: Any) -> str:
    return text_of(error, "message") or (error if isinstance(error, str) else "the server gave an error")


def _essence(blocks: list[Any]) -> list[Any]:
    """Blocks without what is not said in them."""
    return [{key: value for key, value in block.items() if value is not None} for block in blocks]
