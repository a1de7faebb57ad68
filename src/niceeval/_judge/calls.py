"""Assertions on tool calls and subagent calls (channel `actions`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from niceeval._evidence.facts import SubagentCall, ToolCall
from niceeval._evidence.scope import Scope
from niceeval._judge.availability import incomplete, is_complete
from niceeval._judge.counting import Count, count_score, count_text
from niceeval._judge.evaluation import Evaluation, plural, refs_of
from niceeval._judge.unset import UNSET
from niceeval._model.assertion import EvidenceRef
from niceeval._model.matching import describe, difference, matches, nearness

Call: TypeAlias = ToolCall | SubagentCall
StatusFilter: TypeAlias = Literal["completed", "failed", "rejected", "pending"] | None

LOAD_SKILL: Final = "load_skill"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallQuery:
    """Conditions that must all hold for the same call."""

    name: str
    input: Any = UNSET
    output: Any = UNSET
    remote_url: Any = UNSET
    status: StatusFilter = None

    def names(self, call: Call) -> bool:
        return call.name == self.name or (isinstance(call, ToolCall) and call.tool == self.name)

    def holds(self, call: Call, *, pending_counts: bool) -> bool:
        """Whether this call satisfies every condition. A call without a result satisfies no `output` condition.

        `pending_counts` is false where a missing result proves nothing: then no call counts as pending.
        """
        if not self.names(call):
            return False
        if self.status is not None and not self._status(call, pending_counts):
            return False
        if self.input is not UNSET and not matches(
            self.input, call.input if isinstance(call, ToolCall) else None, root="input"
        ):
            return False
        if self.remote_url is not UNSET:
            url = call.remote_url if isinstance(call, SubagentCall) else None
            if not matches(self.remote_url, url):
                return False
        return self.output is UNSET or (call.result_event is not None and matches(self.output, call.output))

    def _status(self, call: Call, pending_counts: bool) -> bool:
        if call.status == "unknown" or (call.status == "pending" and not pending_counts):
            return False
        return call.status == self.status

    def conditions(self) -> str:
        """The conditions beside the name, as text; empty for none."""
        said: list[str] = []
        for label, pattern in (("input", self.input), ("output", self.output), ("remote_url", self.remote_url)):
            if pattern is not UNSET:
                said.append(describe(pattern, root=label))
        if self.status is not None:
            said.append(f"status {self.status}")
        return "".join(f", {text}" for text in said)


def called(scope: Scope, query: CallQuery, count: Count, *, kind: Literal["tool", "subagent"]) -> Evaluation:
    """`called_tool`, `called_subagent`: a positive assertion with an optional count."""
    calls: Sequence[Call] = scope.tool_calls if kind == "tool" else scope.subagent_calls
    complete = is_complete(scope, "actions")
    found = [call for call in calls if query.holds(call, pending_counts=complete)]
    passed, reason = count_score(scope, ["actions"], len(found), count)
    shown = found or [call for call in calls if query.names(call)]
    return Evaluation(
        score=1.0 if passed and reason is None else 0.0,
        expected=f"{count_text(count, 'call')} of {query.name}{query.conditions()}",
        received=_received(query, found, calls),
        evidence=call_lines(shown),
        refs=call_refs(shown),
        reason=reason,
    )


def not_called(scope: Scope, query: CallQuery) -> Evaluation:
    """`not_called_tool`: a negative assertion; a counterexample that was seen is kept as evidence."""
    reason = incomplete(scope, "actions")
    found = [call for call in scope.tool_calls if query.holds(call, pending_counts=True)]
    return Evaluation(
        score=0.0 if found or reason else 1.0,
        expected=f"no call of {query.name}{query.conditions()}",
        received=_received(query, found, scope.tool_calls),
        evidence=call_lines(found),
        refs=call_refs(found or list(scope.tool_calls)),
        reason=reason,
    )


def tool_order(scope: Scope, names: Sequence[str]) -> Evaluation:
    """The names occur in this order, gaps allowed."""
    used: list[ToolCall] = []
    for call in scope.tool_calls:
        if len(used) < len(names) and names[len(used)] in (call.name, call.tool):
            used.append(call)
    found = len(used) == len(names)
    return Evaluation(
        score=1.0 if found and scope.turns else 0.0,
        expected=" -> ".join(names),
        received=" -> ".join(call.name for call in scope.tool_calls[:50]) or "no tool calls",
        detail=None if found else f"{names[len(used)]} does not come after {_after(names, len(used))}",
        evidence=call_lines(used),
        refs=call_refs(used),
        reason=incomplete(scope, "actions") if not found or not scope.turns else None,
    )


def used_no_tools(scope: Scope) -> Evaluation:
    """A negative assertion over every tool call."""
    return _bound(scope, scope.tool_calls, 0, "no tool calls")


def max_tool_calls(scope: Scope, limit: int) -> Evaluation:
    """An upper bound on the number of tool calls."""
    return _bound(scope, scope.tool_calls, limit, f"at most {plural(limit, 'tool call')}")


def no_failed_actions(scope: Scope) -> Evaluation:
    """No tool call and no subagent call failed; a human's refusal is not a failure."""
    reason = incomplete(scope, "actions")
    calls: list[Call] = [*scope.tool_calls, *scope.subagent_calls]
    failed = [call for call in calls if call.status == "failed"]
    return Evaluation(
        score=0.0 if failed or reason else 1.0,
        expected="no failed actions",
        received=f"{plural(len(failed), 'failed action')} of {len(calls)}",
        evidence=call_lines(failed),
        refs=call_refs(failed),
        reason=reason,
    )


