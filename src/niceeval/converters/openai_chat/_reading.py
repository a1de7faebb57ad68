"""Reads a whole tool loop: answers, streamed or not, and the messages of tools between them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from niceeval.adapter import Coverage, EvidenceCoverage
from niceeval.converters._client_calls import ClientCalls
from niceeval.converters._plain_json import decoded, plain
from niceeval.converters.openai_chat._answer import CUT_SHORT, WHOLE, AnswerReader, content_text
from niceeval.converters.openai_chat._chunks import Chunks
from niceeval.converters.openai_chat._usage import usage_of
from niceeval.turn_building import Collected, TurnBuilder, list_of, object_of, text_of, value_of

MAX_STREAM_CHARS: Final = 64_000_000
"""The most of one streamed answer that is read, in characters; what comes after is left out."""

coverage: Final = EvidenceCoverage.complete_except(
    events=Coverage.partial("an answer does not say in which order it came to its text and its calls"),
    actions=Coverage.partial("tools run at the caller: an answer has the calls and never what they came to"),
)

_HELPERS: Final = ("content.", "refusal.", "tool_calls.", "logprobs.")
"""Events that the SDK's stream makes of chunks, which it gives as well."""


class Reading:
    """Reads what came, piece by piece: completions, chunks, tool messages. See `collected` for the arguments."""

    def __init__(
        self, *, failed: Collection[str] | None = None, rejected: Collection[str] = (), structured: bool = False
    ) -> None:
        self._builder = TurnBuilder(coverage)
        self._calls = ClientCalls(self._builder, failed, rejected)
        self._answers = AnswerReader(self._builder, self._calls)
        self._structured = structured
        self._chunks: Chunks | None = None
        self._last: Any = None
        self._answer: tuple[str, Any] = ("", None)
        self._read = 0
        self._reason: str | None = None
        self._error: str | None = None

    @property
    def full(self) -> bool:
        """Whether so much of a stream has come that nothing more is read."""
        return self._chunks is not None and self._chunks.size > MAX_STREAM_CHARS

    def add(self, given: Any) -> None:
        """One thing that came. What cannot be read lowers the coverage and is counted; nothing is raised."""
        kind = given.get("type") if isinstance(given, Mapping) else getattr(given, "type", None)
        if kind == "chunk":
            given = given["chunk"] if isinstance(given, Mapping) and "chunk" in given else getattr(given, "chunk", None)
        elif isinstance(kind, str) and kind.startswith(_HELPERS):
            return
        item = plain(given)
        if not isinstance(item, dict):
            self._builder.unknown("something that is no object", ("status",))
        elif self._is_chunk(item):
            self._chunk(item)
        else:
            self._flush()
            self._whole(item)

    def broke(self, error: Exception) -> Collected:
        """The turn of a stream that raised: what has come, and no more."""
        text = f"{type(error).__name__}: {str(error)[:500]}"
        if getattr(error, "body", None) is not None:
            # The server said so itself, in the middle of its answer.
            self._flush()
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
            self._data()
        return self._builder.build()

    # What came --------------------------------------------------------------------------------------------------

    def _is_chunk(self, item: Mapping[str, Any]) -> bool:
        choices = list_of(item, "choices")
        if text_of(item, "object") == "chat.completion.chunk":
            return True
        if self._chunks is not None and not choices and ("choices" in item or "error" in item):
            return True
        return any("delta" in choice for choice in choices if isinstance(choice, dict))

    def _chunk(self, chunk: Mapping[str, Any]) -> None:
        id = text_of(chunk, "id")
        known = self._chunks
        if known is not None and known.finish_reason and id and known.id and id != known.id:
            self._flush()
        if self._chunks is None:
            self._chunks = Chunks()
        self._chunks.add(chunk)

    def _flush(self) -> None:
        if self._chunks is not None:
            completion, self._chunks = self._chunks.completion(), None
            self._completion(completion)

    def _whole(self, item: Mapping[str, Any]) -> None:
        role = text_of(item, "role")
        if "choices" in item:
            self._completion(item)
        elif role == "tool":
            id = text_of(item, "tool_call_id")
            if id is None:
                self._builder.unknown("a tool's message without the id of its call")
            else:
                self._calls.result(id, content_text(item.get("content")))
        elif role == "function":
            self._answers.legacy_result(item)
        elif role == "assistant":
            self._bare(item)
        elif item.get("error"):
            self._read += 1
            self._failed(item["error"])
            self._builder.partial("usage", "the request failed: what it used is not known")
        elif role not in ("user", "system", "developer"):
            self._builder.unknown(role or text_of(item, "type") or "an object that is no answer", ("status",))

    def _completion(self, item: Mapping[str, Any]) -> None:
        if item == self._last and item.get("id"):
            return
        self._last, self._error = item, None
        choices = [choice for choice in list_of(item, "choices") if value_of(choice, "index") in (0, None)]
        self._read += 1
        usage = usage_of(item.get("usage"))
        if usage is None:
            self._builder.partial("usage", "an answer came without usage")
        else:
            self._builder.add_usage(usage)
        if len(list_of(item, "choices")) > 1:
            self._builder.diagnostic("choices-left-out", "the answer has several choices: the first was taken")
        if choices:
            self._choice(choices[0])
        else:
            self._reason = None
            self._builder.incomplete("an answer has no choice")
        error = item.get("error") or value_of(choices[0] if choices else None, "error")
        if error:
            self._failed(error)

    def _choice(self, choice: Mapping[str, Any]) -> None:
        message = object_of(choice, "message")
        self._reason = text_of(choice, "finish_reason")
        text = self._answers.message(message, whole=self._reason is not None and self._reason not in CUT_SHORT)
        self._answer = (text, message.get("parsed"))
        if self._reason is None:
            self._builder.incomplete("an answer was cut: it does not say why it ends")

    def _bare(self, message: Mapping[str, Any]) -> None:
        """An assistant's message as it goes back to the model: the one of the completion before, or one without."""
        last = object_of((list_of(self._last, "choices") or [None])[0], "message")
        if last and _same(last, message):
            return
        self._read += 1
        self._reason = "stop"
        self._answer = (self._answers.message(message, whole=True), None)
        self._builder.incomplete("a message has no completion around it", ("usage", "status"))

    # The end ----------------------------------------------------------------------------------------------------

    def _failed(self, error: Any) -> None:
        self._error = text_of(error, "message") or (error if isinstance(error, str) else "the server gave an error")
        self._builder.error(self._error)

    def _say_how_it_ended(self, cut: str | None) -> None:
        builder = self._builder
        if cut is not None:
            builder.incomplete(cut)
        if not self._read:
            builder.incomplete("there is no answer")
        if self._error is not None:
            builder.failed(self._error, said=False)
        elif self._reason is None:
            builder.failed(cut or "there is no whole answer", said=False)
        elif self._reason in CUT_SHORT:
            builder.failed(f"the answer ended early: {CUT_SHORT[self._reason]}", said=False)
        elif self._reason not in WHOLE:
            builder.partial("status", f"the answer ended for a reason that is not known: {self._reason[:80]}")
        if self._structured and (cut is not None or self._reason is None):
            builder.partial("data", cut or "there is no whole answer")

    def _data(self) -> None:
        text, parsed = self._answer
        if parsed is not None:
            self._builder.data(parsed)
            return
        value, _ = decoded(text)
        if text and (value != text):
            self._builder.data(value)
        else:
            self._builder.diagnostic("output-not-json", "the answer is not the JSON that was asked for")


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    def ids(message: Mapping[str, Any]) -> list[str | None]:
        return [text_of(call, "id") for call in list_of(message, "tool_calls")]

    return ids(one) == ids(other) and (one.get("content") or "") == (other.get("content") or "")
