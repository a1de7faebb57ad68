"""The conformance kit passes an agent that keeps the contract, and names what another one breaks."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from niceeval._base.errors import AdapterError, AuthorError
from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    Agent,
    AgentContext,
    Coverage,
    EvidenceCoverage,
    InputFile,
    InputRequest,
    InputRequested,
    Message,
    SubagentCompleted,
    Turn,
    TurnInput,
    Usage,
    define_agent,
    define_sandbox_agent,
)
from niceeval.expect import includes
from niceeval.testing import Approval, EventRef, Probes, Report, check_agent, check_agent_sync
from tests.unit.shop_agent import PROBES, Conversation, Shop, on_the_session, said

Change = Callable[[TurnInput, Turn], Turn]


def run(agent: Agent, probes: Probes = PROBES, **options: Any) -> Report:
    return check_agent_sync(agent, probes, **{"model": "m", "grace": 0.3, "timeout": 10.0, **options})


def failing(agent: Agent, probes: Probes = PROBES, **options: Any) -> set[str]:
    return {finding.check for finding in run(agent, probes, **options).failed}


# Agents that are broken in one place --------------------------------------------------------------------------------


def after(change: Change) -> Agent:
    """The shop, with every turn changed before it is returned."""
    return Shop(after=change).agent()


def adding(*events: Any) -> Agent:
    return after(lambda input, turn: replace(turn, events=[*turn.events, *events]))


def mapping(change: Callable[[Any], Any], on: str = "How many") -> Agent:
    """The shop, with each event of a turn that calls a tool changed, or left out (None)."""

    def changed(input: TurnInput, turn: Turn) -> Turn:
        if on not in input.text:
            return turn
        return replace(turn, events=[new for event in turn.events if (new := change(event)) is not None])

    return after(changed)


def declaring(**worse: Coverage) -> Shop:
    return Shop(coverage=EvidenceCoverage.complete_except(**worse))


def raising(when: Callable[[TurnInput, AgentContext], object]) -> Agent:
    def before(input: TurnInput, ctx: AgentContext) -> None:
        if when(input, ctx):
            raise RuntimeError("refused by the service")

    return Shop(before=before).agent()


def without_declaration() -> Agent:
    return replace(Shop().agent(), evidence_coverage=EvidenceCoverage(events=Coverage.complete))


def with_usage(**counts: int) -> Agent:
    shop = declaring(usage=Coverage.partial("counts are guessed"))
    shop.after = lambda input, turn: replace(turn, usage=Usage(**counts))
    return shop.agent()


def claiming_more() -> Agent:
    shop = declaring(usage=Coverage.partial("often left out"))
    shop.after = lambda input, turn: replace(turn, evidence_coverage={"usage": Coverage.complete})
    return shop.agent()


def silent_on_plain_text() -> Agent:
    return after(lambda input, turn: replace(turn, events=[]) if input.text == PROBES.hello else turn)


def failing_on_plain_text() -> Agent:
    return after(lambda input, turn: replace(turn, status="failed") if input.text == PROBES.hello else turn)


def echoing() -> Agent:
    return after(lambda input, turn: replace(turn, events=[Message(role="assistant", text=input.text), *turn.events]))


def repeating_the_user() -> Agent:
    return after(lambda input, turn: replace(turn, events=[*turn.events, Message(role="user", text=input.text)]))


def leaving_a_call_open() -> Agent:
    def changed(input: TurnInput, turn: Turn) -> Turn:
        extra = ActionCalled(call_id=f"open-{time.monotonic_ns()}", name="stock", input={})
        return replace(turn, events=[extra, *turn.events]) if "umbrellas" in input.text else turn

    return after(changed)


def answering_twice() -> Agent:
    def twice(input: TurnInput, turn: Turn) -> Turn:
        results = [event for event in turn.events if isinstance(event, ActionResult)]
        return replace(turn, events=[*turn.events, *results]) if "How many" in input.text else turn

    return after(twice)


def answering_early() -> Agent:
    shop = declaring(actions=Coverage.partial("some are not shown"), events=Coverage.partial("some are not shown"))

    def reversed_calls(input: TurnInput, turn: Turn) -> Turn:
        return replace(turn, events=[*reversed(turn.events)]) if "How many" in input.text else turn

    shop.after = reversed_calls
    return shop.agent()


def counting_from_one_in_each_turn() -> Agent:
    def find(ctx: AgentContext) -> Conversation:
        conversation = on_the_session(ctx)
        conversation.calls = 0
        return conversation

    return Shop(find=find).agent()


def forgetful() -> Agent:
    def find(ctx: AgentContext) -> Conversation:
        conversation = on_the_session(ctx)
        conversation.name = None
        return conversation

    return Shop(find=find).agent()


def gossiping() -> Agent:
    """A line's first turn begins with what the line before knew."""
    last: list[Conversation] = [Conversation()]
    known: set[int] = set()

    def find(ctx: AgentContext) -> Conversation:
        conversation = on_the_session(ctx)
        if id(ctx.session) not in known:
            conversation.name = last[0].name
            known.add(id(ctx.session))
        last[0] = conversation
        return conversation

    shop = Shop(find=find)

    def forget_after_hello(input: TurnInput, turn: Turn) -> Turn:
        if input.text == PROBES.hello:
            last[0].name = None
        return turn

    shop.after = forget_after_hello
    return shop.agent()


