"""What LangGraph gives back, whole or as it comes, as a turn."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Collection, Mapping
from typing import Any, Final

from niceeval.adapter import Coverage, EvidenceCoverage, Turn, Usage
from niceeval.converters._attributes import field, items, text_field
from niceeval.converters._call_ids import CallIds
from niceeval.converters.langgraph._interrupts import Pause, pauses
from niceeval.converters.langgraph._messages import (
    MessageReader,
    answer_tools,
    is_message,
    is_summary,
    key_of,
    kind_of,
    text_of_content,
)
from niceeval.converters.langgraph._thread import Thread
from niceeval.turn_building import FROM_EVENTS, Collected, TurnBuilder

MAX_PIECES: Final = 1_000_000
"""Characters that are held of texts that come in pieces, in case that they never come whole."""

coverage: Final = EvidenceCoverage.complete_except(
    usage=Coverage.partial("a model that is called in a tool or a middleware counts its tokens elsewhere"),
)
"""A thread's messages are all that its agent did; a turn says where they may not be."""

situations: Final[Mapping[str, str]] = {
    "success": "tested",
    "tool failure": "tested",
    "refusal by a human": "tested",
    "parallel tools": "tested",
    "nested agent": "tested",
    "empty answer": "tested",
    "multi-part content": "tested",
    "structured output": "tested",
    "cached and reasoning tokens": "tested",
    "error mid-stream": "tested",
}
"""What can happen in a run -> "tested", or why the framework does not show it."""

_INNER: Final = (
    "a graph that a tool called is not in the state: say with subagents= which tools call one, or {} for none"
)


def message_keys(state: object) -> frozenset[str]:
    """What the messages of a state are known by: give it as `before` with the state of the next turn."""
    return frozenset(key for message in _messages_of(_value_of(state), "messages") if (key := key_of(message)))


def to_turn(state: object, **how: Any) -> Turn:
    """The turn of a graph's result; arguments as `collected`, whose diagnostics it leaves out."""
    return collected(state, **how).turn


def collected(state: object, *, error: BaseException | None = None, **how: Any) -> Collected:
    """The turn of a graph's result, and what has to be said about it.

    `state` is what `invoke` gave (also with `version="v2"`), a snapshot of `get_state`, or a list of messages. With
    the `error` that ended the run it makes a failed turn. Further arguments as for `Reading`: `before` is needed from
    the second turn of a thread on.
    """
    reading = Reading(**how)
    reading.state(state)
    return reading.finish(error=error)


async def to_turn_stream(stream: AsyncIterable[object], **how: Any) -> Turn:
    """The turn of `graph.astream(...)`; arguments as `collected_stream`, without its diagnostics."""
    return (await collected_stream(stream, **how)).turn


async def collected_stream(stream: AsyncIterable[object], **how: Any) -> Collected:
    """The turn of `graph.astream(..., stream_mode=["updates", "values"], subgraphs=True)`, and what has to be said
    about it; further arguments as for `Reading`.

    Other modes show less, and the turn says what. A stream that raises makes a failed turn of what arrived.
    """
    reading = Reading(**how)
    try:
        async for part in stream:
            reading.add(part)
    except Exception as error:  # noqa: BLE001 - whatever ended the run, what arrived before is evidence
        return reading.finish(error=error)
    return reading.finish()


