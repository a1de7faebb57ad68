"""The scenarios: what is sent, on which lines, and in which order."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from niceeval._drive.context import EvalContext
from niceeval._drive.session import Line
from niceeval._drive.turn import TurnHandle
from niceeval._model.events import InputRequest, InputRequested
from niceeval._model.turn_input import TurnInput
from niceeval.testing._agent.drives import Body, Conditions, Drive, Notes, asked, drive, with_agent
from niceeval.testing._agent.evidence import Evidence
from niceeval.testing._agent.interrupting import interrupt, with_input
from niceeval.testing._agent.probes import Approval, answer_to

UNKNOWN_FLAGS = {"niceeval-unknown-flag": {"nested": [1, None]}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenarios:
    """Runs what the probes allow, and collects it. `parallel` is how many sends go out at once."""

    evidence: Evidence
    conditions: Conditions
    parallel: int

    async def run(self) -> None:
        """Everything, the plainest first; where that fails already, nothing else is tried."""
        hello = await self._drive("hello", _repeated(self.evidence.probes.hello))
        if hello.fault is not None:
            return
        await self._together()
        await self._bare()
        await self._single_turns()
        await self._memory()
        await self._approval()
        await self._hooks()
        await self._cancel()

    async def _drive(self, name: str, body: Body, conditions: Conditions | None = None) -> Drive:
        return self.evidence.add(await drive(name, body, conditions or self.conditions))

    async def _together(self) -> None:
        texts = self.evidence.probes.at_once(self.parallel)
        bodies = [(f"parallel-{number}", _repeated(text, 1)) for number, text in enumerate(texts)]
        await asyncio.gather(*(self._drive(name, body) for name, body in bodies))

    async def _bare(self) -> None:
        body = _repeated(self.evidence.probes.hello, 1)
        flags = {**self.conditions.flags, **UNKNOWN_FLAGS}
        await self._drive("unknown-flags", body, replace(self.conditions, flags=flags))
        if self.conditions.model is not None or self.conditions.reasoning_effort is not None:
            await self._drive("no-model", body, replace(self.conditions, model=None, reasoning_effort=None))

    async def _single_turns(self) -> None:
        probes = self.evidence.probes
        if probes.tool is not None:
            await self._drive("tool", _repeated(probes.tool))
            await self._drive("after-tool", _in_turn(probes.tool, probes.hello))
        if probes.failing_tool is not None:
            await self._drive("failing-tool", _repeated(probes.failing_tool, 1))
        if probes.output is not None:
            await self._drive("output", _structured(*probes.output))
        await self._drive("file", self._with_file)

    async def _with_file(self, t: EvalContext, notes: Notes) -> None:
        await t.send(self.evidence.probes.hello, files=[self.evidence.probes.attached()])

    async def _memory(self) -> None:
        if self.evidence.probes.memory is None:
            return
        tell, ask, _ = self.evidence.probes.memory
        hello = self.evidence.probes.hello

        async def in_turn(t: EvalContext, notes: Notes) -> None:
            await t.send(tell)
            await t.send(ask)
            other = t.new_session()
            await other.send(ask)
            _note_ids(notes, t, other)

        async def interleaved(t: EvalContext, notes: Notes) -> None:
            other = t.new_session()
            await asyncio.gather(t.send(tell), other.send(hello))
            await asyncio.gather(t.send(ask), other.send(ask))
            _note_ids(notes, t, other)

        await self._drive("memory", in_turn)
        await self._drive("interleaved", interleaved)

    # Approvals --------------------------------------------------------------------------------------------------

    async def _approval(self) -> None:
        probe = self.evidence.probes.approving()
        if probe is None:
            return
        approve = await self._drive("approve", _answered(probe, probe.approve))
        if approve.fault is not None or not asked(approve.lines[0][0]):
            return
        await self._drive("refuse", _answered(probe, probe.reject))
        await self._drive("crossed", _crossed(probe))
        await self._drive("moved-on", self._moved_on)
        if len(asked(approve.lines[0][0])) > 1:
            await self._drive("reversed", _mixed(probe), self._reversing())

    async def _moved_on(self, t: EvalContext, notes: Notes) -> None:
        probe = self.evidence.probes.approving()
        assert probe is not None
        await t.send(probe.text)
        await t.send(self.evidence.probes.hello)

    def _reversing(self) -> Conditions:
        def reverse(input: TurnInput) -> TurnInput:
            return replace(input, responses=tuple(reversed(input.responses)))

        return with_agent(self.conditions, with_input(self.conditions.agent, reverse))

    # Around the turns -------------------------------------------------------------------------------------------

    async def _hooks(self) -> None:
        agent, hello = self.conditions.agent, self.evidence.probes.hello
        if agent.teardown is None:
            return
        begun, ended = asyncio.Event(), asyncio.Event()

        async def longer(t: EvalContext, notes: Notes) -> None:
            await t.send(hello)
            begun.set()
            await ended.wait()
            await t.send(hello)

        async def outlives() -> None:
            try:
                await self._drive("outlives", longer)
            finally:
                begun.set()

        async def torn_down() -> None:
            await begun.wait()
            try:
                await self._drive("torn-down", _repeated(hello, 1))
            finally:
                ended.set()

        await asyncio.gather(outlives(), torn_down())

    async def _cancel(self) -> None:
        probes = self.evidence.probes
        interruption = await interrupt(probes.slow or probes.hello, self.conditions)
        self.evidence.interruption = interruption
        self.evidence.add(interruption.drive)
        if interruption.hit:
            await self._drive("after-cancel", _repeated(probes.hello, 1))


def _repeated(text: str, times: int = 2) -> Body:
    return _in_turn(*[text] * times)


def _in_turn(*texts: str) -> Body:
    async def body(t: EvalContext, notes: Notes) -> None:
        for text in texts:
            await t.send(text)
            _note_ids(notes, t)

    return body


def _structured(text: str, output: Any) -> Body:
    async def body(t: EvalContext, notes: Notes) -> None:
        await t.send(text, output=output)

    return body


def _answered(probe: Approval, answer: str) -> Body:
    async def body(t: EvalContext, notes: Notes) -> None:
        requests = _requests(await t.send(probe.text))
        if requests:
            await t.respond(*(answer_to(request, answer) for request in requests))

    return body


def _crossed(probe: Approval) -> Body:
    """Two lines wait at the same time; the one that asked first is answered last, and otherwise."""

    async def body(t: EvalContext, notes: Notes) -> None:
        other = t.new_session()
        first, second = _requests(await t.send(probe.text)), _requests(await other.send(probe.text))
        if first and second:
            await other.respond(*(answer_to(request, probe.approve) for request in second))
            await t.respond(*(answer_to(request, probe.reject) for request in first))

    return body


def _mixed(probe: Approval) -> Body:
    """The first request of several is refused, the others are approved."""

    async def body(t: EvalContext, notes: Notes) -> None:
        requests = _requests(await t.send(probe.text))
        words = [probe.reject] + [probe.approve] * len(requests)
        if requests:
            await t.respond(*(answer_to(request, word) for request, word in zip(requests, words, strict=False)))

    return body


def _requests(turn: TurnHandle[None]) -> list[InputRequest]:
    if turn.status != "waiting":
        return []
    return [event.request for event in turn.events if isinstance(event, InputRequested)]


def _note_ids(notes: Notes, *lines: Line) -> None:
    for number, line in enumerate(lines):
        notes.session_id(number, line.session_id)