def with_one_current_session() -> Agent:
    """The conversation is found on the adapter, after a pause in which another send may have begun."""
    current: list[AgentContext] = []

    async def pause(ctx: AgentContext) -> None:
        current[:] = [ctx]
        await asyncio.sleep(0)

    shop = Shop(before=lambda input, ctx: pause(ctx))
    shop.find = lambda ctx: on_the_session(current[0])
    return shop.agent()


def with_one_session_id() -> Agent:
    return Shop(before=lambda input, ctx: ctx.session.capture("the-only-one") and None).agent()


def changing_its_session_id() -> Agent:
    def assign(input: TurnInput, ctx: AgentContext) -> None:
        ctx.session.id = f"{id(ctx)}-{time.monotonic_ns()}"

    return Shop(before=assign).agent()


def returning_the_history(kind: type) -> Agent:
    """Every turn begins with what the line's turns before had of one kind, under new ids."""
    seen: dict[int, list[Any]] = {}
    kept: list[Any] = []
    shop = Shop()

    async def send(input: TurnInput, ctx: AgentContext) -> Turn:
        turn = await shop.send(input, ctx)
        before = seen.setdefault(id(ctx.session), [])
        kept.append(ctx.session)
        again = [_under_a_new_id(event, f"again-{len(kept)}") for event in before]
        before.extend(event for event in turn.events if isinstance(event, kind))
        return replace(turn, events=[*(event for pair in again for event in pair), *turn.events])

    return replace(shop.agent(), send=send)


def _under_a_new_id(event: Any, prefix: str) -> list[Any]:
    if isinstance(event, Message):
        return [event]
    id = f"{prefix}-{event.call_id}"
    called = ActionCalled(call_id=id, name=event.name, input=event.input)
    return [called, ActionResult(call_id=id, status="completed")]


def answering_the_latest() -> Agent:
    """What is asked for is found on the adapter, after a pause in which another attempt's send may have begun."""
    shop, latest = Shop(), [""]

    async def send(input: TurnInput, ctx: AgentContext) -> Turn:
        latest[0] = input.text
        await asyncio.sleep(0)
        together = ctx.eval_id.startswith("parallel-")
        return await shop.send(replace(input, text=latest[0]) if together else input, ctx)

    return replace(shop.agent(), send=send)


def repeating_the_word(word: Callable[[str], str]) -> Agent:
    """An agent that does end its answer with the word that it is asked for, or with another one."""

    def changed(input: TurnInput, turn: Turn) -> Turn:
        found = re.search(r"the word (\S+)\.", input.text)
        return turn if found is None else replace(turn, events=said(f"Hello. {word(found[1])}").events)

    return after(changed)


