"""The loop: ask the model, run the tools that it calls and tell it, until it is done or a human is asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from niceeval._base.errors import AdapterError
from niceeval._model.agent import AgentContext, SessionSlot
from niceeval._model.coverage import Coverage, EvidenceCoverage
from niceeval._model.events import (
    InputOption,
    InputRequest,
)
from niceeval._model.failure import RetryableSendError
from niceeval._model.turn import Turn, TurnStatus
from niceeval._model.turn_input import InputResponse, TurnInput
from niceeval.http_service import Answer
from niceeval.tool_loop.line import LAPSED, NOT_RUN, REJECTED, Line, Settled, WantedCall
from niceeval.tool_loop.replay import replay
from niceeval.tool_loop.settings import EndpointSettings
from niceeval.turn_building import Collected, TurnBuilder

S = TypeVar("S")

APPROVAL_OPTIONS: Final = (InputOption(id="approve", label="Approve"), InputOption(id="reject", label="Reject"))
"""How a request for approval can be answered."""
MAX_TRIES: Final = 4
"""How often the model is asked to go on after tools were run: the whole turn cannot be sent again then."""
MAX_WAIT: Final = 30.0
"""Seconds between two of these tries, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One answer of the model. `calls` are those that the adapter is to make, where nothing of the answer is missing
    (`whole`)."""

    collected: Collected
    calls: Sequence[WantedCall] = ()
    whole: bool = True


class Dialect(Protocol[S]):
    """A protocol: what a conversation is made of, and how it is asked and read. `S` is copied with `copy.copy`."""

    def begin(self) -> S:
        """A conversation in which nothing was said."""
        ...

    def say(self, state: S, given: TurnInput) -> None:
        """Add what the user says. Raises AdapterError `agent-input` for what the protocol has no place for."""
        ...

    def tell(self, state: S, settled: Sequence[Settled]) -> None:
        """Add what the calls of the last answer came to."""
        ...

    def answer_request(self, state: S, request_id: str, *, approved: bool, reason: str | None) -> bool:
        """Add the answer to a request of the endpoint's own; False where there is none of this id. The request's id is
        that of the call in the events: one that is approved has its result in the next answer."""
        ...

    def open_requests(self, state: S) -> Sequence[InputRequest]:
        """Requests of the endpoint's own that have no answer yet."""
        ...

    def lapse(self, state: S) -> None:
        """The user goes on: requests of the endpoint's own lapse."""
        ...

    def request(self, state: S, given: TurnInput, ctx: AgentContext) -> dict[str, Any]:
        """The body of the next request."""
        ...

    async def read(self, answer: Answer, state: S, given: TurnInput) -> Answered:
        """Read an answer, and add what it says to the conversation."""
        ...


class ToolLoop(Generic[S]):
    """Drives one endpoint; its `send` is an agent's."""

    def __init__(
        self, settings: EndpointSettings, dialect: Dialect[S], declared: EvidenceCoverage | Mapping[str, Coverage]
    ) -> None:
        self._settings = settings
        self._tools = settings.client_tools
        self._dialect = dialect
        self._declared = declared
        self._slot: SessionSlot[Line[S]] = SessionSlot("tool-loop", default=lambda: Line(dialect.begin()))

    async def send(self, input: TurnInput, ctx: AgentContext) -> Turn:
        """One turn. What it says is kept on the session only when the endpoint took it."""
        line = ctx.session.get(self._slot).draft()
        turn = _Running(self._settings, self._dialect, line, TurnBuilder(self._declared), input, ctx)
        if input.responses:
            await turn.answer(input.responses)
        else:
            turn.say()
        status = await turn.go_on()
        ctx.session.set(self._slot, line)
        return turn.builder.build(status).report(ctx)


