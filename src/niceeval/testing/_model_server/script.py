"""The script of a server: from a request to the step that answers it, and to the answer."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from niceeval.testing._model_server.answer import Answer, new_id
from niceeval.testing._model_server.model_request import ModelRequest
from niceeval.testing._model_server.scenario import NotScripted, Scenario, Selected, select
from niceeval.testing._model_server.side_requests import SideRequest
from niceeval.testing._model_server.steps import Operation, Step, StepLike, as_step
from niceeval.testing._model_server.tool_names import NoTool, finishing, tool_calls

MAX_ANSWERS = 100
"""Answers in one turn of a conversation that has an id; one that asks for more goes in circles."""

MAX_ANSWERS_UNNAMED = 5000
"""The same where the client names no conversation, so that equal ones cannot be told apart."""

MAX_CONVERSATIONS = 10_000
"""Conversations whose state is kept; the longest unused is forgotten first."""

OUTPUT_TOOL = "StructuredOutput"
"""What a client calls the tool through which it wants its structured answer, where the request does not say it."""


@dataclass(slots=True)
class _Conversation:
    answered: int = 0
    failures: dict[int, int] = field(default_factory=dict)
    seen: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Chosen:
    """What answers a request, and where in the script it stands; `place` is the step's number from 0."""

    step: Step
    scenario: str
    place: int | None


class Script:
    """Scenarios with their side requests, and how far each conversation has come. Threads may share it."""

    def __init__(self, scenarios: Sequence[Scenario], sides: Sequence[SideRequest], max_answers: int) -> None:
        self._scenarios = tuple(scenarios)
        self._sides = tuple(sides)
        self._max_answers = max_answers
        self._lock = threading.Lock()
        self._conversations: OrderedDict[tuple[str, ...], _Conversation] = OrderedDict()

    def choose(self, request: ModelRequest) -> Chosen:
        """The step that answers. Raises NotScripted; what a step's own function raises goes through."""
        for side in self._sides:
            if not side.last_resort and side.matches(request):
                return Chosen(_resolved(side.answer, request), side.name, None)
        try:
            return self._in_scenario(request)
        except NotScripted:
            for side in self._sides:
                if side.last_resort and side.matches(request):
                    return Chosen(_resolved(side.answer, request), side.name, None)
            raise

    def _in_scenario(self, request: ModelRequest) -> Chosen:
        selected = select(self._scenarios, request)
        scenario = selected.scenario
        with self._lock:
            conversation = self._conversation(selected)
            conversation.answered += 1
            limit = self._max_answers if request.session_id else max(self._max_answers, MAX_ANSWERS_UNNAMED)
            if conversation.answered > limit:
                raise NotScripted(f"scenario {scenario.name!r} was asked {limit} times in one turn: it goes in circles")
            place = _progress(conversation, selected.answered, request.session_id is not None)
        if place >= len(scenario.steps):
            if not scenario.repeats:
                steps = len(scenario.steps)
                raise NotScripted(f"scenario {scenario.name!r} has {steps} steps; this request is for step {place + 1}")
            place = len(scenario.steps) - 1
        step = _resolved(scenario.steps[place], request)
        return Chosen(self._after_failures(step, selected, place, request), scenario.name, place)

    def _conversation(self, selected: Selected) -> _Conversation:
        conversation = self._conversations.setdefault(selected.conversation, _Conversation())
        self._conversations.move_to_end(selected.conversation)
        while len(self._conversations) > MAX_CONVERSATIONS:
            self._conversations.popitem(last=False)
        return conversation

    def _after_failures(self, step: Step, selected: Selected, place: int, request: ModelRequest) -> Step:
        if step.times is None or step.then is None:
            return step
        with self._lock:
            failures = self._conversation(selected).failures
            failures[place] = failures.get(place, 0) + 1
            failing = failures[place] <= step.times
        return step if failing else _resolved(step.then, request)


def _progress(conversation: _Conversation, answered: int, named: bool) -> int:
    """The step that is due. Where a client compacted, answers are missing that were given: they are added again."""
    if named and answered < conversation.seen:
        conversation.skipped += conversation.seen - answered + 1
    conversation.seen = answered
    return answered + conversation.skipped


def _resolved(step: StepLike, request: ModelRequest) -> Step:
    made: object = step
    if callable(made) and not isinstance(made, (Step, Operation)):
        made = made(request)
    return as_step(made)


def answer_of(step: Step, request: ModelRequest) -> Answer:
    """The step, fitted to the request. Raises NotScripted where it offers no tool for an operation."""
    identity = new_id()
    operations, text = step.operations, step.text
    if step.has_data:
        name = request.output_tool or next((t.name for t in request.tools if t.name == OUTPUT_TOOL), None)
        if name is not None and isinstance(step.data, dict):
            operations = (*operations, Operation("tool", {"name": name, "arguments": step.data}))
        else:
            text = json.dumps(step.data, ensure_ascii=False)
    elif text is not None and not operations and (finish := finishing(text, request)) is not None:
        operations = (finish,)
    try:
        calls = tool_calls(operations, request, identity)
    except NoTool as error:
        raise NotScripted(str(error)) from None
    if any(call.search for call in calls):
        return Answer(id=identity, model=request.model, calls=calls, usage=step.usage)
    answer = Answer(id=identity, model=request.model or "scripted-model", usage=step.usage)
    return replace(answer, thinking=step.thinking, text=text, calls=calls)