def for_two_at_most() -> Agent:
    running = 0

    async def limit() -> None:
        nonlocal running
        running += 1
        try:
            if running > 2:
                raise RuntimeError("too many connections")
            # Long enough for sends to meet on a busy machine as well.
            await asyncio.sleep(0.02)
        finally:
            running -= 1

    return Shop(before=lambda input, ctx: limit()).agent()


def asking_without_words() -> Agent:
    def bare(input: TurnInput, turn: Turn) -> Turn:
        events = [
            InputRequested(request=InputRequest(id=event.request.id, options=event.request.options))
            if isinstance(event, InputRequested)
            else event
            for event in turn.events
        ]
        return replace(turn, events=events)

    return after(bare)


def never_asking() -> Agent:
    def settled(input: TurnInput, turn: Turn) -> Turn:
        events = said("I never ask.").events
        return replace(turn, events=events, status="completed") if turn.status == "waiting" else turn

    return after(settled)


def pairing_by_place(input: TurnInput, conversation: Conversation) -> dict[str, str]:
    answers = [response.option_id or "" for response in input.responses]
    return dict(zip(conversation.open, answers, strict=True))


def with_global_questions() -> Agent:
    """Open questions are kept on the adapter, so that a second line's replace those of the first."""
    everywhere = Conversation()

    def find(ctx: AgentContext) -> Conversation:
        own = on_the_session(ctx)
        own.open = everywhere.open
        return own

    return Shop(find=find).agent()


def refusing_to_move_on() -> Agent:
    waiting: set[int] = set()

    def before(input: TurnInput, ctx: AgentContext) -> None:
        if id(ctx.session) in waiting and not input.responses:
            raise RuntimeError("a question is open")
        waiting.discard(id(ctx.session))
        if "Order" in input.text:
            waiting.add(id(ctx.session))

    return Shop(before=before).agent()


def telling_the_file() -> Agent:
    def leak(input: TurnInput, turn: Turn) -> Turn:
        if not input.files:
            return turn
        called = ActionCalled(call_id="file", name="read", input={"url": "data:;base64," + input.files[0].base64()})
        result = ActionResult(call_id="file", status="completed")
        return replace(turn, events=[called, result, *turn.events])

    return after(leak)


def with_data(change: Callable[[Any], Any]) -> Agent:
    return after(lambda input, turn: replace(turn, data=change(turn.data)) if turn.data is not None else turn)


def tearing_down_everything() -> Agent:
    open_connection = [True]

    def closed(input: TurnInput, ctx: AgentContext) -> None:
        if not open_connection and ctx.session.id is not None:
            raise RuntimeError("the connection is closed")

    return Shop(
        before=closed,
        setup=lambda ctx: open_connection.__setitem__(slice(None), [True]),
        teardown=lambda ctx: open_connection.clear(),
    ).agent()


def with_bad_hook(ctx: AgentContext) -> None:
    raise RuntimeError("no such container")


async def swallowing(ctx: AgentContext) -> None:
    for _ in range(2):
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            continue


def holding_a_lock() -> Agent:
    held: list[bool] = []

    async def busy(ctx: AgentContext) -> None:
        held.append(True)
        await asyncio.sleep(30)
        held.clear()

    def before(input: TurnInput, ctx: AgentContext) -> None:
        if held:
            raise RuntimeError("locked")

    return Shop(before=before, busy=busy).agent()


async def leaving_a_task(ctx: AgentContext) -> None:
    asyncio.ensure_future(asyncio.sleep(30))  # noqa: RUF006 - left alone on purpose
    await asyncio.sleep(30)


async def logging_late(ctx: AgentContext) -> None:
    async def later() -> None:
        await asyncio.sleep(0.02)
        ctx.log("still here")

    try:
        await asyncio.sleep(30)
    finally:
        asyncio.ensure_future(later())  # noqa: RUF006 - left alone on purpose


def blocking_once() -> Agent:
    blocked: list[bool] = []

    def before(input: TurnInput, ctx: AgentContext) -> None:
        if not blocked:
            blocked.append(True)
            time.sleep(1.7)

    return Shop(before=before).agent()


