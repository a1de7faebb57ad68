"""The parts of a run's messages, as events."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from niceeval.adapter import InputOption, InputRequest
from niceeval.converters._attributes import count_field, field, items, text_field, without_bytes
from niceeval.converters._call_ids import CallIds
from niceeval.turn_building import FROM_EVENTS, ToolNames, TurnBuilder

APPROVE: Final = "approve"
REJECT: Final = "reject"
APPROVAL_OPTIONS: Final = (InputOption(id=APPROVE, label="Approve"), InputOption(id=REJECT, label="Reject"))
"""The answers to a call that waits for approval."""
MAX_REASON: Final = 200
"""Characters of a summary that are kept as the reason of a compaction."""

_TOOLS: Final = ToolNames({"web_search": "web_search", "web_fetch": "web_fetch", "url_context": "web_fetch"})
"""Native tools, which a provider runs."""
_STATUSES: Final[Mapping[str, Literal["completed", "failed", "rejected"]]] = {
    "success": "completed",
    "failed": "failed",
    "retried": "failed",
    "denied": "rejected",
}
_NO_EVENT: Final = frozenset(
    {
        "system-prompt",
        "user-prompt",
        "instruction",
        "instruction-delta",
        "instruction-digest",
        "instruction-baseline",
        "tool-availability-delta",
        "capability-load-delta",
        "model-settings-delta",
    }
)
"""Parts that tell the model something, and are nothing that the agent did."""


class PartReader:
    """Adds the parts to a builder. `answer_tools` are the tools whose calls are the structured answer, and no actions;
    `subagents` maps tools to the agents behind them. `answered` is what such a tool was given and the framework took.
    """

    def __init__(
        self,
        builder: TurnBuilder,
        ids: CallIds,
        answer_tools: frozenset[str],
        subagents: Mapping[str, str],
    ) -> None:
        self.builder = builder
        self.answered: str | None = None
        self.responses = 0
        self._ids = ids
        self._answer_tools = answer_tools
        self._subagents = subagents
        self._answers: dict[str, str] = {}
        self._open: dict[str, str] = {}
        self._readers: Mapping[str, Callable[[object], None]] = {
            "text": self._text,
            "thinking": self._thinking,
            "tool-call": self.call,
            "builtin-tool-call": self.call,
            "tool-return": self.result,
            "builtin-tool-return": self.result,
            "retry-prompt": self._retry_prompt,
            "retry-feedback": self._retry_feedback,
            "compaction": self._compaction,
            "file": self._file,
            "speech": self._speech,
        }

    @property
    def open_calls(self) -> list[str]:
        """The ids of the calls that have no result, in their order."""
        return list(self._open.values())

    def messages(self, messages: Sequence[object]) -> None:
        """All of them, in order."""
        for message in messages:
            kind = text_field(message, "kind")
            if kind == "response":
                self.responses += 1
                self._cut_answer(message)
            elif kind != "request":
                self.builder.unknown(f"a message of kind {kind or '(none)'}")
            for part in items(field(message, "parts")):
                self.part(part)
            self.builder.end_text()

    def part(self, part: object) -> None:
        """One part of a message, whole."""
        kind = text_field(part, "part_kind") or "a part without a kind"
        reader = self._readers.get(kind)
        if reader is not None:
            reader(part)
        elif kind not in _NO_EVENT:
            self.builder.unknown(kind)

    def _cut_answer(self, response: object) -> None:
        state, reason = text_field(response, "state"), text_field(response, "finish_reason")
        if state in ("interrupted", "incomplete"):
            self.builder.incomplete("an answer of the model was cut off", (*FROM_EVENTS, "usage"))
        elif reason == "length":
            self.builder.diagnostic("answer-cut", "an answer of the model ended at its limit of tokens")

    # What the model said ----------------------------------------------------------------------------------------

    def _text(self, part: object) -> None:
        # Parts that follow each other in one answer are one text to whoever reads it.
        self.builder.text_delta(text_field(part, "content") or "", key=str(self.responses))

    def _thinking(self, part: object) -> None:
        content = text_field(part, "content") or ""
        if content:
            self.builder.thinking(content)
        elif field(part, "signature") or field(part, "provider_details"):
            self.builder.end_text()
            self.builder.partial("events", "the model's reasoning came encrypted")

    def _compaction(self, part: object) -> None:
        content = text_field(part, "content")
        self.builder.compaction(content[:MAX_REASON] if content else None)

    def _file(self, part: object) -> None:
        media_type = text_field(field(part, "content"), "media_type") or "unknown type"
        self.builder.incomplete("the model answered with a file, which no event holds", ("events", "messages"))
        self.builder.diagnostic("file-left-out", f"the model answered with a file ({media_type}), which is not kept")

    def _speech(self, part: object) -> None:
        if field(part, "speaker") == "user":
            return
        transcript = text_field(part, "transcript")
        if transcript:
            self.builder.message(transcript)
        else:
            self.builder.incomplete("the model spoke, and there is no transcript", ("events", "messages"))

    # Tools ------------------------------------------------------------------------------------------------------

    def call(self, part: object) -> None:
        """A tool call. One that gives the structured answer is no action."""
        id, name = text_field(part, "tool_call_id"), text_field(part, "tool_name") or "unknown"
        if id is None:
            self.builder.unknown("a tool call without an id")
            return
        if name in self._answer_tools:
            self.builder.end_text()
            self._answers[id] = arguments_text(part)
            return
        unique = self._ids.call(id)
        self._open[id] = unique
        agent = self._subagents.get(name)
        if agent is not None:
            self.builder.subagent(unique, agent)
            self.builder.incomplete(f"what {agent} did inside {name} is not shown", ("events", "actions"))
            return
        native = text_field(part, "part_kind") == "builtin-tool-call"
        self.builder.called(unique, name, without_bytes(arguments(part)), _TOOLS.canonical(name) if native else None)

    def result(self, part: object) -> None:
        """What a call came to."""
        id, name = text_field(part, "tool_call_id"), text_field(part, "tool_name") or "unknown"
        outcome = text_field(part, "outcome") or "success"
        if id is None:
            self.builder.unknown("a tool's result without a call id")
            return
        if name in self._answer_tools:
            self._answer_taken(id, part, outcome)
            return
        self._open.pop(id, None)
        status = _STATUSES.get(outcome)
        if status is None:
            # The run stopped before there was a result, or says a word that is not known: nothing is claimed.
            self.builder.incomplete(f"a tool call ended as {outcome}", ("events", "actions"))
            return
        unique, output = self._ids.result(id), without_bytes(field(part, "content"))
        if name in self._subagents:
            self.builder.subagent_done(unique, output, "completed" if status == "completed" else "failed")
        else:
            self.builder.result(unique, output, status)

    def raised(self, message: str, ids: Sequence[str] = ()) -> None:
        """A tool raised, and the run ended: one of these calls, or, where only one is open, that one."""
        for id in ids or (tuple(self._open) if len(self._open) == 1 else ()):
            if self._open.pop(id, None) is not None:
                self.builder.result(self._ids.result(id), message, "failed")

    def _answer_taken(self, id: str, part: object, outcome: str) -> None:
        if outcome == "retried":
            self.builder.error(f"the structured answer was refused: {_said(field(part, 'content'))}")
        elif outcome == "success" and not str(field(part, "content")).startswith("Output tool not used"):
            self.answered = self._answers.get(id)

    def _retry_prompt(self, part: object) -> None:
        # The older form of both kinds of refusal.
        if text_field(part, "tool_name") is None:
            self._retry_feedback(part)
        else:
            self.result(
                {
                    "tool_call_id": field(part, "tool_call_id"),
                    "tool_name": field(part, "tool_name"),
                    "content": field(part, "content"),
                    "outcome": "retried",
                }
            )

    def _retry_feedback(self, part: object) -> None:
        self.builder.error(f"the model's answer was refused: {_said(field(part, 'content'))}")

    # Questions --------------------------------------------------------------------------------------------------

    def deferred(self, requests: object) -> bool:
        """The calls that a run stopped for; False where there are none."""
        approvals, calls = items(field(requests, "approvals")), items(field(requests, "calls"))
        for part in approvals:
            self._ask(part, APPROVAL_OPTIONS)
        for part in calls:
            self._ask(part, None)
        return bool(approvals or calls)

    def _ask(self, part: object, options: tuple[InputOption, ...] | None) -> None:
        id = text_field(part, "tool_call_id") or ""
        self.builder.requested(
            InputRequest(
                id=self._ids.current(id),
                action=text_field(part, "tool_name"),
                input=without_bytes(arguments(part)),
                options=options,
            )
        )


def is_deferred(output: object) -> bool:
    """Whether a run's output says that it stopped for a human or for a result from outside."""
    return type(output).__name__ == "DeferredToolRequests" and isinstance(field(output, "approvals"), list)


def arguments(part: object) -> Any:
    """A call's arguments: a mapping, or the text as it came where that is none."""
    given = field(part, "args")
    if given is None or given == "":
        return {}
    if not isinstance(given, str):
        return given
    try:
        read = json.loads(given)
    except (ValueError, RecursionError):
        return given
    return read if isinstance(read, dict) else given


def arguments_text(part: object) -> str:
    """A call's arguments as JSON text."""
    given = field(part, "args")
    if isinstance(given, str):
        return given
    try:
        return json.dumps(given or {}, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(given)


def attempts_of(messages: Sequence[object]) -> int:
    """Requests to models that the framework moved on from."""
    return sum(len(items(field(message, "failed_attempts"))) for message in messages)


def count_of_requests(usage: object) -> int:
    """The requests that a run's usage counts."""
    return count_field(usage, "requests") or 0


def _said(content: object) -> str:
    if isinstance(content, str):
        return content
    try:
        return json.dumps(without_bytes(content), ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(content)