class _Running(Generic[S]):
    """One turn while it runs."""

    def __init__(
        self,
        settings: EndpointSettings,
        dialect: Dialect[S],
        line: Line[S],
        builder: TurnBuilder,
        given: TurnInput,
        ctx: AgentContext,
    ) -> None:
        self.builder = builder
        self._settings = settings
        self._tools = settings.client_tools
        self._dialect = dialect
        self._line = line
        self._given = given
        self._ctx = ctx
        self._tools_ran = False

    # What the user does ----------------------------------------------------------------------------------------------

    def say(self) -> None:
        """A user's message; whatever was asked before lapses."""
        for id, call in self._line.open.items():
            self.builder.result(id, None, "rejected")
            self._line.settled.append(Settled(call=call, text=LAPSED))
        self._line.open.clear()
        for request in self._dialect.open_requests(self._line.state):
            self.builder.result(request.id, None, "rejected")
        self._dialect.lapse(self._line.state)
        self._tell()
        self._dialect.say(self._line.state, self._given)

    async def answer(self, responses: Sequence[InputResponse]) -> None:
        """A human's answers. Nothing is run before all of them are known to answer something."""
        for response in responses:
            if response.request_id not in self._line.open and not self._answer_endpoint(response):
                raise AdapterError(
                    "agent-input",
                    agent=self._settings.name,
                    problem=f"nothing was asked as {response.request_id!r}",
                    fix="answer a request of the last turn",
                )
        for response in responses:
            call = self._line.open.pop(response.request_id, None)
            if call is None:
                continue
            if response.option_id == "approve":
                await self._run(response.request_id, call)
            else:
                self.builder.result(response.request_id, response.text, "rejected")
                text = f"{REJECTED} {response.text}" if response.text else REJECTED
                self._line.settled.append(Settled(call=call, text=text))

    def _answer_endpoint(self, response: InputResponse) -> bool:
        id, approved = response.request_id, response.option_id == "approve"
        found = self._dialect.answer_request(self._line.state, id, approved=approved, reason=response.text)
        if found and not approved:
            self.builder.result(id, response.text, "rejected")
        return found

    # What the model does ---------------------------------------------------------------------------------------------

    async def go_on(self) -> TurnStatus:
        """Ask until there is an answer, or a question to a human."""
        if self._still_waiting():
            return "waiting"
        self._tell()
        for _ in range(self._settings.max_steps):
            answered = await self._ask()
            ids = {call.wire_id: self._line.event_id(call.wire_id) for call in answered.calls}
            replay(answered.collected, self.builder, ids, closed_here=answered.whole and bool(self._tools))
            status = answered.collected.turn.status
            if not answered.whole or status == "failed":
                return status
            for call in answered.calls:
                await self._settle(ids[call.wire_id], call)
            if self._line.open or status == "waiting":
                return "waiting"
            if not answered.calls or not self._tools:
                return status
            self._tell()
        self.builder.failed(f"the model still called tools after {self._settings.max_steps} answers", said=False)
        return "failed"

    async def _settle(self, id: str, call: WantedCall) -> None:
        if not self._tools:
            message = "the model called tools, and nothing here runs them: tools=[...] gives the adapter functions"
            self.builder.diagnostic("call-not-run", message)
            self._line.settled.append(Settled(call=call, text=NOT_RUN))
        elif self._tools.asks(call.name):
            self._line.open[id] = call
            self.builder.requested(_request(id, call))
        else:
            await self._run(id, call)

    async def _run(self, id: str, call: WantedCall) -> None:
        self._tools_ran = True
        outcome = await self._tools.run(call.name, call.arguments)
        self.builder.result(id, outcome.output, outcome.status)
        self._line.settled.append(Settled(call=call, text=outcome.text))

    def _still_waiting(self) -> bool:
        own = [_request(id, call) for id, call in self._line.open.items()]
        requests = [*own, *self._dialect.open_requests(self._line.state)]
        for request in requests:
            self.builder.requested(request)
        return bool(requests)

    def _tell(self) -> None:
        if self._line.settled:
            self._dialect.tell(self._line.state, self._line.settled)
            self._line.settled = []

    async def _ask(self) -> Answered:
        body = self._settings.body(self._dialect.request(self._line.state, self._given, self._ctx), self._ctx)
        headers, url = self._settings.key_headers(), self._settings.address()
        tries = 0
        while True:
            try:
                async with self._settings.service.post(body, self._ctx, url=url, headers=headers) as answer:
                    return await self._dialect.read(answer, self._line.state, self._given)
            except RetryableSendError as error:
                if not self._tools_ran:
                    raise
                tries += 1
                if tries == MAX_TRIES:
                    problem = f"{error} (tools had been run, so that the turn cannot be sent again)"
                    raise AdapterError("service-failed", service=self._settings.name, problem=problem) from None
                wait = 2.0 ** (tries - 1) if error.retry_after is None else error.retry_after
                self._ctx.log(f"asked to wait before going on: {error}")
                await asyncio.sleep(min(wait, MAX_WAIT))


async def json_events(answer: Answer, done: str = "[DONE]") -> AsyncIterator[Mapping[str, Any]]:
    """The objects of a stream of events. One that is no object, or a stream that was cut, raises ValueError: whatever
    reads it keeps what came."""
    async for event in answer.events():
        if event.data.strip() == done:
            return
        try:
            found = json.loads(event.data)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ValueError("an event of the stream is no JSON object")
        yield found
    if answer.cut is not None:
        raise ValueError(answer.cut)


def _request(id: str, call: WantedCall) -> InputRequest:
    return InputRequest(id=id, action=call.name, input=call.arguments, options=APPROVAL_OPTIONS)