def usage(**counts: Any) -> Agent:
    return after(lambda input, turn: replace(turn, usage=Usage(**counts)))


def nothing(input: TurnInput, ctx: AgentContext) -> Any:
    return None


def event_of_its_own() -> dict[str, Any]:
    return {"type": "telemetry", "value": 1}


BROKEN: dict[str, tuple[str, Callable[[], Agent]]] = {
    "channels left out": ("coverage-declared", without_declaration),
    "a whole stream without its parts": (
        "coverage-consistent",
        lambda: declaring(actions=Coverage.partial("the last call only")).agent(),
    ),
    "always an error": ("turn-accepted", lambda: raising(lambda input, ctx: True)),
    "None instead of a turn": ("turn-accepted", lambda: replace(Shop().agent(), send=nothing)),
    "a plain text fails": ("turn-completes", failing_on_plain_text),
    "NaN in an input": (
        "values-plain",
        lambda: mapping(
            lambda event: (
                ActionCalled(call_id=event.call_id, name="stock", input={"n": float("nan")})
                if isinstance(event, ActionCalled)
                else event
            )
        ),
    ),
    "an event of its own": ("event-types", lambda: adding(event_of_its_own())),
    "a question in a completed turn": (
        "requests-wait",
        lambda: adding(InputRequested(request=InputRequest(id="extra", prompt="Really?"))),
    ),
    "data always": ("data-only-when-asked", lambda: after(lambda input, turn: replace(turn, data={"left": 3}))),
    "a turn that claims more": ("turn-coverage", claiming_more),
    "usage that is no number": ("usage-sane", lambda: usage(input_tokens="9", output_tokens=5)),
    "more reasoning than output": ("usage-sane", lambda: usage(input_tokens=9, output_tokens=5, reasoning_tokens=6)),
    "zero for unknown": ("usage-sane", lambda: usage(input_tokens=0, output_tokens=5)),
    "no usage": ("usage-given", lambda: after(lambda input, turn: replace(turn, usage=None))),
    "usage without tokens": ("usage-given", lambda: usage(requests=1)),
    "no answer": ("messages-given", silent_on_plain_text),
    "the user's words as the agent's": ("no-echo", echoing),
    "the user's words again": ("no-echo", repeating_the_user),
    "no calls": (
        "tool-seen",
        lambda: mapping(lambda event: event if isinstance(event, Message) else None, on="umbrellas"),
    ),
    "a failure called a success": (
        "tool-failure-seen",
        lambda: mapping(
            lambda event: (
                ActionResult(call_id=event.call_id, status="completed") if isinstance(event, ActionResult) else event
            )
        ),
    ),
    "an error where a tool fails": ("tool-failure-seen", lambda: raising(lambda input, ctx: "unicorns" in input.text)),
    "a call without a result": ("calls-have-results", leaving_a_call_open),
    "a result without a call": ("results-have-calls", lambda: adding(ActionResult(call_id="?", status="completed"))),
    "a subagent's end without its call": (
        "results-have-calls",
        lambda: adding(SubagentCompleted(call_id="?", status="completed")),
    ),
    "two results": ("results-have-calls", answering_twice),
    "a result before its call": ("results-have-calls", answering_early),
    "call ids used again": ("call-ids-unique", counting_from_one_in_each_turn),
    "arguments as text": (
        "inputs-parsed",
        lambda: mapping(
            lambda event: (
                ActionCalled(call_id=event.call_id, name="stock", input=json.dumps(event.input))
                if isinstance(event, ActionCalled)
                else event
            )
        ),
    ),
    "a tool name of its own as canonical": (
        "tool-names",
        lambda: mapping(
            lambda event: (
                ActionCalled(call_id=event.call_id, name="stock", input={}, tool="stock")
                if isinstance(event, ActionCalled)
                else event
            )
        ),
    ),
    "no memory": ("remembers", forgetful),
    "a memory for everybody": ("fresh-line", gossiping),
    "one current session": ("lines-apart", with_one_current_session),
    "one session id": ("session-ids", with_one_session_id),
    "a session id for each turn": ("session-ids", changing_its_session_id),
    "two at most": ("parallel-sends", for_two_at_most),
    "a question without words": ("asks", asking_without_words),
    "no question": ("asks", never_asking),
    "an approval that raises": (
        "resumes",
        lambda: raising(lambda input, ctx: ctx.eval_id == "approve" and input.responses),
    ),
    "a refusal that fails": ("refusal-rejected", lambda: Shop(refused="failed").agent()),
    "answers by place": ("answers-by-request", lambda: Shop(pair=pairing_by_place).agent()),
    "questions on the adapter": ("questions-apart", with_global_questions),
    "no way round a question": ("moves-on", refusing_to_move_on),
    "an error with files": ("files-taken", lambda: raising(lambda input, ctx: input.files)),
    "a file in an event": ("files-taken", telling_the_file),
    "data as text": ("output-given", lambda: with_data(json.dumps)),
    "data of another shape": ("output-given", lambda: with_data(lambda data: {"rest": 3})),
    "no data": ("output-given", lambda: with_data(lambda data: None)),
    "known flags only": ("flags-tolerated", lambda: raising(lambda input, ctx: ctx.flags)),
    "a model at any rate": ("model-optional", lambda: raising(lambda input, ctx: ctx.model is None)),
    "a setup that fails": ("hooks-run", lambda: Shop(setup=with_bad_hook).agent()),
    "a teardown that fails": ("hooks-run", lambda: Shop(teardown=with_bad_hook).agent()),
    "a teardown for everybody": ("attempts-apart", tearing_down_everything),
    "no end": ("cancels", lambda: Shop(busy=swallowing).agent()),
    "a lock that is kept": ("recovers", holding_a_lock),
    "a task that stays": ("no-late-effects", lambda: Shop(busy=leaving_a_task).agent()),
    "a log line after the end": ("no-late-effects", lambda: Shop(busy=logging_late).agent()),
    "the history in every turn": ("turns-new", lambda: returning_the_history(Message)),
    "the calls in every turn": ("turns-new", lambda: returning_the_history(ActionCalled)),
    "one reply for all": ("replies-apart", answering_the_latest),
    "a neighbour's reply": ("replies-apart", lambda: repeating_the_word(lambda word: "probe-000")),
    "no tokens at all": ("usage-sane", lambda: with_usage(input_tokens=0, output_tokens=0)),
    "no tokens for an answer": ("usage-sane", lambda: with_usage(input_tokens=7, output_tokens=0)),
    "no tokens for a text": ("usage-sane", lambda: with_usage(input_tokens=0)),
    "a blocked loop": ("loop-free", blocking_once),
}