class Reading:
    """Reads a run as it comes: `add` each part of the stream, or the `state` that it ended in, then `finish`.

    `before` are the keys of messages that earlier turns of the thread have shown (`message_keys`, or `seen` of the
    earlier reading). `subagents` maps tools that call another agent to that agent's name; None where it is not known
    whether any does. `rejected` are ids of calls that a human refused, where a graph of your own does not mark it.
    `ids` are a conversation's, so that a call id that comes again in a later turn is told apart. `data=False` where no
    structured answer was asked for. `usage` is the run's, where it was counted otherwise than in its messages.
    `messages_key` names the messages in the state.

    `steps` counts the steps of nodes that have come.
    """

    def __init__(
        self,
        *,
        before: Collection[str] = (),
        subagents: Mapping[str, str] | None = None,
        rejected: Collection[str] = (),
        ids: CallIds | None = None,
        data: bool = True,
        usage: Usage | None = None,
        messages_key: str = "messages",
    ) -> None:
        self._builder = TurnBuilder(coverage)
        self._first_turn = not before
        self._thread = Thread(before)
        self._subagents = subagents
        self._rejected = rejected
        self._ids = ids or CallIds()
        self._wants_data = data
        self._usage = usage
        self._key = messages_key
        self._interrupts: list[object] = []
        self._breakpoint = False
        self._data: Any = None
        self._data_is_new = False
        self._pieces: dict[str, list[str]] = {}
        self._pieced = 0
        self._modes: set[str] = set()
        self._namespaces = False
        self._from_state = False
        self._removed = False
        self.steps = 0

    @property
    def seen(self) -> frozenset[str]:
        """The keys of all messages that this thread has shown so far."""
        return self._thread.seen

    @property
    def pauses(self) -> list[Pause]:
        """What the graph waits for."""
        return pauses(self._interrupts)

    # What comes -------------------------------------------------------------------------------------------------

    def state(self, state: object) -> None:
        """The state that a run ended in."""
        value = _value_of(state)
        self._from_state = True
        self._interrupts += _interrupts_of(state)
        if not isinstance(value, list) and field(value, self._key) is None:
            self._builder.incomplete(f"the graph's state has no {self._key!r}", (*FROM_EVENTS, "usage"))
        for message in _messages_of(value, self._key):
            self._thread.take(message, "state", spoken=True)
        self._structured(value, new=self._first_turn)

    def add(self, part: object) -> None:
        """One part of a stream, in whichever form its modes and version gave it."""
        namespace, mode, payload = _parts_of(part)
        self._modes.add(mode)
        if isinstance(part, Mapping):
            # Parts of version 2 always have a namespace, and keep what the graph waits for beside the state.
            self._namespaces |= bool(namespace)
            self._interrupts += items(part.get("interrupts")) if namespace is not None else []
        else:
            self._namespaces |= namespace is not None
        inner = bool(namespace)
        if mode == "values":
            self._values(payload, inner)
        elif mode == "updates":
            self._updates(payload, inner)
        elif mode == "messages":
            self._piece(payload, inner)

    def _values(self, payload: object, inner: bool) -> None:
        self._interrupts += _interrupts_of(payload)
        for message in _messages_of(_value_of(payload), self._key):
            self._thread.take(message, "values", spoken=not inner)
        if not inner:
            self._structured(payload, new=False)

    def _updates(self, payload: object, inner: bool) -> None:
        for node, update in payload.items() if isinstance(payload, Mapping) else ():
            if node == "__interrupt__":
                self._interrupts += items(update)
                self._breakpoint |= not update
                continue
            self.steps += 1
            for part in items(update) or [update]:
                if not isinstance(part, Mapping) and not hasattr(part, self._key):
                    continue
                messages = _messages_of(part, self._key)
                summarised = any(is_summary(message) for message in messages)
                if any(kind_of(message) == "remove" for message in messages) and not summarised and not inner:
                    self._removed = True
                for message in messages:
                    self._thread.take(message, "updates", spoken=not inner)
                if not inner:
                    self._structured(part, new=True)

    def _piece(self, payload: object, inner: bool) -> None:
        message = next(iter(items(payload)), None)
        key = key_of(message)
        if kind_of(message) != "ai" or inner or key is None or self._pieced > MAX_PIECES:
            return
        text = text_of_content(field(message, "content"))
        self._pieced += len(text)
        self._pieces.setdefault(key, []).append(text)

    def _structured(self, value: object, *, new: bool) -> None:
        found = field(value, "structured_response")
        if found is not None:
            self._data = found
            self._data_is_new |= new

    # The end ----------------------------------------------------------------------------------------------------

    def finish(
        self, *, error: BaseException | None = None, usage: Collection[Usage] | None = None, uncounted: int = 0
    ) -> Collected:
        """The turn. `error` is what ended the run, where it raised. `usage` is what each request to a model used, where
        that was counted otherwise than in the messages, and `uncounted` the number of requests that it is not known of.
        """
        builder = self._builder
        counted = usage if self._usage is None else [self._usage]
        messages = self._messages()
        reader = MessageReader(
            builder,
            ids=self._ids,
            answer_tools=answer_tools([message for message, _ in messages], self._data),
            subagents=self._subagents or {},
            rejected=self._rejected,
            count_usage=counted is None,
        )
        for message, spoken in messages:
            reader.read(message, spoken=spoken)
        if self._removed:
            builder.compaction("messages were removed from the state")
        open_calls = reader.finish()
        if counted is not None:
            self._usage_from_outside(counted, uncounted, sum(kind_of(message) == "ai" for message, _ in messages))
        self._unfinished_texts()
        self._what_modes_hide(reader)
        self._answer(reader, messages)
        if error is not None:
            self._ended_badly(error, open_calls)
        else:
            self._stopped()
        return builder.build()

    def _messages(self) -> list[tuple[object, bool]]:
        messages, uncertain = self._thread.messages()
        if uncertain:
            # What an earlier turn said proves nothing of this one.
            self._builder.incomplete("a message has no id, so it may be of an earlier turn", (*FROM_EVENTS, "usage"))
        if self._thread.left_out:
            self._builder.incomplete(f"{self._thread.left_out:,} messages are more than what is kept of a turn")
        return messages

    def _usage_from_outside(self, usage: Collection[Usage], uncounted: int, answers: int) -> None:
        requests = uncounted + sum(used.requests or 0 for used in usage)
        for used in usage:
            self._builder.add_usage(used)
        if not usage:
            self._builder.unavailable("usage", "the model's answers came without token counts")
        elif uncounted:
            self._builder.partial("usage", f"{uncounted} of the model's answers came without token counts")
        elif requests and requests < answers:
            self._builder.partial("usage", "an answer came from elsewhere than a model of LangChain")

    def _unfinished_texts(self) -> None:
        lost = {key: texts for key, texts in self._pieces.items() if not self._thread.holds(key)}
        for texts in lost.values():
            self._builder.message("".join(texts))
        if lost and self._modes - {"messages"}:
            self._builder.incomplete("an answer of the model did not come whole")

    def _what_modes_hide(self, reader: MessageReader) -> None:
        builder = self._builder
        if not self._from_state and not self._modes & {"updates", "values"}:
            builder.incomplete(
                'stream_mode has neither "updates" nor "values", which show calls, results and questions'
            )
        elif reader.tools_ran and self._subagents is None and not self._namespaces:
            builder.incomplete(_INNER, ("events", "actions"))
        elif self._subagents and not self._namespaces:
            names = ", ".join(sorted(set(self._subagents.values())))
            builder.incomplete(f"what these did inside is not in the state: {names}", ("events", "actions"))

    def _answer(self, reader: MessageReader, messages: list[tuple[object, bool]]) -> None:
        if self._data is None:
            return
        if not self._data_is_new and reader.answered is None and not self._last_text_is_data(messages):
            # A state keeps the structured answer of an earlier turn.
            if self._wants_data and not self._modes & {"updates"}:
                self._builder.partial("data", "whether the structured answer is of this turn is not known")
            return
        if reader.answered is not None:
            # Whichever way an agent gives its structured answer, it has said it.
            self._builder.message(reader.answered)
        if self._wants_data:
            self._builder.data(_plain(self._data))

    def _last_text_is_data(self, messages: list[tuple[object, bool]]) -> bool:
        texts = [text_of_content(field(message, "content")) for message, _ in messages if kind_of(message) == "ai"]
        try:
            return bool(texts) and json.loads(texts[-1]) == _plain(self._data)
        except (ValueError, RecursionError):
            return False

    def _stopped(self) -> None:
        waiting = self.pauses
        for pause in waiting:
            self._builder.requested(pause.request)
        if self._breakpoint and not waiting:
            self._builder.partial("status", "the graph stopped at a breakpoint of its own")
            self._builder.diagnostic("graph-paused", "the graph stopped at a breakpoint, and asks nothing")

    def _ended_badly(self, error: BaseException, open_calls: list[str]) -> None:
        why = f"the run ended with {type(error).__name__}"
        if open_calls:
            self._builder.incomplete(f"{why} while tools ran", ("events", "actions"))
        if type(error).__name__ != "GraphRecursionError":
            self._builder.incomplete(f"{why}: what its last step did is not shown", (*FROM_EVENTS, "usage"))
        self._builder.failed(f"{type(error).__name__}: {error}")


