"""Scenarios: named sequences of steps, and which of them answers a request."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from niceeval.testing._model_server.model_request import ModelRequest, answers_after
from niceeval.testing._model_server.steps import StepLike, argument_error, checked_steps

MARKER = "SCENARIO:"
"""What stands before a scenario's name in a text of the user."""

_MARKED = re.compile(re.escape(MARKER) + r"([A-Za-z0-9_.-]*[A-Za-z0-9_-])")
_NAME = re.compile(r"[A-Za-z0-9_.-]*[A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Scenario:
    """What the model answers in one conversation, step by step.

    name      how `SCENARIO:<name>` in a text of the user selects it
    steps     the answers, in order; the model has given as many as stand in the conversation behind the marker
    matches   selects it by the request, where no marker does
    repeats   the last step answers everything that comes after it

    Raises AuthorError (`bad-argument`).
    """

    name: str
    steps: Sequence[StepLike]
    matches: Callable[[ModelRequest], bool] | None = None
    repeats: bool = False

    def __post_init__(self) -> None:
        if not _is_name(self.name):
            raise argument_error("Scenario", "name", f"is {self.name!r}", "use letters, digits, '-', '_' and '.'")
        if isinstance(self.steps, str) or not self.steps:
            raise argument_error("Scenario", "steps", "holds no step", 'Scenario("hello", [say("Hello!")])')
        checked_steps(self.steps)
        object.__setattr__(self, "steps", tuple(self.steps))


@dataclass(frozen=True, slots=True)
class Selected:
    """Where a request stands: its scenario, how many answers it had, and what the conversation is told apart by."""

    scenario: Scenario
    answered: int
    conversation: tuple[str, ...]


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


class NotScripted(Exception):
    """No script says what to answer; the text says why, and what would."""


def without_markers(text: str) -> str:
    """The text without markers."""
    return " ".join(_MARKED.sub("", text).split())


def select(scenarios: Sequence[Scenario], request: ModelRequest) -> Selected:
    """The scenario of the latest marker; otherwise of the first matcher; otherwise the only one there is.

    A marker counts for the turn that it was said in. Raises NotScripted.
    """
    by_name = {scenario.name: scenario for scenario in scenarios}
    found = _latest_marker(request)
    if found is not None:
        place, name = found
        if name not in by_name:
            raise NotScripted(f"no scenario {name!r}; there are {', '.join(by_name)}")
        if not _is_over(request, place):
            return _selected(by_name[name], request, place)
    for scenario in scenarios:
        if scenario.matches is not None and scenario.matches(request):
            return _selected(scenario, request, _turn_start(request))
    if len(scenarios) == 1 and scenarios[0].matches is None:
        return _selected(scenarios[0], request, -1 if found is None else found[0])
    raise NotScripted(f"the latest text of the user holds no {MARKER}<name>, and no matcher takes the request")


def _latest_marker(request: ModelRequest) -> tuple[int, str] | None:
    for place in range(len(request.entries) - 1, -1, -1):
        entry = request.entries[place]
        names = _MARKED.findall(entry.text) if entry.kind == "user" else []
        if names:
            return place, names[-1]
    return None


def _is_over(request: ModelRequest, place: int) -> bool:
    """Whether the user said something after the turn that the marker began had been answered without calls."""
    after = request.entries[place + 1 :]
    for earlier, later in itertools.pairwise(after):
        if earlier.kind == "assistant" and later.kind == "user" and "<task-notification>" not in later.text:
            return True
    return False


def _turn_start(request: ModelRequest) -> int:
    """Where the latest text of the user stands that follows an answer without calls; -1 for the first turn."""
    entries = request.entries
    for place in range(len(entries) - 1, 0, -1):
        if entries[place].kind == "user" and entries[place - 1].kind == "assistant":
            return place
    return -1


def _selected(scenario: Scenario, request: ModelRequest, place: int) -> Selected:
    text = request.entries[place].text if place >= 0 else "\n".join(request.user_texts[:1])
    same = sum(entry.kind == "user" and entry.text == text for entry in request.entries[: max(0, place)])
    conversation = (scenario.name, request.protocol, request.session_id or "", text, str(same))
    return Selected(scenario, answers_after(request.entries, place + 1), conversation)