@pytest.mark.parametrize(("check", "make"), BROKEN.values(), ids=BROKEN)
def test_what_is_broken_is_the_one_thing_that_fails(check: str, make: Callable[[], Agent]) -> None:
    """Each broken agent fails the check of its fault, and no other one; the finding says what to do."""
    report = run(make())
    assert [finding.check for finding in report.failed] == [check], str(report)
    assert report[check].seen
    assert report[check].next


def test_a_good_agent_passes_everything() -> None:
    """An agent that keeps the contract passes each check, none left out, without a remark."""
    report = run(Shop().agent())
    assert [finding for finding in report if finding.outcome != "passed" or finding.seen] == [], str(report)
    report.raise_for_failures()


def test_an_agent_that_does_what_it_is_asked_for_tells_its_replies_apart() -> None:
    """Without a tool the words show whose reply is whose; nobody's word shows nothing."""
    probes = replace(PROBES, tool=None)
    assert run(repeating_the_word(lambda word: word), probes)["replies-apart"].outcome == "passed"
    assert run(repeating_the_word(lambda word: ""), probes)["replies-apart"].outcome == "not checked"


def test_zero_tokens_are_found_under_complete_usage() -> None:
    """A turn with an answer and no tokens at all counts nothing."""
    none = Usage(input_tokens=0, output_tokens=0)
    assert failing(after(lambda input, turn: replace(turn, usage=none))) == {"usage-sane"}


