"""The runs of smolagents into turns: a run's result, an agent's memory, or what `agent.run(..., stream=True)` yields.

    return smolagents.to_turn(agent.run(input.text, return_full_result=True), subagents={})

Works on the framework's objects and on their JSON forms; imports nothing of it. A stream shows what came of each of
several calls; a result and a memory have their outputs joined.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping
from typing import Any, Final

from niceeval.adapter import Coverage, EvidenceCoverage, Turn, Usage
from niceeval.converters._attributes import count_field, field, items, text_field, without_bytes
from niceeval.converters._call_ids import CallIds
from niceeval.turn_building import FROM_EVENTS, Collected, TurnBuilder

__all__ = [
    "CallIds",
    "collected",
    "collected_stream",
    "coverage",
    "situations",
    "to_turn",
    "to_turn_stream",
]

coverage: Final = EvidenceCoverage.complete_except(
    usage=Coverage.partial("the tokens of managed agents and of models in tools are counted elsewhere"),
)
"""What a run of an agent that calls its tools by name shows at most."""

situations: Final[Mapping[str, str]] = {
    "success": "tested",
    "tool failure": "tested",
    "refusal by a human": "the framework asks nobody for approval",
    "parallel tools": "tested",
    "nested agent": "tested",
    "empty answer": "tested",
    "multi-part content": "tested",
    "structured output": "tested",
    "cached and reasoning tokens": "the framework keeps the sums of input and of output only",
    "error mid-stream": "tested",
}
"""What can happen in a run -> "tested", or why the framework does not show it."""

_FINAL: Final = "final_answer"
_CODE: Final = "python_interpreter"
_MAX_STEPS: Final = "AgentMaxStepsError"
_INNER: Final = "an agent that a tool ran is not shown: say with subagents= which tools run one, or {} for none"


def to_turn(run: object, **how: Any) -> Turn:
    """The turn of a run; arguments as `collected`, whose diagnostics it leaves out."""
    return collected(run, **how).turn


def collected(
    run: object,
    *,
    error: BaseException | None = None,
    subagents: Mapping[str, str] | None = None,
    ids: CallIds | None = None,
    data: bool = True,
) -> Collected:
    """The turn of a run, and what has to be said about it.

    `run` is what `agent.run(..., return_full_result=True)` gave, or the steps of `agent.memory.steps`: those of a run
    that raised, with the `error`. Of a memory of several turns the last one counts. `subagents` maps the names of
    managed agents (`agent.managed_agents`) to themselves or to what they are called; None where it is not known whether
    there are any. `ids` are a conversation's, so that a call id that comes again is told apart.
    """
    steps = items(run) or items(field(run, "steps"))
    begin = max((place for place, step in enumerate(steps) if _has(step, "task")), default=-1)
    reader = _Reader(subagents, ids, data)
    for step in steps[begin + 1 :]:
        reader.step(step)
    if _has(run, "output") and _has(run, "state"):
        reader.final(field(run, "output"))
        if field(run, "state") == "max_steps_error":
            reader.gave_up = True
    return reader.finish(error)


async def to_turn_stream(events: AsyncIterable[object] | Iterable[object], **how: Any) -> Turn:
    """The turn of `agent.run(..., stream=True)`; arguments as `collected`, without its diagnostics."""
    return (await collected_stream(events, **how)).turn


async def collected_stream(
    events: AsyncIterable[object] | Iterable[object],
    *,
    subagents: Mapping[str, str] | None = None,
    ids: CallIds | None = None,
    data: bool = True,
) -> Collected:
    """The turn of a run's events as they come. The framework's own stream is not async, and blocks while it waits.

    A stream that raises keeps what arrived.
    """
    reader = _Reader(subagents, ids, data)
    try:
        if isinstance(events, AsyncIterable):
            async for event in events:
                reader.event(event)
        else:
            for event in events:
                reader.event(event)
    except Exception as error:  # noqa: BLE001 - whatever ended the run, what arrived before is evidence
        return reader.finish(error)
    return reader.finish(None)


class _Reader:
    def __init__(self, subagents: Mapping[str, str] | None, ids: CallIds | None, data: bool) -> None:
        self._builder = TurnBuilder(coverage)
        self._subagents = subagents
        self._ids = ids or CallIds()
        self._wants_data = data
        self._calls: list[object] = []
        self._outputs: dict[str, object] = {}
        self._pieces: list[str] = []
        self._output: Any = None
        self._ended = self._tools_ran = self._inner = False
        self._counted = self._uncounted = 0
        self.gave_up = False

    def event(self, event: object) -> None:
        """Something that a stream yields: calls and their outputs come before the step that they belong to."""
        if _has(event, "tool_call") and _has(event, "id"):
            self._outputs[text_field(event, "id") or ""] = event
        elif _has(event, "name") and _has(event, "arguments"):
            self._calls.append(event)
        elif _has(event, "step_number") or _has(event, "plan"):
            self.step(event)
        elif _has(event, "is_final_answer"):
            pass  # What a step came to; the step itself says it too.
        elif _has(event, "output"):
            # No step of the agent's own gave the answer: it was asked for one when its steps were used up.
            if not self._ended and not self.gave_up:
                self._uncounted += 1
                self.gave_up = True
            self.final(field(event, "output"))
        elif _has(event, "content"):
            self._pieces.append(text_field(event, "content") or "")
        elif not _has(event, "task"):
            self._builder.unknown(f"an event of type {type(event).__name__}")

    def step(self, step: object) -> None:
        """One step, whole."""
        self._pieces.clear()
        if _has(step, "plan"):
            self._builder.thinking(text_field(step, "plan") or "")
            self._usage(step)
        elif _has(step, "step_number"):
            self._action(step)
        elif not _has(step, "system_prompt") and not _has(step, "task"):
            self._builder.unknown(f"a step of type {type(step).__name__}")

    def final(self, output: Any) -> None:
        """The run's answer."""
        self._output, self._ended = output, True

    # A step -----------------------------------------------------------------------------------------------------

    def _action(self, step: object) -> None:
        error = field(step, "error")
        if _error_type(error) == _MAX_STEPS:
            # The answer that is asked for at the end comes without its tokens.
            self._uncounted += 1
            self.gave_up = True
            self.final(field(step, "action_output"))
            return
        self._usage(step)
        by_code = field(step, "code_action") is not None
        self._said(step, by_code)
        outputs, self._outputs = self._outputs, {}
        calls = [_call(call) for call in self._calls or items(field(step, "tool_calls")) or _asked_for(step)]
        self._calls = []
        calls = [call for call in calls if call[1] != _FINAL]
        for id, name, arguments in calls:
            self._called(id, name, arguments)
        if by_code:
            self._builder.incomplete("the tools that the agent's code calls are not shown", ("events", "actions"))
        if field(step, "is_final_answer") is True:
            self.final(field(step, "action_output"))
        if calls:
            self._results(step, calls, outputs, error)
        elif error is not None:
            self._builder.error(_error_text(error))

    def _said(self, step: object, by_code: bool) -> None:
        said = field(step, "model_output")
        texts = [said] if isinstance(said, str) else [text_field(part, "text") or "" for part in items(said)]
        if by_code:
            self._builder.thinking("".join(texts))
        elif _asked_for(step):
            self._builder.message("".join(texts))
        elif texts and field(step, "error") is not None:
            # What could not be read as a call was said to nobody.
            self._builder.thinking("".join(texts))

    def _called(self, id: str, name: str, arguments: Any) -> None:
        unique = self._ids.call(id)
        agent = (self._subagents or {}).get(name)
        if agent is not None:
            self._inner = True
            self._builder.subagent(unique, agent)
        else:
            self._builder.called(unique, name, without_bytes(arguments))

    def _results(
        self, step: object, calls: list[tuple[str, str, Any]], outputs: Mapping[str, object], error: object
    ) -> None:
        self._tools_ran = True
        left = [(id, name) for id, name, _ in calls if id not in outputs]
        for id, output in outputs.items():
            name = next((name for known, name, _ in calls if known == id), None)
            if name is not None:
                self._result(id, name, field(output, "observation"), failed=False)
        if len(left) == 1:
            (id, name) = left[0]
            said = _error_text(error) if error is not None else text_field(step, "observations")
            self._result(id, name, said, failed=error is not None)
        elif left and error is not None:
            self._builder.incomplete(f"one of {len(left)} calls failed, and not which", ("events", "actions"))
            self._builder.error(_error_text(error))
        elif left:
            self._builder.incomplete("what came of calls that were made together is joined", ("events", "actions"))
            for id, name in left:
                self._result(id, name, None, failed=False)

    def _result(self, id: str, name: str, output: Any, *, failed: bool) -> None:
        unique = self._ids.result(id)
        if name in (self._subagents or {}):
            self._builder.subagent_done(unique, output, "failed" if failed else "completed")
        else:
            self._builder.result(unique, output, "failed" if failed else "completed")

    def _usage(self, step: object) -> None:
        usage = field(step, "token_usage")
        given, output = count_field(usage, "input_tokens"), count_field(usage, "output_tokens")
        if given is None or output is None:
            self._uncounted += 1
        else:
            self._counted += 1
            self._builder.add_usage(Usage(input_tokens=given, output_tokens=output, requests=1))

    # The end ----------------------------------------------------------------------------------------------------

    def finish(self, error: BaseException | None) -> Collected:
        """The turn. `error` is what ended the run, where it raised."""
        builder = self._builder
        for call in self._calls:
            id, name, arguments = _call(call)
            if name != _FINAL:
                self._called(id, name, arguments)
                if id in self._outputs:
                    self._result(id, name, field(self._outputs[id], "observation"), failed=False)
        builder.message("".join(self._pieces))
        if self._ended and self._output is not None:
            builder.message(self._output if isinstance(self._output, str) else str(self._output))
            if self._wants_data and not isinstance(self._output, str):
                builder.data(without_bytes(self._output))
        self._hidden()
        if error is not None:
            builder.incomplete(f"the run ended with {type(error).__name__}", (*FROM_EVENTS, "usage"))
            builder.failed(f"{type(error).__name__}: {error}")
        elif self.gave_up:
            builder.failed("the agent reached its limit of steps")
        elif not self._ended:
            builder.incomplete("the run has no final answer")
            builder.failed("the run ended without a final answer", said=False)
        return builder.build()

    def _hidden(self) -> None:
        builder = self._builder
        if self._inner:
            builder.incomplete("what managed agents did is not shown", ("events", "actions", "usage"))
        elif self._tools_ran and self._subagents is None:
            builder.incomplete(_INNER, ("events", "actions"))
        if self._uncounted and self._counted:
            builder.partial("usage", f"{self._uncounted} of the model's answers came without token counts")
        elif self._uncounted:
            builder.unavailable("usage", "the model's answers came without token counts")


def _has(value: object, name: str) -> bool:
    return name in value if isinstance(value, Mapping) else hasattr(value, name)


def _call(call: object) -> tuple[str, str, Any]:
    """Id, name and arguments, in the framework's form or in that of a model's answer."""
    function = field(call, "function")
    part = call if function is None else function
    return text_field(call, "id") or "", text_field(part, "name") or "unknown", field(part, "arguments")


def _asked_for(step: object) -> list[Any]:
    """The calls of the model's answer: of a step that failed, the framework keeps no others."""
    return items(field(field(step, "model_output_message"), "tool_calls"))


def _error_type(error: object) -> str | None:
    return None if error is None else text_field(error, "type") or type(error).__name__


def _error_text(error: object) -> str:
    return text_field(error, "message") or str(error)
