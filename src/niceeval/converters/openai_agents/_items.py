"""The items of a run, as events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal

from niceeval.adapter import InputOption, InputRequest
from niceeval.converters._attributes import field, items, text_field
from niceeval.converters._call_ids import CallIds
from niceeval.converters.openai_agents._calls import (
    CANONICAL,
    agent_behind,
    call_id,
    call_input,
    call_name,
    hosted_result,
    plain,
)
from niceeval.turn_building import TurnBuilder

APPROVE: Final = "approve"
REJECT: Final = "reject"
APPROVAL_OPTIONS: Final = (InputOption(id=APPROVE, label="Approve"), InputOption(id=REJECT, label="Reject"))
"""The answers to a call that waits for approval."""
FAILED_TEXT: Final = "An error occurred while running the tool. Please try again."
"""What the SDK answers in the place of a tool that raised, where nobody says otherwise."""
REJECTED_TEXT: Final = "Tool execution was not approved."
"""What the SDK answers in the place of a tool that was refused without a reason."""

_NO_EVENT: Final = frozenset(
    {
        "input_item",
        "tool_approval_item",
        "mcp_list_tools_item",
        "mcp_approval_request_item",
        "mcp_approval_response_item",
    }
)
"""Items that are nothing the agent did; what waits for approval is read from the result's interruptions."""

Status = Literal["completed", "failed", "rejected"]