def test_every_check_is_shown_to_fail() -> None:
    """There is a broken agent for every check but the one that only remarks."""
    every = {finding.check for finding in run(Shop().agent())}
    assert every - {check for check, _ in BROKEN.values()} == {"coverage-modest"}


def test_the_document_has_every_check() -> None:
    """docs/conformance.md says of each check what it asks for."""
    text = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text("utf-8")
    listed = re.findall(r"^\| `([a-z-]+)` \|", text.partition("## Checks")[2].partition("\n## ")[0], re.M)
    assert listed == [finding.check for finding in run(Shop().agent())]


# What an adapter author gives ----------------------------------------------------------------------------------------


def test_what_has_no_probe_is_not_checked() -> None:
    """Without probes, what needs one is reported with the argument to give, never as passed."""
    report = run(Shop().agent(), Probes(slow=PROBES.slow))
    left_out = {finding.check: finding.next for finding in report.not_checked}
    wanted = {
        "tool-seen": "tool",
        "tool-failure-seen": "failing_tool",
        "calls-have-results": "tool",
        "results-have-calls": "tool",
        "call-ids-unique": "tool",
        "inputs-parsed": "tool",
        "tool-names": "tool",
        "remembers": "memory",
        "replies-apart": "tool",
        "fresh-line": "memory",
        "lines-apart": "memory",
        "asks": "approval",
        "resumes": "approval",
        "refusal-rejected": "approval",
        "answers-by-request": "approval",
        "questions-apart": "approval",
        "moves-on": "approval",
        "output-given": "output",
    }
    assert left_out.keys() == wanted.keys()
    assert all(f"Probes({probe}=" in left_out[check] for check, probe in wanted.items())
    assert report.failed == ()


def test_nothing_else_is_tried_where_nothing_works() -> None:
    """One error is one finding: what comes after it is not checked."""
    report = run(raising(lambda input, ctx: True))
    assert len(report.failed) == 1
    assert report["turn-accepted"].seen.startswith("adapter-error: RuntimeError: refused by the service (at ")
    assert {report[check].outcome for check in ("remembers", "usage-given", "cancels", "loop-free")} == {"not checked"}
    assert list(report.events) == ["hello"]


def test_a_channel_that_promises_nothing_is_not_held_to_it() -> None:
    """Declared honestly, a missing result, message, count or datum is no failure."""
    poor = Coverage.partial("the service shows little")
    shop = declaring(events=poor, actions=poor, messages=poor, usage=poor, data=poor)
    shop.after = lambda input, turn: Turn(events=[e for e in turn.events if isinstance(e, ActionCalled)])
    report = run(shop.agent(), Probes(tool=PROBES.tool, output=PROBES.output, slow=PROBES.slow))
    assert report.failed == (), str(report)
    unanswered = {"tool-seen", "calls-have-results", "messages-given", "usage-given", "output-given"}
    assert unanswered <= {finding.check for finding in report.not_checked}
    assert report["usage-given"].seen == "usage is declared partial: the service shows little"


def test_a_single_turn_may_lower_a_channel() -> None:
    """A turn that says itself that it has no usage is honest."""
    lower = {"usage": Coverage.unavailable("cut off")}
    agent = after(lambda input, turn: replace(turn, usage=None, evidence_coverage=lower))
    assert failing(agent) == set()


def test_modest_coverage_is_remarked_on() -> None:
    """Something came on a channel that is declared unavailable: no failure, but a hint."""
    finding = run(declaring(usage=Coverage.unavailable("no token counts")).agent())["coverage-modest"]
    assert finding.outcome == "passed"
    assert finding.seen == "usage is declared unavailable, yet something came"
    assert "declare usage partial or complete" in finding.next


