"""What an agent says while it works: `session/update`, read as events.

https://agentclientprotocol.com/protocol/prompt-turn
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

from niceeval.adapter import Coverage, EvidenceCoverage, InputOption, InputRequest, Usage
from niceeval.turn_building import ToolNames, TurnBuilder

coverage: Final = EvidenceCoverage.complete_except(
    events=Coverage.partial("an agent reports of its work what it chooses to"),
    actions=Coverage.partial("an agent reports of its work what it chooses to"),
    usage=Coverage.partial("the protocol does not require that tokens are reported"),
    data=Coverage.unavailable("the protocol has no structured answer"),
)
"""What the protocol promises, whatever the agent."""

TOOLS: Final = ToolNames(
    {
        "execute": "shell",
        "read": "file_read",
        "edit": "file_edit",
        "delete": "file_edit",
        "move": "file_edit",
        "search": "grep",
        "fetch": "web_fetch",
    }
)
"""The protocol's kinds of tools, and the canonical names that they stand for."""

_SILENT = frozenset(
    {
        "available_commands_update",
        "current_mode_update",
        "session_info_update",
        "config_option_update",
        "usage_update",
        "plan",
        "plan_update",
        "user_message_chunk",
    }
)
_REJECTING = ("reject_once", "reject_always")


class Calls:
    """The tool calls of a session: a call may be asked for in one turn and done in the next, and is said once.

    `rejected` are those that the human refused since the last prompt, `ended` those with an outcome.
    """

    def __init__(self) -> None:
        self.rejected: set[str] = set()
        self.ended: set[str] = set()
        self._known: dict[str, dict[str, Any]] = {}
        self._said: set[str] = set()

    def learn(self, call_id: str, update: Mapping[str, Any]) -> Mapping[str, Any]:
        """What is known of a call by now."""
        known = self._known.setdefault(call_id, {})
        known.update({key: update[key] for key in ("kind", "title", "rawInput") if update.get(key) is not None})
        return known

    def say(self, call_id: str) -> Mapping[str, Any] | None:
        """What is known of a call that is to be said now; None where it was."""
        if call_id in self._said:
            return None
        self._said.add(call_id)
        return self._known.get(call_id, {})

    @property
    def unsaid(self) -> list[str]:
        """Calls that were announced and not said yet."""
        return [call_id for call_id in self._known if call_id not in self._said]


class Updates:
    """The updates of one turn, as they come."""

    def __init__(self, calls: Calls) -> None:
        self.builder = TurnBuilder(coverage)
        self._calls = calls

    def take(self, params: Mapping[str, Any]) -> None:
        """One `session/update`."""
        update = params.get("update")
        if not isinstance(update, dict):
            self.builder.unknown("session/update without an update", ("events", "actions", "messages"))
            return
        kind = str(update.get("sessionUpdate"))
        if kind == "agent_message_chunk":
            self.builder.text_delta(_text(update.get("content")))
        elif kind == "agent_thought_chunk":
            self.builder.text_delta(_text(update.get("content")), kind="thinking")
        elif kind in ("tool_call", "tool_call_update"):
            self._tool(update)
        elif kind not in _SILENT:
            self.builder.unknown(kind, ("events", "actions", "messages"))

    def _tool(self, update: Mapping[str, Any]) -> None:
        call_id = str(update.get("toolCallId") or "")
        if not call_id:
            self.builder.unknown("tool_call without an id", ("events", "actions"))
            return
        known, status = self._calls.learn(call_id, update), update.get("status")
        # A call that is pending may still get its input, and is kept once: it is said when there is something to say.
        if status in ("completed", "failed") or (status != "pending" and known.get("rawInput") is not None):
            self.called(call_id)
        if status in ("completed", "failed"):
            self._result(call_id, update, failed=status == "failed")

    def called(self, call_id: str) -> None:
        """Say the call, with what is known of it by now, unless this turn or an earlier one did."""
        known = self._calls.say(call_id)
        if known is None:
            return
        kind = str(known.get("kind") or "other")
        given = known.get("rawInput")
        shown = {"title": str(known.get("title") or "")} if given is None else given
        self.builder.called(call_id, kind, shown, TOOLS.canonical(kind))

    def _result(self, call_id: str, update: Mapping[str, Any], *, failed: bool) -> None:
        output = update.get("rawOutput")
        if output is None:
            output = "\n".join(filter(None, map(_content, objects(update.get("content"))))) or None
        status: Literal["rejected", "failed", "completed"] = "failed" if failed else "completed"
        self._calls.ended.add(call_id)
        self.builder.result(call_id, output, "rejected" if call_id in self._calls.rejected else status)

    def end(self) -> None:
        """The turn is over: calls that were announced and never said are said now, and refused ones end as such.

        Some agents say nothing any more of a call that was refused.
        """
        for call_id in self._calls.unsaid:
            self.called(call_id)
        for call_id in sorted(self._calls.rejected - self._calls.ended):
            self.builder.result(call_id, None, "rejected")
        self._calls.rejected.clear()


def request_of(rpc_id: object, params: Mapping[str, Any]) -> tuple[InputRequest, str | None]:
    """A `session/request_permission` as a request, and the call that it is about."""
    call = params.get("toolCall")
    call = call if isinstance(call, dict) else {}
    options = tuple(
        InputOption(id=str(option.get("optionId")), label=str(option.get("name") or option.get("optionId")))
        for option in objects(params.get("options"))
    )
    request = InputRequest(
        id=f"permission-{json.dumps(rpc_id)}",
        action=str(call.get("kind") or "other"),
        input=call.get("rawInput"),
        prompt=str(call.get("title") or "permission"),
        options=options or None,
    )
    id = call.get("toolCallId")
    return request, None if id is None else str(id)


def rejects(params: Mapping[str, Any], option_id: str) -> bool:
    """Whether this option of a permission request is a refusal."""
    options = objects(params.get("options"))
    return any(str(option.get("optionId")) == option_id and option.get("kind") in _REJECTING for option in options)


def objects(value: object) -> list[dict[str, Any]]:
    """The objects of a list; of anything else none. What an agent says may be of any type."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def usage_of(result: Mapping[str, Any]) -> Usage | None:
    """The tokens that the answer to a prompt reports, where it does."""
    found = result.get("usage")
    if isinstance(found, dict):
        return Usage(
            input_tokens=_count(found.get("inputTokens")),
            output_tokens=_count(found.get("outputTokens")),
            cache_read_tokens=_count(found.get("cachedReadTokens")),
            cache_write_tokens=_count(found.get("cachedWriteTokens")),
            reasoning_tokens=_count(found.get("thoughtTokens")),
        )
    quota = (result.get("_meta") or {}).get("quota") if isinstance(result.get("_meta"), dict) else None
    count = quota.get("token_count") if isinstance(quota, dict) else None
    if isinstance(count, dict):
        return Usage(input_tokens=_count(count.get("input_tokens")), output_tokens=_count(count.get("output_tokens")))
    return None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _text(content: object) -> str:
    return str(content.get("text") or "") if isinstance(content, dict) else ""


def _content(item: Mapping[str, Any]) -> str:
    if item.get("type") == "diff":
        return f"{item.get('path')}: {item.get('newText')}"
    return _text(item.get("content"))
