"""A run's messages, as a turn."""

from __future__ import annotations

from collections.abc import AsyncIterable, Collection, Iterable, Mapping
from typing import Any, Final, Literal

from niceeval.adapter import EvidenceCoverage, InputOption, InputRequest, Turn, Usage
from niceeval.converters._attributes import count_field, field, items, text_field, without_bytes
from niceeval.converters.claude_agent_sdk._blocks import BlockReader, has
from niceeval.turn_building import Collected, SeenIds, TurnBuilder, amount_of

MAX_MESSAGES: Final = 100_000
"""The most messages of one turn that are read; pieces of messages are no messages."""
OPTIONS: Final = (InputOption(id="approve", label="Approve"), InputOption(id="reject", label="Reject"))

coverage: Final = EvidenceCoverage.complete_except()
"""A run's messages are all that the agent did; a turn says where they are not."""

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
"""What can happen in a run -> "tested", or why the SDK does not show it."""

_SYNTHETIC: Final = "<synthetic>"
_ENDED: Final = frozenset({"completed", "failed", "stopped", "killed", "cancelled"})
_SILENT: Final = frozenset(
    {
        "background_tasks_changed",
        "elicitation_complete",
        "files_persisted",
        "hook_progress",
        "hook_response",
        "hook_started",
        "local_command_output",
        "mirror_error",
        "permission_denied",
        "post_turn_summary",
        "session_state_changed",
        "status",
        "task_progress",
        "thinking_tokens",
    }
)
"""System messages that say nothing that another one does not say: progress, housekeeping."""


def to_turn(messages: Iterable[object], **how: Any) -> Turn:
    """The turn of a run's messages; arguments as `collected`, whose diagnostics it leaves out."""
    return collected(messages, **how).turn


def collected(
    messages: Iterable[object],
    *,
    error: BaseException | None = None,
    denied: Collection[str] = (),
    cost_before: float | None = None,
    data: bool = True,
) -> Collected:
    """The turn of a run's messages, all of them up to the end of `query(...)` or of a turn of the client.

    `error` is what it raised, also after the last message: the SDK raises what the result says once more. `denied` are
    ids of calls that your own `can_use_tool` refused, for a run that ends before its result says so. `cost_before` is
    what the session had cost before this turn (0 for its first one), because the SDK tells the session's sum; without
    it no cost is given. `data=False` where no structured answer was asked for.
    """
    held = list(messages)
    results = [message for message in held if _kind(message) == "result"]
    reader = _Reader(frozenset(denied) | _denials(results))
    for message in held[:MAX_MESSAGES]:
        reader.take(message)
    if len(held) > MAX_MESSAGES:
        reader.builder.incomplete(f"the turn has more than {MAX_MESSAGES:,} messages")
    return reader.finish(error, cost_before, data)


async def to_turn_stream(messages: AsyncIterable[object], **how: Any) -> Turn:
    """The turn of `query(...)` or `client.receive_messages()`; arguments as `collected`, without its diagnostics."""
    return (await collected_stream(messages, **how)).turn


async def collected_stream(messages: AsyncIterable[object], **how: Any) -> Collected:
    """The turn of a run's messages as they come; further arguments as `collected`.

    A stream that raises keeps what arrived. `client.receive_response()` ends at the first result, also where agents run
    on in the background: what they do then is missing, and the turn says so.
    """
    held: list[object] = []
    try:
        async for message in messages:
            held.append(message)
    except Exception as error:  # noqa: BLE001 - whatever ended the run, what arrived before is evidence
        return collected(held, error=error, **how)
    return collected(held, **how)


Kind = Literal["assistant", "user", "system", "result", "piece", "rate", "reset", "unknown"]


def _kind(message: object) -> Kind:
    if has(message, "num_turns") and has(message, "is_error"):
        return "result"
    if has(message, "subtype") and has(message, "data"):
        return "system"
    if has(message, "content"):
        return "assistant" if has(message, "model") else "user"
    if has(message, "event"):
        return "piece"
    if has(message, "rate_limit_info"):
        return "rate"
    return "reset" if has(message, "new_conversation_id") else "unknown"