class ItemReader:
    """Adds the items to a builder. `failed` and `rejected` are the ids of calls of which the caller knows that."""

    def __init__(
        self, builder: TurnBuilder, ids: CallIds, failed: Collection[str] = (), rejected: Collection[str] = ()
    ) -> None:
        self.builder = builder
        self.spoke = False
        self._ids = ids
        self._failed = frozenset(failed)
        self._rejected = frozenset(rejected)
        self._agents: dict[str, str] = {}
        self._handoff: tuple[str, str] | None = None
        self._handoffs: set[str] = set()
        self._results: set[str] = set()
        self._known: set[str] = set()
        self._mine: dict[str, str] = {}
        self._held: dict[str, object] = {}
        self._readers: Mapping[str, Callable[[object], None]] = {
            "message_output_item": self._message,
            "reasoning_item": self._reasoning,
            "tool_call_item": self._call,
            "tool_call_output_item": self._result,
            "tool_search_call_item": self._call,
            "tool_search_output_item": self._result,
            "handoff_output_item": self._handoff_done,
            "compaction_item": self._compaction,
        }

    def recall(self, before: Sequence[object]) -> None:
        """Items of the turn that this one goes on from: they are said already, and only what is open counts."""
        for item in before:
            kind, id = text_field(item, "type"), call_id(field(item, "raw_item"))
            if id is None:
                continue
            self._known.add(id)
            agent = agent_behind(item)
            if kind == "tool_call_item" and agent is not None:
                self._agents[id] = agent
            elif kind == "handoff_output_item":
                self._handoff = (self._ids.current(id), _target(item))

    def items(self, items: Sequence[object]) -> None:
        """All of them, in order."""
        targets = {
            call_id(field(item, "raw_item")): _target(item)
            for item in items
            if text_field(item, "type") == "handoff_output_item"
        }
        for item in items:
            self.item(item, targets)

    def item(self, item: object, targets: Mapping[str | None, str] | None = None) -> None:
        """One item. `targets` has the agents that were handed over to, by call id; without it, items come one by one,
        and a handoff is held until it is known to whom."""
        kind = text_field(item, "type") or "an item without a type"
        if kind == "handoff_call_item":
            id = call_id(field(item, "raw_item"))
            if targets is None and id is not None:
                self._held[id] = item
            else:
                self._handoff_call(item, (targets or {}).get(id))
        elif kind in self._readers:
            self._readers[kind](item)
        elif kind not in _NO_EVENT:
            self.builder.unknown(kind)

    def _unique(self, id: str) -> str:
        """The id of a call of this turn. The SDK takes an id that comes again in a run for the same call."""
        if id not in self._mine:
            self._mine[id] = self._ids.call(id)
        return self._mine[id]

    def rejected_inside(self) -> None:
        """Calls that were refused and have no item of their own: those of an agent inside a tool."""
        for id in sorted(self._rejected - self._results):
            self.builder.result(self._ids.result(id), None, "rejected")

    def ended(self, output: object, ok: bool) -> None:
        """The run is over, and with it whoever was handed over to."""
        if self._handoff is not None:
            id, _ = self._handoff
            self._handoff = None
            self.builder.subagent_done(id, plain(output), "completed" if ok else "failed")

    # What was said ----------------------------------------------------------------------------------------------

    def _message(self, item: object) -> None:
        texts = []
        for part in items(field(field(item, "raw_item"), "content")):
            kind = text_field(part, "type")
            if kind == "output_text":
                texts.append(text_field(part, "text") or "")
            elif kind == "refusal":
                texts.append(text_field(part, "refusal") or "")
                self.builder.diagnostic("model-refused", "the model refused to answer", level="info")
            else:
                self.builder.incomplete(f"a message has a part ({kind}) that is no text", ("events", "messages"))
        text = "".join(texts)
        self.spoke = self.spoke or bool(text)
        self.builder.message(text)

    def _reasoning(self, item: object) -> None:
        raw = field(item, "raw_item")
        parts = [*items(field(raw, "summary")), *items(field(raw, "content"))]
        texts = [text_field(part, "text") for part in parts]
        self.builder.thinking("\n\n".join(filter(None, texts)))
        if not parts or None in texts:
            self.builder.partial("events", "the model's reasoning, or a part of it, is not shown")

    def _compaction(self, item: object) -> None:
        self.builder.compaction()

    # Tools ------------------------------------------------------------------------------------------------------

    def _call(self, item: object) -> None:
        raw = field(item, "raw_item")
        id = call_id(raw)
        if id is None:
            self.builder.unknown("a tool call without an id")
            return
        unique, agent = self._unique(id), agent_behind(item)
        if agent is not None:
            self._agents[id] = agent
            self.builder.subagent(unique, agent)
            self.builder.incomplete(f"what {agent} did inside a tool is not shown", ("events", "actions"))
            return
        self.builder.called(unique, call_name(item), call_input(raw), CANONICAL.get(text_field(raw, "type") or ""))
        hosted = hosted_result(raw)
        if hosted is not None:
            output, failed = hosted
            self.builder.result(self._ids.result(id), output, "failed" if failed else "completed")

    def _result(self, item: object) -> None:
        raw = field(item, "raw_item")
        id = call_id(raw)
        if id is None:
            self.builder.unknown("a tool's result without a call id")
            return
        output = plain(field(item, "output", field(raw, "output")))
        status = self._status(id, raw, output)
        unique = self._ids.result(id)
        self._results.add(id)
        if id in self._handoffs:
            # Of several handoffs at once the SDK takes one, and answers the others as it answers a tool.
            self.builder.subagent_done(unique, output, "failed")
        elif id in self._agents or self.builder.subagent_open(unique):
            self.builder.subagent_done(unique, output, "completed" if status == "completed" else "failed")
        else:
            self.builder.result(unique, output, status)

    def _status(self, id: str, raw: object, output: Any) -> Status:
        if id in self._rejected or output == REJECTED_TEXT:
            return "rejected"
        if id in self._failed or output == FAILED_TEXT or text_field(raw, "status") == "failed":
            return "failed"
        return "completed"

    # Other agents -----------------------------------------------------------------------------------------------

    def _handoff_call(self, item: object, target: str | None = None) -> None:
        raw = field(item, "raw_item")
        id = call_id(raw)
        if id is None:
            self.builder.unknown("a handoff without an id")
            return
        self._handoffs.add(id)
        name = target or (text_field(raw, "name") or "unknown").removeprefix("transfer_to_")
        self.builder.subagent(self._unique(id), name)

    def _handoff_done(self, item: object) -> None:
        id = call_id(field(item, "raw_item"))
        if id is None:
            return
        held = self._held.pop(id, None)
        if held is not None:
            self._handoff_call(held, _target(item))
        # Whoever hands over is done; nothing else says when a subagent is.
        self.ended(None, True)
        self._handoff = (self._ids.result(id), _target(item))

    # Questions --------------------------------------------------------------------------------------------------

    def interruptions(self, approvals: Sequence[object]) -> None:
        """Calls that wait for approval. One of an agent inside a tool is seen here for the first time."""
        for item in approvals:
            raw = field(item, "raw_item")
            id = call_id(raw) or ""
            name, given = call_name(item), call_input(raw)
            unique = self._ids.current(id)
            if not self.builder.was_called(unique) and id not in self._known:
                unique = self._unique(id)
                self.builder.called(unique, name, given)
            self.builder.requested(InputRequest(id=unique, action=name, input=given, options=APPROVAL_OPTIONS))


def _target(item: object) -> str:
    return text_field(field(item, "target_agent"), "name") or "unknown"