def _parts_of(part: object) -> tuple[tuple[str, ...] | None, str, Any]:
    """Namespace (None where the stream has none), mode and payload of a part of a stream."""
    if isinstance(part, Mapping):
        if "type" in part and "data" in part and "ns" in part:
            return tuple(part["ns"]), str(part["type"]), part["data"]
        return None, "values" if _looks_like_a_state(part) else "updates", part
    pieces = tuple(items(part))
    namespace = None
    if pieces and isinstance(pieces[0], (tuple, list)):
        namespace, pieces = tuple(pieces[0]), pieces[1:]
    if len(pieces) == 2 and isinstance(pieces[0], str):
        return namespace, pieces[0], pieces[1]
    if len(pieces) == 2 and is_message(pieces[0]):
        return namespace, "messages", pieces
    if len(pieces) == 1:
        return (namespace, *_parts_of(pieces[0])[1:])
    return namespace, "values", part


def _looks_like_a_state(part: Mapping[str, Any]) -> bool:
    return any(isinstance(value, list) and value and is_message(value[0]) for value in part.values())


def _value_of(state: object) -> Any:
    """The state itself, of a result, a snapshot or a list of messages."""
    if isinstance(state, (Mapping, list, tuple)) and not hasattr(state, "interrupts"):
        return list(state) if isinstance(state, tuple) else state
    for name in ("value", "values"):
        found = getattr(state, name, None)
        if found is not None and not callable(found):
            return found
    return state


def _interrupts_of(state: object) -> list[Any]:
    if isinstance(state, Mapping):
        return items(state.get("__interrupt__"))
    return items(getattr(state, "interrupts", None))


def _messages_of(value: object, key: str) -> list[Any]:
    found = value if isinstance(value, list) else field(value, key)
    if is_message(found):
        return [found]
    return [message for message in items(found) if is_message(message) or _says_what_it_is(message)]


def _says_what_it_is(value: object) -> bool:
    """Whether something among messages that is none of those that are known calls itself something."""
    return isinstance(value, Mapping) and bool(text_field(value, "type") or text_field(value, "role"))


def _plain(data: Any) -> Any:
    dump = getattr(data, "model_dump", None)
    return dump(mode="json") if callable(dump) else data
