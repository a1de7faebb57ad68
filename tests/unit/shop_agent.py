"""A small agent that keeps the whole adapter contract, and can be broken in one place at a time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    Agent,
    AgentContext,
    EvidenceCoverage,
    InputOption,
    InputRequest,
    InputRequested,
    Message,
    StreamEvent,
    Turn,
    TurnInput,
    Usage,
    complete_evidence_coverage,
    define_agent,
)
from niceeval.adapter import SessionSlot as Slot
from niceeval.expect import includes
from niceeval.testing import Probes

OPTIONS = (InputOption(id="approve"), InputOption(id="reject"))


class Stock(TypedDict):
    left: int


PROBES = Probes(
    tool="How many umbrellas are left?",
    failing_tool="How many unicorns are left?",
    memory=("My name is Kari.", "What is my name?", includes("Kari")),
    approval="Order an umbrella and a raincoat.",
    output=("How many umbrellas are left?", Stock),
    slow="Count them all.",
)


@dataclass(slots=True)
class Conversation:
    """What one conversation line knows: a name, how many calls it made, and the call of each open question."""

    name: str | None = None
    calls: int = 0
    open: dict[str, ActionCalled] = field(default_factory=dict)


CONVERSATION = Slot[Conversation]("conversation", default=Conversation)
Find = Callable[[AgentContext], Conversation]
Pair = Callable[[TurnInput, Conversation], dict[str, str]]


def on_the_session(ctx: AgentContext) -> Conversation:
    return ctx.session.get(CONVERSATION)


def by_request(input: TurnInput, conversation: Conversation) -> dict[str, str]:
    """The answer to each open question, by its id."""
    return {response.request_id: response.option_id or "" for response in input.responses}


@dataclass(slots=True, kw_only=True)
class Shop:
    """The agent. `find` says where a conversation is kept, `pair` how answers find their questions, `refused` what a
    refused call is; `before` runs first in every send, `after` changes the turn, `busy` is the slow turn.
    """

    coverage: EvidenceCoverage = complete_evidence_coverage
    find: Find = on_the_session
    pair: Pair = by_request
    refused: str = "rejected"
    before: Callable[[TurnInput, AgentContext], Any] = lambda input, ctx: None
    after: Callable[[TurnInput, Turn], Turn] = lambda input, turn: turn
    busy: Callable[[AgentContext], Any] = lambda ctx: asyncio.sleep(30)
    setup: Callable[[AgentContext], None] = lambda ctx: None
    teardown: Callable[[AgentContext], None] = lambda ctx: None
    sessions: int = 0

    def agent(self) -> Agent:
        return define_agent(
            name="shop",
            evidence_coverage=self.coverage,
            send=self.send,
            setup=self.setup,
            teardown=self.teardown,
        )

    async def send(self, input: TurnInput, ctx: AgentContext) -> Turn:
        pause = self.before(input, ctx)
        if pause is not None:
            await pause
        if ctx.session.id is None:
            self.sessions += 1
            ctx.session.capture(f"s{self.sessions}")
        if input.text == PROBES.slow:
            await self.busy(ctx)
        conversation = self.find(ctx)
        await asyncio.sleep(0)
        turn = self.answer(input, conversation)
        usage = Usage(input_tokens=len(input.text), output_tokens=5, reasoning_tokens=2)
        return self.after(input, replace(turn, usage=usage))

    def answer(self, input: TurnInput, conversation: Conversation) -> Turn:
        if input.responses:
            return self.settle(self.pair(input, conversation), conversation)
        conversation.open.clear()
        if told := re.search(r"My name is (\w+)", input.text):
            conversation.name = told[1]
            return said("I shall remember.")
        if "What is my name" in input.text:
            return said(conversation.name or "I do not know.")
        if "Order" in input.text:
            return self.ask(conversation)
        if found := re.search(r"How many (\w+)", input.text):
            return self.look_up(found[1], input, conversation)
        return said("Hello, what shall it be?")

    def look_up(self, item: str, input: TurnInput, conversation: Conversation) -> Turn:
        called = call(conversation, "stock", item)
        if item == "unicorns":
            result = ActionResult(call_id=called.call_id, status="failed", output="no such item")
            return said("There are none.", called, result)
        result = ActionResult(call_id=called.call_id, status="completed", output={"left": 3})
        data = {"left": 3} if input.output_schema is not None else None
        return replace(said("Three.", called, result), data=data)

    def ask(self, conversation: Conversation) -> Turn:
        events: list[StreamEvent] = []
        for number, item in enumerate(("umbrella", "raincoat")):
            called = call(conversation, "order", item)
            conversation.open[f"q{number}"] = called
            request = InputRequest(
                id=f"q{number}", action="order", input=called.input, prompt=f"Order the {item}?", options=OPTIONS
            )
            events += [called, InputRequested(request=request)]
        return Turn(events=events, status="waiting")

    def settle(self, answers: dict[str, str], conversation: Conversation) -> Turn:
        results: list[StreamEvent] = []
        for id, called in conversation.open.items():
            status: Any = "completed" if answers[id] == "approve" else self.refused
            results.append(ActionResult(call_id=called.call_id, status=status))
        conversation.open.clear()
        return said("Done.", *results)


def call(conversation: Conversation, tool: str, item: str) -> ActionCalled:
    conversation.calls += 1
    return ActionCalled(call_id=f"c{conversation.calls}", name=tool, input={"item": item})


def said(text: str, *before: StreamEvent) -> Turn:
    return Turn(events=[*before, Message(role="assistant", text=text)])