def _bound(scope: Scope, calls: Sequence[Call], limit: int, expected: str) -> Evaluation:
    reason = incomplete(scope, "actions")
    return Evaluation(
        score=1.0 if len(calls) <= limit and reason is None else 0.0,
        expected=expected,
        received=plural(len(calls), "tool call") + (f": {_names(calls)}" if calls else ""),
        evidence=call_lines(calls[limit:]),
        refs=call_refs(calls[limit:]),
        reason=reason,
    )


def call_lines(calls: Iterable[Call]) -> str | None:
    """Calls as evidence text: `#4 action.called get_weather (call_1) · #5 completed`."""
    lines = [_line(call) for call in list(calls)[:3]]
    return " · ".join(lines) or None


def _line(call: Call) -> str:
    kind = "action" if isinstance(call, ToolCall) else "subagent"
    result = call.status if call.result_event is None else f"#{call.result_event} {call.status}"
    return f"#{call.event} {kind}.called {call.name} ({call.call_id}) · {result}"


def call_refs(calls: Iterable[Call]) -> tuple[EvidenceRef, ...]:
    """References to the calls and to their results."""
    indexed: list[tuple[int, str | None]] = []
    for call in calls:
        indexed.append((call.event, call.call_id))
        if call.result_event is not None:
            indexed.append((call.result_event, call.call_id))
    return refs_of(indexed)


def _received(query: CallQuery, found: Sequence[Call], calls: Sequence[Call]) -> str:
    if found:
        return plural(len(found), "such call")
    named = [call for call in calls if query.names(call)]
    if named:
        return f"0 such calls; nearest {_nearest(query, named)}"
    return f"0 such calls; called: {_names(calls)}" if calls else "no calls at all"


def _nearest(query: CallQuery, named: Sequence[Call]) -> str:
    def closeness(call: Call) -> float:
        if query.input is UNSET or not isinstance(call, ToolCall):
            return 0.0
        return nearness(query.input, call.input)

    call = max(named, key=closeness)
    return f"#{call.event}: {_mismatch(query, call)}"


def _mismatch(query: CallQuery, call: Call) -> str:
    if query.input is not UNSET and isinstance(call, ToolCall):
        found = difference(query.input, call.input, root="input")
        if found is not None:
            return found
    if query.status is not None and call.status != query.status:
        return f"status {call.status}"
    if query.output is not UNSET:
        if call.result_event is None:
            return "it has no result"
        found = difference(query.output, call.output, root="output")
        if found is not None:
            return found
    return f"status {call.status}"


def _names(calls: Sequence[Call]) -> str:
    names = list(dict.fromkeys(call.name for call in calls))
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def _after(names: Sequence[str], position: int) -> str:
    return names[position - 1] if position else "the start"
