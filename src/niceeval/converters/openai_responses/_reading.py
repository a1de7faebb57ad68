"""Reads a whole tool loop: responses, streamed or not, and the items that the caller sends between them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from niceeval.adapter import Coverage, EvidenceCoverage
from niceeval.converters._attributes import text_field
from niceeval.converters._client_calls import ClientCalls
from niceeval.converters._plain_json import decoded, plain
from niceeval.converters.openai_responses._events import Events
from niceeval.converters.openai_responses._items import ItemReader
from niceeval.converters.openai_responses._usage import usage_of
from niceeval.turn_building import Collected, TurnBuilder, list_of, text_of

MAX_STREAM_CHARS: Final = 64_000_000
"""The most of one streamed response that is read, in characters; what comes after is left out."""

coverage: Final = EvidenceCoverage(
    events=Coverage.complete,
    actions=Coverage.complete,
    messages=Coverage.complete,
    usage=Coverage.complete,
    status=Coverage.complete,
    data=Coverage.complete,
)
"""A response's output is all that was done in it, in order. A turn says where it is not: functions whose results are
not there or have no status, reasoning that is not shown, a response that was cut."""

_TOO_EARLY: Final = frozenset({"in_progress", "queued"})


class Reading:
    """Reads what came, piece by piece: responses, events of streamed ones, items. Arguments as for `collected`."""

    def __init__(
        self, *, failed: Collection[str] | None = None, rejected: Collection[str] = (), structured: bool = False
    ) -> None:
        self._builder = TurnBuilder(coverage)
        self._items = ItemReader(self._builder, ClientCalls(self._builder, failed, rejected))
        self._structured = structured
        self._events: Events | None = None
        self._said: list[Any] = []
        self._responses: list[Any] = []
        self._status: str | None = None
        self._error: str | None = None
        self._parsed: Any = None

    @property
    def full(self) -> bool:
        """Whether so much of a stream has come that nothing more is read."""
        return self._events is not None and self._events.size > MAX_STREAM_CHARS

    def add(self, given: Any) -> None:
        """One thing that came. What cannot be read lowers the coverage and is counted; nothing is raised."""
        kind = text_field(given, "type") or ""
        if kind.startswith("response.") or kind == "error":
            self._event(kind, given)
            return
        item = plain(given)
        if not isinstance(item, dict):
            self._builder.unknown("something that is no object", ("status",))
        elif text_of(item, "object") == "response" or ("output" in item and "type" not in item):
            self._flush()
            self._response(item)
        elif item.get("error") and not kind:
            self._flush()
            self._refused(item["error"])
        else:
            self._flush()
            # A caller that keeps the history in its own list gives a response's items again.
            if _essence(item) not in self._said:
                self._items.item(item)

    def broke(self, error: Exception) -> Collected:
        """The turn of a stream that raised: what has come, and no more."""
        text = f"{type(error).__name__}: {str(error)[:500]}"
        said = getattr(error, "body", None) is not None
        self._flush()
        if said:
            # The server said so itself, in the middle of its answer.
            self._failed(text)
        return self.finish(f"the stream broke: {text}")

    def finish(self, cut: str | None = None) -> Collected:
        """The turn. `cut` says why a stream is not whole, where that is known."""
        if self.full:
            cut = f"the stream is longer than {MAX_STREAM_CHARS:,} characters, and was not read on"
        self._flush()
        waits = self._items.finish()
        self._say_how_it_ended(cut)
        if self._structured and not waits:
            self._data()
        return self._builder.build()

    # What came --------------------------------------------------------------------------------------------------

    def _event(self, kind: str, event: Any) -> None:
        if kind in ("response.created", "response.queued") and self._events and self._events.terminal is not None:
            self._flush()
        if self._events is None:
            self._events = Events()
        self._events.add(kind, event)

    def _flush(self) -> None:
        events, self._events = self._events, None
        if events is None:
            return
        response = events.response()
        if events.lost:
            self._builder.incomplete("the response has fewer items at its end than came before")
        self._response(response)
        if events.error is not None:
            self._failed(_message_of(events.error))

    def _response(self, response: Mapping[str, Any]) -> None:
        if response in self._responses and response.get("id"):
            return
        self._responses.append(response)
        self._error, self._parsed = None, None
        self._status = text_of(response, "status")
        self._items.whole = self._status != "incomplete"
        for item in list_of(response, "output"):
            if isinstance(item, dict):
                self._said.append(_essence(item))
                self._items.item(item)
                self._parsed = _parsed(item) if item.get("type") == "message" else self._parsed
            else:
                self._builder.unknown("an item that is no object")
        self._items.whole = True
        usage = usage_of(response.get("usage"))
        if usage is None:
            self._builder.partial("usage", "a response came without usage")
        else:
            self._builder.add_usage(usage)
        if self._status is None:
            self._builder.incomplete("a response was cut: it does not say how it ended")
        elif self._status in _TOO_EARLY:
            self._builder.incomplete("a response was read before it was done")
        elif self._status == "incomplete":
            self._error = f"the answer ended early: {text_of(response, 'incomplete_details', 'reason') or 'no reason'}"
            self._builder.diagnostic("turn-ended-badly", self._error)
        elif self._status != "completed":
            self._failed(_message_of(response.get("error")) if response.get("error") else f"it was {self._status}")

    # The end ----------------------------------------------------------------------------------------------------

    def _refused(self, error: Any) -> None:
        self._responses.append(None)
        self._status = "failed"
        self._failed(_message_of({"error": error}))
        self._builder.partial("usage", "the request failed: what it used is not known")

    def _failed(self, message: str) -> None:
        self._error = message
        self._builder.error(message)

    def _say_how_it_ended(self, cut: str | None) -> None:
        builder = self._builder
        if cut is not None:
            builder.incomplete(cut)
        if not self._responses:
            builder.incomplete("there is no response")
        if self._error is not None:
            builder.failed(self._error, said=False)
        elif self._status is None or self._status in _TOO_EARLY:
            builder.failed(cut or "there is no whole response", said=False)
        if self._structured and (cut is not None or self._status is None):
            builder.partial("data", cut or "there is no whole response")

    def _data(self) -> None:
        text = self._items.text
        if self._parsed is not None:
            self._builder.data(self._parsed)
            return
        value, _ = decoded(text)
        if text and value != text:
            self._builder.data(value)
        else:
            self._builder.diagnostic("output-not-json", "the answer is not the JSON that was asked for")


def _message_of(error: Any) -> str:
    found = text_of(error, "message") or text_of(error, "error", "message") or text_of(error, "error")
    return found or (error if isinstance(error, str) else "the server gave an error")


def _parsed(item: Mapping[str, Any]) -> Any:
    """What the SDK made of a structured answer."""
    found = [part["parsed"] for part in list_of(item, "content") if isinstance(part, dict) and part.get("parsed")]
    return found[-1] if found else None


def _essence(item: Any) -> Any:
    """An item without what is not said in it: an SDK's object has more fields than the JSON it was made of."""
    if isinstance(item, dict):
        return {key: _essence(value) for key, value in item.items() if value is not None}
    return [_essence(one) for one in item] if isinstance(item, list) else item