class _Reader:
    def __init__(self, denied: frozenset[str]) -> None:
        self.builder = TurnBuilder(coverage)
        self._blocks = BlockReader(self.builder, denied)
        self._seen = SeenIds()
        self._requests = SeenIds()
        self._results: list[object] = []
        self._more_to_come = True
        self._calls: dict[str, str] = {}
        self._tasks: set[str] = set()
        self._ended: dict[str, bool] = {}
        self._pieces: list[str] = []

    def take(self, message: object) -> None:
        kind = _kind(message)
        if kind == "unknown":
            self.builder.unknown(f"a message of type {type(message).__name__}", ("usage", "status"))
        elif kind == "piece":
            self._piece(message)
        elif self._seen.first(text_field(message, "uuid")):
            getattr(self, f"_{kind}")(message)

    # Messages ---------------------------------------------------------------------------------------------------

    def _assistant(self, message: object) -> None:
        self._more_to_come = True
        content, child = field(message, "content"), field(message, "parent_tool_use_id") is not None
        if not child:
            self._pieces.clear()
        if field(message, "error") is not None:
            texts = [text_field(block, "text") or "" for block in items(content)]
            self.builder.error("\n".join(texts) or str(field(message, "error")))
            return
        if field(message, "model") != _SYNTHETIC:
            self._requests.first(text_field(message, "message_id"))
        self._blocks.assistant(content, parent=text_field(message, "parent_tool_use_id"))

    def _user(self, message: object) -> None:
        self._more_to_come = True
        self._blocks.user(field(message, "content"), field(message, "tool_use_result"))

    def _result(self, message: object) -> None:
        self._more_to_come = False
        self._results.append(message)

    def _system(self, message: object) -> None:
        kind = text_field(message, "subtype") or "nothing"
        data = field(message, "data")
        if kind == "init":
            self._more_to_come = True
        elif kind in ("compact_boundary", "microcompact_boundary"):
            self.builder.compaction(text_field(field(data, "compact_metadata"), "trigger"))
        elif kind == "api_retry":
            said = f"retry {field(data, 'attempt')} of {field(data, 'max_retries')} after {field(data, 'error_status')}"
            self.builder.error(f"{said} ({field(data, 'error')})")
        elif kind in ("task_started", "task_updated", "task_notification"):
            self._task(kind, data)
        elif kind not in _SILENT:
            self.builder.unknown(f"system/{kind}")

    def _task(self, kind: str, data: object) -> None:
        task, call = text_field(data, "task_id") or "", text_field(data, "tool_use_id")
        patch = field(data, "patch")
        if call:
            self._calls[task] = call
        if True in (field(data, "is_backgrounded"), field(patch, "is_backgrounded")):
            self._tasks.add(task)
            self._blocks.background.add(self._calls.get(task, ""))
        status = text_field(data, "status") or text_field(patch, "status")
        if kind == "task_started" or status not in _ENDED:
            return
        call = self._calls.get(task, "")
        self._tasks.discard(task)
        # An update says that it is done, and mostly a notification follows, which says what came of it.
        self._ended[call] = status == "completed"
        if kind == "task_notification":
            self._agent_done(call, text_field(data, "summary"))

    def _agent_done(self, call: str, summary: str | None) -> None:
        if call in self._blocks.background and self.builder.subagent_open(call):
            said = self._blocks.said.get(call, summary)
            self.builder.subagent_done(call, said, "completed" if self._ended[call] else "failed")

    def _rate(self, message: object) -> None:
        info = field(message, "rate_limit_info")
        if text_field(info, "status") not in (None, "allowed"):
            said = f"rate limit {text_field(info, 'rate_limit_type') or ''}: {text_field(info, 'status')}"
            self.builder.diagnostic("rate-limited", said)

    def _reset(self, message: object) -> None:
        self.builder.compaction("the conversation was replaced by a fresh one")

    def _piece(self, message: object) -> None:
        event = field(message, "event")
        delta = field(event, "delta")
        if field(message, "parent_tool_use_id") is None and text_field(delta, "type") == "text_delta":
            self._pieces.append(text_field(delta, "text") or "")

    # The end ----------------------------------------------------------------------------------------------------

    def finish(self, error: BaseException | None, cost_before: float | None, data: bool) -> Collected:
        builder, last = self.builder, self._results[-1] if self._results else None
        if self._pieces and self._more_to_come:
            builder.message("".join(self._pieces))
        for call in self._ended:
            self._agent_done(call, None)
        missing = self._missing(last)
        if missing:
            builder.incomplete(missing)
            for call in self._blocks.errors:
                # Only a result says whether it was refused: nothing may be claimed of it.
                builder.amend(call, None)
        self._usage(cost_before)
        if data and field(last, "structured_output") is not None:
            builder.data(field(last, "structured_output"))
        deferred = field(last, "deferred_tool_use")
        if deferred is not None:
            self._deferred(deferred)
        self._status(last, error)
        return builder.build()

    def _missing(self, last: object) -> str | None:
        if last is None:
            return "the run has no result"
        if self._more_to_come:
            return "the messages end before the last result"
        if self._tasks or any(self.builder.subagent_open(call) for call in self._blocks.background):
            return "agents were still running in the background when the messages ended"
        return None

    def _deferred(self, call: object) -> None:
        id, name, given = text_field(call, "id") or "", text_field(call, "name"), without_bytes(field(call, "input"))
        if id not in self._blocks.calls:
            self.builder.called(id, name or "unknown", given)
        self.builder.requested(InputRequest(id=id, action=name, input=given, options=OPTIONS))

    def _usage(self, cost_before: float | None) -> None:
        if self._blocks.subagents:
            self.builder.partial("usage", "the result counts the tokens of the main conversation, without subagents")
        for result in self._results:
            usage = usage_of(field(result, "usage"))
            if usage is None:
                self.builder.partial("usage", "a result came without usage")
            else:
                self.builder.add_usage(usage)
        cost = amount_of({"cost": field(self._results[-1], "total_cost_usd")}, "cost") if self._results else None
        if cost is not None and cost_before is not None and cost >= cost_before:
            self.builder.add_usage(Usage(cost_usd=round(cost - cost_before, 9)))
        if len(self._requests):
            self.builder.add_usage(Usage(requests=len(self._requests)))

    def _status(self, last: object, error: BaseException | None) -> None:
        stopped = [result for result in self._results if field(result, "is_error") is not False]
        if stopped:
            self.builder.failed(_why(stopped[-1]))
        elif (text_field(last, "terminal_reason") or "").startswith("aborted"):
            self.builder.failed("the turn was interrupted", said=False)
        elif error is not None:
            self.builder.failed(f"{type(error).__name__}: {error}")
        elif last is None:
            self.builder.failed("the run ended without a result", said=False)


def usage_of(figures: object) -> Usage | None:
    """A result's usage: its input tokens are without the cached ones already. None where there is none."""
    usage = Usage(
        input_tokens=count_field(figures, "input_tokens"),
        output_tokens=count_field(figures, "output_tokens"),
        cache_read_tokens=count_field(figures, "cache_read_input_tokens"),
        cache_write_tokens=count_field(figures, "cache_creation_input_tokens"),
        reasoning_tokens=count_field(field(figures, "output_tokens_details"), "thinking_tokens"),
    )
    return None if usage == Usage() else usage


def _denials(results: Iterable[object]) -> frozenset[str]:
    denials = [denial for result in results for denial in items(field(result, "permission_denials"))]
    return frozenset(id for denial in denials if (id := text_field(denial, "tool_use_id")))


def _why(result: object) -> str:
    errors = "; ".join(error for error in items(field(result, "errors")) if isinstance(error, str))
    subtype = text_field(result, "subtype")
    return errors or text_field(result, "result") or (subtype if subtype != "success" else None) or "an error"
