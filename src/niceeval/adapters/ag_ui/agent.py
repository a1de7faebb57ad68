"""An agent behind an endpoint that speaks AG-UI."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from niceeval.adapter import (
    AdapterError,
    Agent,
    AgentContext,
    Coverage,
    EvidenceCoverage,
    SessionSlot,
    Turn,
    TurnInput,
    define_agent,
)
from niceeval.adapters.ag_ui._thread import Fold, JsonObject, Thread, resume_entry, user_message
from niceeval.converters.ag_ui import Reading, coverage
from niceeval.http_service import EVENT_STREAM, Answer, HttpService

if TYPE_CHECKING:
    import httpx2

PROTOCOL: Final = "1.0"
"""The version of the protocol that is spoken."""
_THREAD: SessionSlot[Thread] = SessionSlot("ag-ui-thread", default=Thread)

Forwarded = Mapping[str, Any] | Callable[[TurnInput, AgentContext], Mapping[str, Any]]
"""`forwardedProps` of each run: fixed ones, or made for each turn."""


def ag_ui_agent(
    url: str,
    *,
    name: str = "ag-ui",
    headers: Mapping[str, str] | None = None,
    forwarded_props: Forwarded | None = None,
    state: Any = None,
    context: Sequence[Mapping[str, str]] = (),
    reports_usage: bool = False,
    timeout: float = 600.0,
    version: str | Callable[[], str] | None = None,
    secret_env: Sequence[str] = (),
    transport: httpx2.AsyncBaseTransport | None = None,
) -> Agent:
    """A service that speaks AG-UI: `ag_ui_agent("http://127.0.0.1:8000/agent")`.

    `headers` go with each request (a key belongs here; name its variable in `secret_env`). `forwarded_props` are the
    run's `forwardedProps`, also as a callable `(input, ctx) -> mapping`, which is where a model or an effort can be
    put. `state` is the state that each conversation begins with, `context` the run's `context` (`description`,
    `value`). `reports_usage`: the service says the tokens of every run. `timeout`: seconds of silence that end a
    request. `transport` replaces the network, for tests.

    Raises AdapterError `extra-missing` without the extra `http`.
    """
    service = HttpService(
        url, name=name, headers={"accept": EVENT_STREAM, **(headers or {})}, timeout=timeout, transport=transport
    )
    driver = _Driver(name, service, forwarded_props, {} if state is None else state, context)
    declared = EvidenceCoverage(
        **{channel: found for channel, found in coverage.items() if channel != "usage"},
        usage=Coverage.complete if reports_usage else coverage["usage"],
    )
    return define_agent(name=name, evidence_coverage=declared, send=driver.send, version=version, secret_env=secret_env)


class _Driver:
    def __init__(
        self,
        name: str,
        service: HttpService,
        forwarded: Forwarded | None,
        state: Any,
        context: Sequence[Mapping[str, str]],
    ) -> None:
        self._name = name
        self._service = service
        self._forwarded = forwarded
        self._state = state
        self._context = [dict(entry) for entry in context]

    async def send(self, input: TurnInput, ctx: AgentContext) -> Turn:
        """One turn: a user's message, or the answers to what the run waits for."""
        thread = ctx.session.get(_THREAD)
        if ctx.session.id is None:
            ctx.session.capture(thread.id)
            thread.state = self._state
        messages, resume, refused = self._given(thread, input)
        payload = {
            "threadId": thread.id,
            "runId": uuid.uuid4().hex,
            "protocolVersion": PROTOCOL,
            "state": thread.state,
            "messages": messages,
            "tools": [],
            "context": self._context,
            "forwardedProps": self._forwarded_props(input, ctx),
            **({"resume": resume} if resume else {}),
        }
        reading = Reading(
            open_calls=thread.open_calls if resume else (),
            refused=refused,
            known_messages=[str(message.get("id")) for message in messages],
        )
        fold = Fold(messages, thread.state)
        async with self._service.post(payload, ctx) as answer:
            await self._read(answer, reading, fold)
            cut = answer.cut
        done = reading.finish(cut)
        thread.messages, thread.state = fold.messages, fold.state
        thread.interrupts = {str(interrupt["id"]): interrupt for interrupt in reading.interrupts}
        thread.open_calls = reading.unanswered
        if fold.problem is not None:
            ctx.diagnostic("state-not-followed", "warning", fold.problem)
        return done.report(ctx)

    def _given(self, thread: Thread, given: TurnInput) -> tuple[list[JsonObject], list[JsonObject], frozenset[str]]:
        """The messages, the answers, and the ids of the calls that are refused by them."""
        if given.output_schema is not None:
            raise self._no_place("an output schema", "ask for JSON in the text, and check t.reply")
        if not given.responses:
            return [*thread.messages, user_message(given)], [], frozenset()
        entries, refused = [], set()
        for response in given.responses:
            interrupt = thread.interrupts.get(response.request_id)
            if interrupt is None:
                raise self._no_place("an answer to what was not asked", "answer a request of the last turn")
            entry = resume_entry(interrupt, response)
            entries.append(entry)
            if isinstance(entry["payload"], dict) and entry["payload"].get("approved") is False:
                refused.add(str(interrupt.get("toolCallId")))
        return list(thread.messages), entries, frozenset(refused)

    async def _read(self, answer: Answer, reading: Reading, fold: Fold) -> None:
        answer.require_events()
        async for event in answer.events():
            reading.add(event.data)
            if reading.full:
                return
            found = _event(event.data)
            if found is not None:
                fold.add(found)

    def _forwarded_props(self, given: TurnInput, ctx: AgentContext) -> Mapping[str, Any]:
        if callable(self._forwarded):
            return self._forwarded(given, ctx)
        for what, value in (("model", ctx.model), ("reasoning effort", ctx.reasoning_effort), ("flags", ctx.flags)):
            if value:
                ctx.diagnostic(
                    "input-not-passed",
                    "warning",
                    f"the protocol has no place for the {what}: pass it with `forwarded_props=`",
                )
        return self._forwarded or {}

    def _no_place(self, what: str, fix: str) -> AdapterError:
        return AdapterError("agent-input", agent=self._name, problem=f"the protocol has no place for {what}", fix=fix)


def _event(data: str) -> Mapping[str, Any] | None:
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None
