"""The scoped assertions that `t`, a session and a turn share. The receiver decides the scope, never the name."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from niceeval._base.errors import AuthorError
from niceeval._evidence.scope import Scope
from niceeval._judge import calls, state, stream
from niceeval._judge.calls import CallQuery, StatusFilter
from niceeval._judge.collector import AssertionHandle
from niceeval._judge.counting import Count, validate_count
from niceeval._judge.evaluation import Evaluation
from niceeval._judge.unset import UNSET
from niceeval._model.events import StreamEvent

_STATUSES = ("completed", "failed", "rejected", "pending")


class Receiver(ABC):
    """Records assertions about one scope. On a session or a turn they are evaluated at the call, on `t` at the end."""

    __slots__ = ()

    @abstractmethod
    def _record(self, name: str, evaluate: Callable[[Scope], Evaluation]) -> AssertionHandle:
        """Record one assertion of this receiver's scope."""

    @abstractmethod
    def _fault(self, error: AuthorError) -> BaseException:
        """Record an author's mistake at the caller's line; the result is raised."""

    # State

    def succeeded(self) -> AssertionHandle:
        """No turn of the scope failed, and each session's last turn is completed. Channel: status."""
        return self._record("succeeded", state.succeeded)

    def parked(self) -> AssertionHandle:
        """The scope's last turn waits for a human. Channels: status, events."""
        return self._record("parked", state.parked)

    # Messages and events

    def message_includes(self, text: str | re.Pattern[str]) -> AssertionHandle:
        """Some assistant message contains the text, or the pattern is found in it. Channel: messages."""
        # An empty text is in every message: such an assertion could never fail.
        given: object = text
        if not given or not isinstance(given, (str, re.Pattern)) or isinstance(getattr(given, "pattern", ""), bytes):
            raise self._bad("message_includes", "text", text, "give non-empty text or re.compile(...)")
        return self._record(f"message_includes({_shown(text)})", lambda scope: stream.message_includes(scope, text))

    def event(self, type: str, *, count: Count = None) -> AssertionHandle:
        """Events of this type occur (`message`: assistant ones). Channel: events."""
        self._valid(stream.require_event_type, type, "event")
        self._valid(validate_count, count, "event")
        return self._record(f'event("{type}")', lambda scope: stream.event(scope, type, count))

    def not_event(self, type: str) -> AssertionHandle:
        """No event of this type occurs. Channel: events."""
        self._valid(stream.require_event_type, type, "not_event")
        return self._record(f'not_event("{type}")', lambda scope: stream.not_event(scope, type))

    def event_order(self, types: Sequence[str]) -> AssertionHandle:
        """The types occur in this order, gaps allowed. Channel: events."""
        kinds = self._names("event_order", types)
        for kind in kinds:
            self._valid(stream.require_event_type, kind, "event_order")
        return self._record(f"event_order({kinds})", lambda scope: stream.event_order(scope, kinds))

    def events_satisfy(self, label: str, predicate: Callable[[Sequence[StreamEvent]], object]) -> AssertionHandle:
        """A predicate over the scope's events, user messages included. Channel: events."""
        if not callable(predicate):
            raise self._bad("events_satisfy", "predicate", predicate, "give a function of the list of events")
        return self._record(f"events_satisfy({label})", lambda scope: stream.events_satisfy(scope, label, predicate))

    # Tool and subagent calls

    def called_tool(
        self,
        name: str,
        *,
        input: Any = UNSET,
        output: Any = UNSET,
        status: StatusFilter = None,
        count: Count = None,
    ) -> AssertionHandle:
        """The tool was called: all conditions hold for the same call, `count` counts such calls. Channel: actions.

        `name` is the agent's own or a canonical one. `input` and `output` use the matching language: a mapping matches
        deeply and partially, a pattern is searched, a callable decides.
        """
        query = self._query("called_tool", name, input=input, output=output, status=status, count=count)
        return self._record(f'called_tool("{name}")', lambda scope: calls.called(scope, query, count, kind="tool"))

    def not_called_tool(
        self, name: str, *, input: Any = UNSET, output: Any = UNSET, status: StatusFilter = None
    ) -> AssertionHandle:
        """No call satisfies all conditions. Channel: actions."""
        query = self._query("not_called_tool", name, input=input, output=output, status=status)
        return self._record(f'not_called_tool("{name}")', lambda scope: calls.not_called(scope, query))

    def tool_order(self, names: Sequence[str]) -> AssertionHandle:
        """The tools were called in this order, gaps allowed. Channel: actions."""
        wanted = self._names("tool_order", names)
        return self._record(f"tool_order({wanted})", lambda scope: calls.tool_order(scope, wanted))

    def used_no_tools(self) -> AssertionHandle:
        """No tool was called. Channel: actions."""
        return self._record("used_no_tools", calls.used_no_tools)

    def max_tool_calls(self, limit: int) -> AssertionHandle:
        """At most this many tool calls. Channel: actions."""
        if type(limit) is not int or limit < 0:
            raise self._bad("max_tool_calls", "limit", limit, "give an int >= 0")
        return self._record(f"max_tool_calls({limit})", lambda scope: calls.max_tool_calls(scope, limit))

    def loaded_skill(self, name: str) -> AssertionHandle:
        """The skill was loaded: the action `load_skill` with input `{"skill": name}`. Channel: actions."""
        query = self._query("loaded_skill", calls.LOAD_SKILL, input={"skill": name})
        return self._record(f'loaded_skill("{name}")', lambda scope: calls.called(scope, query, None, kind="tool"))

    def called_subagent(
        self,
        name: str,
        *,
        remote_url: Any = UNSET,
        output: Any = UNSET,
        status: StatusFilter = None,
        count: Count = None,
    ) -> AssertionHandle:
        """The subagent was called; conditions as for `called_tool`. Channel: actions."""
        query = self._query("called_subagent", name, remote_url=remote_url, output=output, status=status, count=count)
        return self._record(
            f'called_subagent("{name}")', lambda scope: calls.called(scope, query, count, kind="subagent")
        )

    def no_failed_actions(self) -> AssertionHandle:
        """No tool or subagent call failed; a human's refusal is not a failure. Channel: actions."""
        return self._record("no_failed_actions", calls.no_failed_actions)

    # Usage

    def max_tokens(self, limit: int) -> AssertionHandle:
        """Input plus output tokens, cache buckets not counted. Channel: usage."""
        if type(limit) is not int or limit < 0:
            raise self._bad("max_tokens", "limit", limit, "give an int >= 0")
        return self._record(f"max_tokens({limit})", lambda scope: state.max_tokens(scope, limit))

    def max_cost(self, usd: float | Decimal) -> AssertionHandle:
        """At most this many US dollars: measured, else priced; without a price `unavailable`. Channel: usage."""
        if type(usd) not in (int, float, Decimal) or not math.isfinite(usd) or usd < 0:
            raise self._bad("max_cost", "usd", usd, "give US dollars >= 0")
        limit = Decimal(str(usd))
        return self._record(f"max_cost({usd})", lambda scope: state.max_cost(scope, limit))

    # Arguments

    def _query(
        self, call: str, name: object, *, count: Count = None, status: Any = None, **conditions: Any
    ) -> CallQuery:
        if not isinstance(name, str) or not name:
            raise self._bad(call, "name", name, "give the tool's name")
        if status is not None and status not in _STATUSES:
            raise self._bad(call, "status", status, "it is one of " + ", ".join(_STATUSES))
        self._valid(validate_count, count, call)
        return CallQuery(name=name, status=status, **conditions)

    def _names(self, call: str, names: object) -> list[str]:
        if isinstance(names, str) or not isinstance(names, Sequence) or not names:
            raise self._bad(call, "the list", names, "give a non-empty list of names")
        for name in names:
            if not isinstance(name, str) or not name:
                raise self._bad(call, "a name", name, "names are text")
        return list(names)

    def _valid(self, check: Callable[..., None], *arguments: object) -> None:
        try:
            check(*arguments)
        except AuthorError as error:
            raise self._fault(error) from None

    def _bad(self, call: str, argument: str, given: object, fix: str) -> BaseException:
        return self._fault(
            AuthorError("bad-argument", call=call, argument=argument, problem=f"is {given!r:.80}", fix=fix)
        )


def _shown(text: str | re.Pattern[str]) -> str:
    if isinstance(text, re.Pattern):
        return f"/{text.pattern}/"
    return f'"{text}"' if len(text) <= 60 else f'"{text[:60]}…"'