def test_an_option_that_is_not_offered_is_the_probes_fault() -> None:
    """The agent is not blamed for an answer that it never offered; the options are named."""
    approval = Approval(text="Order an umbrella and a raincoat.", reject="no")
    report = run(Shop().agent(), replace(PROBES, approval=approval))
    assert report.failed == ()
    assert report["refusal-rejected"].outcome == "not checked"
    assert report["refusal-rejected"].seen == 'request q0 has no option "no"; it has approve, reject'
    assert "Approval(" in report["refusal-rejected"].next


def test_one_question_at_a_time_cannot_show_whose_answer_is_whose() -> None:
    """Matching by request id needs two open questions; with one it is not checked."""

    def first_only(input: TurnInput, turn: Turn) -> Turn:
        return replace(turn, events=turn.events[:2]) if turn.status == "waiting" else turn

    def pair(input: TurnInput, conversation: Conversation) -> dict[str, str]:
        return {"q0": input.responses[0].option_id or "", "q1": "reject"}

    shop = Shop(after=first_only, pair=pair)
    shop.coverage = EvidenceCoverage.complete_except(events=Coverage.partial("one at a time"))
    finding = run(shop.agent())["answers-by-request"]
    assert (finding.outcome, finding.seen) == ("not checked", "it asks one question at a time")


def test_a_lost_approval_is_found() -> None:
    """A call that was approved and never gets its result fails, although another turn made it."""

    def without_results(input: TurnInput, turn: Turn) -> Turn:
        events = [event for event in turn.events if not isinstance(event, ActionResult)]
        return replace(turn, events=events) if input.responses else turn

    finding = run(after(without_results))["resumes"]
    assert finding.outcome == "failed"
    assert finding.seen == "c1 (order), c2 (order) has no result, although it was approved"


def test_a_plain_function_is_checked_in_its_thread() -> None:
    """A `send` that is no coroutine function passes too, and one that ignores `ctx.cancelled` is found."""

    def agent(watching: bool) -> Agent:
        def send(input: TurnInput, ctx: AgentContext) -> Turn:
            if input.text == "slow":
                ctx.cancelled.wait(30) if watching else time.sleep(0.8)
            return replace(said("Hello."), usage=Usage(input_tokens=1, output_tokens=1))

        return define_agent(name="plain", evidence_coverage=EvidenceCoverage.complete_except(), send=send)

    probes = Probes(slow="slow")
    assert failing(agent(watching=True), probes) == set()
    assert failing(agent(watching=False), probes) == {"cancels"}


def test_what_there_is_no_way_to_see_is_said() -> None:
    """No hooks, no session id, and no turn that lasts long enough to be cancelled."""

    async def send(input: TurnInput, ctx: AgentContext) -> Turn:
        return replace(said("Hello."), usage=Usage(input_tokens=1, output_tokens=1))

    report = run(
        define_agent(name="instant", evidence_coverage=EvidenceCoverage.complete_except(), send=send), Probes()
    )
    for check in ("hooks-run", "attempts-apart", "session-ids", "cancels", "recovers", "no-late-effects"):
        assert report[check].outcome == "not checked", check
    assert "Probes(slow=" in report["cancels"].next


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"hello": ""}, "hello"),
        ({"tool": 7}, "tool"),
        ({"memory": ("a", "b")}, "memory"),
        ({"memory": "a text"}, "memory"),
        ({"memory": ("", "b", includes("c"))}, "memory[0]"),
        ({"output": "a text"}, "output"),
        ({"output": ("", int)}, "output[0]"),
        ({"approval": " "}, "approval"),
    ],
)
def test_probes_are_checked_at_once(given: dict[str, Any], argument: str) -> None:
    """A probe that cannot be used is an author's mistake, named before anything is sent."""
    with pytest.raises(AuthorError) as raised:
        Probes(**given)
    assert raised.value.code == "bad-argument"
    assert raised.value.fields["argument"] == argument


@pytest.mark.parametrize(
    ("given", "code"),
    [({"memory": ("a", "b", "c")}, "bad-matcher"), ({"output": ("a", {"type": "object"})}, "bad-output-type")],
)
def test_matcher_and_schema_are_checked_at_once(given: dict[str, Any], code: str) -> None:
    """What is no matcher, or has no schema, is refused where it is given."""
    with pytest.raises(AuthorError) as raised:
        Probes(**given)
    assert raised.value.code == code


