"""The items of a response, and those that the caller sends between two, as events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from niceeval.adapter import InputOption, InputRequest
from niceeval.converters._client_calls import ClientCalls
from niceeval.converters.openai_responses._tools import (
    KINDS,
    OUTPUTS,
    Kind,
    arguments_of,
    client_outcome,
    function_name,
    given_of,
    hosted_outcome,
    is_open,
)
from niceeval.turn_building import TurnBuilder, list_of, text_of

APPROVE: Final = "approve"
REJECT: Final = "reject"
OPTIONS: Final = (InputOption(id=APPROVE, label="Approve"), InputOption(id=REJECT, label="Reject"))
"""The answers to a request for approval."""

_SILENT: Final = frozenset({"additional_tools", "item_reference"})
_MCP: Final = Kind(name="mcp", hosted=True, output="output")


class ItemReader:
    """Adds items to a builder. `text` is what the last message said; `whole` says whether the response that the items
    are of is."""

    def __init__(self, builder: TurnBuilder, calls: ClientCalls) -> None:
        self.text = ""
        self.whole = True
        self._builder = builder
        self._calls = calls
        self._asked: dict[str, InputRequest] = {}
        self._searches: list[str] = []
        self._readers: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
            "message": self._message,
            "reasoning": self._reasoning,
            "function_call": self._function,
            "custom_tool_call": self._custom,
            "mcp_call": self._mcp,
            "mcp_approval_request": self._request,
            "mcp_approval_response": self._answer,
            "mcp_list_tools": self._list_tools,
            "compaction": lambda item: self._builder.compaction(),
        }

    def item(self, item: Mapping[str, Any]) -> None:
        """One item, by what it says it is."""
        kind = text_of(item, "type") or ("message" if "role" in item else "an item without a type")
        if kind in self._readers:
            self._readers[kind](item)
        elif kind in KINDS:
            self._other_call(item, KINDS[kind])
        elif kind in OUTPUTS:
            self._output(item)
        elif kind not in _SILENT:
            self._builder.unknown(kind)

    def finish(self) -> bool:
        """Say which requests have no answer; whether there are any."""
        for request in self._asked.values():
            self._builder.requested(request)
        self._calls.finish(self._asked)
        return bool(self._asked)

    # What was said ----------------------------------------------------------------------------------------------

    def _message(self, item: Mapping[str, Any]) -> None:
        if text_of(item, "role") not in ("assistant", None):
            return
        texts = []
        for part in list_of(item, "content"):
            kind = text_of(part, "type") or "a part without a type"
            if kind in ("output_text", "text"):
                texts.append(text_of(part, "text") or "")
            elif kind == "refusal":
                texts.append(text_of(part, "refusal") or "")
                self._builder.diagnostic("model-refused", "the model refused to answer", level="info")
            else:
                self._builder.incomplete("a part of the answer is no text", ("events", "messages"))
                self._builder.diagnostic("parts-not-read", f"a part of the answer is no text: {kind[:80]}")
        self.text = text_of(item, "content") or "".join(texts)
        self._builder.message(self.text)
        if is_open(item):
            self._builder.incomplete("a message is not whole", ("events", "messages"))

    def _reasoning(self, item: Mapping[str, Any]) -> None:
        parts = [*list_of(item, "summary"), *list_of(item, "content")]
        texts = [text_of(part, "text") for part in parts]
        text = "\n\n".join(found for found in texts if found)
        self._builder.thinking(text)
        if not text or None in texts:
            self._builder.partial("events", "the model's reasoning is not shown")

    def _list_tools(self, item: Mapping[str, Any]) -> None:
        if item.get("error"):
            error = text_of(item, "error") or text_of(item, "error", "message") or "no reason was given"
            self._builder.error(f"the tools of {text_of(item, 'server_label')} could not be listed: {error}")

    # Calls ------------------------------------------------------------------------------------------------------

    def _function(self, item: Mapping[str, Any]) -> None:
        given = arguments_of(item)
        if self.whole or isinstance(given, dict):
            self._called(item, function_name(item), given)
        else:
            self._half(function_name(item) or "a function")

    def _custom(self, item: Mapping[str, Any]) -> None:
        self._called(item, function_name(item), text_of(item, "input") or "")

    def _other_call(self, item: Mapping[str, Any], kind: Kind) -> None:
        id = self._called(item, kind.name, given_of(item, kind), kind.tool, hosted=kind.hosted)
        if id and kind.name == "tool_search":
            self._searches.append(id)
        if id and kind.hosted:
            self._hosted(id, item, kind)

    def _mcp(self, item: Mapping[str, Any]) -> None:
        request = text_of(item, "approval_request_id")
        if request:
            # The request was the call; it may be one of an earlier turn.
            self._asked.pop(request, None)
            self._hosted(request, item, _MCP)
            return
        id = self._called(item, function_name(item), arguments_of(item), hosted=True)
        if id:
            self._hosted(id, item, _MCP)

    def _called(
        self, item: Mapping[str, Any], name: str | None, given: Any, tool: str | None = None, *, hosted: bool = False
    ) -> str | None:
        id = text_of(item, "call_id") or text_of(item, "id")
        if not id or not name:
            self._builder.unknown(f"{text_of(item, 'type')} without an id or a name")
            return None
        if is_open(item) and not hosted:
            self._half(name)
            return None
        self._calls.called(id, name, given, tool)
        return id

    def _half(self, name: str) -> None:
        self._builder.incomplete(f"a call of {name[:80]} was begun and never made", ("events", "actions"))

    def _hosted(self, id: str, item: Mapping[str, Any], kind: Kind) -> None:
        outcome = hosted_outcome(item, kind)
        if outcome is not None:
            self._calls.result(id, *outcome, called_before=kind is _MCP)

    def _output(self, item: Mapping[str, Any]) -> None:
        id = text_of(item, "call_id")
        if id is None and item["type"] == "tool_search_output" and self._searches:
            id = self._searches[-1]
        id = id or text_of(item, "id")
        if id is None:
            self._builder.unknown(f"{item['type']} without the id of its call")
        elif is_open(item):
            self._builder.partial("actions", "a result is not whole")
        else:
            output, status = client_outcome(item)
            self._calls.result(id, output, status)

    # Approval ---------------------------------------------------------------------------------------------------

    def _request(self, item: Mapping[str, Any]) -> None:
        id, name, given = text_of(item, "id"), function_name(item), arguments_of(item)
        if not id or not name:
            self._builder.unknown("mcp_approval_request without an id or a name")
            return
        self._calls.called(id, name, given)
        self._asked[id] = InputRequest(id=id, action=name, input=given, options=OPTIONS)

    def _answer(self, item: Mapping[str, Any]) -> None:
        id, approved = text_of(item, "approval_request_id"), item.get("approve")
        if id is None or not isinstance(approved, bool):
            self._builder.unknown("mcp_approval_response that answers nothing")
            return
        self._asked.pop(id, None)
        if not approved:
            self._calls.result(id, text_of(item, "reason"), "rejected", called_before=True)
