"""An agent that is a Python function: it is given what the user says, and returns what it answers."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    AdapterError,
    Agent,
    AgentContext,
    Coverage,
    EvidenceCoverage,
    Message,
    SessionSlot,
    Turn,
    TurnInput,
    define_agent,
)
from niceeval.adapters.function._signature import Form, form_of
from niceeval.turn_building import TurnBuilder

coverage: Final = EvidenceCoverage(
    events=Coverage.partial("a function that returns its answer shows nothing else"),
    actions=Coverage.unavailable("a function that returns its answer shows no calls: return a Turn that has them"),
    messages=Coverage.complete,
    usage=Coverage.unavailable("a function that returns its answer counts no tokens: return a Turn that has them"),
    status=Coverage.complete,
    data=Coverage.complete,
)
"""What the answer of a function can promise."""

_HISTORY: SessionSlot[list[dict[str, str]]] = SessionSlot("function-history", default=list)


def function_agent(
    fn: Callable[..., Any],
    *,
    name: str | None = None,
    evidence_coverage: EvidenceCoverage | Mapping[str, Coverage] | None = None,
    version: str | Callable[[], str] | None = None,
    secret_env: tuple[str, ...] = (),
) -> Agent:
    """An agent of a plain callable, sync or async: `fn(text)`, `fn(text, history)` or `fn(input, ctx)`.

    The names `history` and `ctx` of the second parameter decide what it is given: the conversation so far, as a list of
    `{"role": ..., "content": ...}`, or the turn's `TurnInput` and `AgentContext`. It returns a text, a dict (the
    structured answer), an iterator of pieces of text, or a whole `Turn`. A sync function runs in a worker thread.

    `name`: by default the function's. `evidence_coverage`: what a function promises that returns Turns; by default no
    more than its messages. Raises AdapterError `agent-invalid` for a function that cannot be called in such a way.
    """
    agent_name = name or getattr(fn, "__name__", None) or type(fn).__name__
    if agent_name == "<lambda>":
        agent_name = "function"
    driver = _Driver(agent_name, fn, form_of(fn, agent_name), evidence_coverage or coverage)
    return define_agent(
        name=agent_name, evidence_coverage=driver.declared, send=driver.send, version=version, secret_env=secret_env
    )


class _Driver:
    def __init__(
        self,
        name: str,
        fn: Callable[..., Any],
        form: Form,
        declared: EvidenceCoverage | Mapping[str, Coverage],
    ) -> None:
        self._name = name
        self._fn = fn
        self._form = form
        self.declared = declared

    def send(self, input: TurnInput, ctx: AgentContext) -> Turn | Awaitable[Turn]:
        """One turn. A plain function, so that a sync `fn` runs in the worker thread that this one is run in."""
        if input.files and not self._form.whole_input:
            raise AdapterError(
                "agent-input",
                agent=self._name,
                problem="a function of a text has no place for a file",
                fix="write fn(input, ctx), and read input.files",
            )
        history = ctx.session.get(_HISTORY)
        given = input if self._form.whole_input else input.text
        second = ctx if self._form.second == "ctx" else [dict(said) for said in history]
        answer = self._form.call(self._fn, given, second)
        if inspect.isawaitable(answer) or isinstance(answer, AsyncIterator):
            return self._later(answer, input, ctx)
        return self._kept(self._turn(answer, input, ctx), input, ctx)

    async def _later(self, answer: Any, given: TurnInput, ctx: AgentContext) -> Turn:
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, AsyncIterator):
            builder = TurnBuilder(self.declared)
            async for piece in answer:
                builder.text_delta(self._piece(piece))
            return self._kept(builder.build().report(ctx), given, ctx)
        # What is left to do may be a plain generator's work.
        return self._kept(await asyncio.to_thread(self._turn, answer, given, ctx), given, ctx)

    def _turn(self, answer: object, given: TurnInput, ctx: AgentContext) -> Turn:
        if isinstance(answer, Turn):
            return answer
        builder = TurnBuilder(self.declared)
        if isinstance(answer, str):
            builder.message(answer)
        elif isinstance(answer, Mapping):
            builder.message(self._as_json(answer))
            if given.output_schema is not None:
                builder.data(dict(answer))
        elif isinstance(answer, Iterator):
            for piece in answer:
                builder.text_delta(self._piece(piece))
        else:
            raise self._odd(answer)
        return builder.build().report(ctx)

    def _kept(self, turn: Turn, given: TurnInput, ctx: AgentContext) -> Turn:
        """The turn, when it is over: a turn that raised is in no history."""
        said = [event.text for event in turn.events if isinstance(event, Message) and event.role == "assistant"]
        history = ctx.session.get(_HISTORY)
        history.append({"role": "user", "content": given.text})
        history.append({"role": "assistant", "content": "\n".join(said)})
        called = any(isinstance(event, (ActionCalled, ActionResult)) for event in turn.events)
        if self.declared is coverage and (called or turn.usage is not None):
            ctx.diagnostic(
                "coverage-not-declared",
                "warning",
                "the turn has calls or usage, which count for nothing until function_agent(evidence_coverage=...) says "
                "how complete they are",
            )
        return turn

    def _piece(self, piece: object) -> str:
        if not isinstance(piece, str):
            raise self._odd(piece)
        return piece

    def _as_json(self, answer: Mapping[str, Any]) -> str:
        try:
            return json.dumps(answer, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise AdapterError(
                "turn-malformed",
                agent=self._name,
                problem=f"its dict is no JSON: {error}",
                fix="return plain values: text, numbers, lists and dicts of them",
            ) from None

    def _odd(self, answer: object) -> AdapterError:
        return AdapterError(
            "turn-malformed",
            agent=self._name,
            problem=f"the function returned {type(answer).__name__}",
            fix="return a text, a dict, an iterator of texts, or a Turn",
        )