# The agent ----------------------------------------------------------------------------------------------------------


def test_it_runs_inside_a_running_loop() -> None:
    """The async form uses the caller's loop, and the function that makes the agent is called on it."""

    async def on_my_loop() -> Report:
        loops: list[asyncio.AbstractEventLoop] = []

        def make() -> Agent:
            loops.append(asyncio.get_running_loop())
            return Shop().agent()

        report = await check_agent(make, PROBES, model="m", grace=0.3)
        assert loops == [asyncio.get_running_loop()]
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return report

    assert asyncio.run(on_my_loop()).failed == ()


def test_the_plain_form_points_to_the_other_one() -> None:
    """Where a loop is running already, the error says what to write."""

    async def on_my_loop() -> None:
        check_agent_sync(Shop().agent(), PROBES)

    with pytest.raises(RuntimeError, match="await check_agent"):
        asyncio.run(on_my_loop())


def test_an_agent_that_cannot_be_made_is_raised() -> None:
    """The function's own error is the author's to see, as it is."""

    def make() -> Agent:
        return define_agent(name="x", evidence_coverage={"events": Coverage.complete}, send=Shop().send)

    with pytest.raises(AdapterError) as raised:
        run(make)  # type: ignore[arg-type]
    assert raised.value.code == "coverage-missing"


def test_a_sandbox_agent_is_refused() -> None:
    """There is no sandbox to give it."""
    agent = define_sandbox_agent(name="cli", evidence_coverage=EvidenceCoverage.complete_except(), send=Shop().send)
    with pytest.raises(AdapterError) as raised:
        run(agent)
    assert raised.value.code == "sandbox-not-set"


def test_another_file_can_be_sent() -> None:
    """The file of the probes goes with the turn."""
    seen: list[InputFile] = []
    shop = Shop(before=lambda input, ctx: seen.extend(input.files))
    mine = InputFile(filename="note.txt", mime_type="text/plain", data=b"short")
    assert run(shop.agent(), replace(PROBES, file=mine)).failed == ()
    assert seen == [mine]


# The report ---------------------------------------------------------------------------------------------------------


def test_failures_are_raised_with_what_to_do() -> None:
    """The assertion's text has the counts, what failed, what was seen, the event, and the next step; nothing else."""
    report = run(echoing())
    with pytest.raises(AssertionError) as raised:
        report.raise_for_failures()
    title, row, seen, next_, event = str(raised.value).splitlines()
    assert title == "agent shop: 43 passed, 1 failed, 0 not checked"
    assert row.split()[:2] == ["failed", "no-echo"]
    assert seen.split(maxsplit=1) == ["seen", "every turn has an assistant message with the user's own text"]
    assert next_.split()[0] == "next"
    assert event.strip() == f'hello #0  {{"type":"message","role":"user","text":"{PROBES.hello}"}}'


def test_references_lead_to_events() -> None:
    """A finding's references are indices of the scenario's stream in the report."""
    report = run(BROKEN["arguments as text"][1]())
    (first, *_) = report["inputs-parsed"].refs
    assert first == EventRef("parallel-1", 1)
    assert report.events[first.scenario][first.event] == ActionCalled(
        call_id="c1", name="stock", input='{"item": "umbrellas"}'
    )


def test_a_report_can_be_read_by_check() -> None:
    """Findings come in a fixed order, by name, and by outcome."""
    report = run(echoing())
    assert [finding.check for finding in report][:2] == ["coverage-declared", "coverage-consistent"]
    assert len(report.passed) + len(report.failed) + len(report.not_checked) == len(list(report))
    with pytest.raises(KeyError):
        report["no-such-check"]


def test_an_agents_text_steers_no_terminal() -> None:
    """What the agent said is printed as text, and cut."""
    hostile = "\x1b[2J" + "x" * 5_000
    text = str(run(after(lambda input, turn: replace(turn, events=[Message(role="assistant", text=hostile)]))))
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) < 800
