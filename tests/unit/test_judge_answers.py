"""Reading a judge's answer: whatever comes back, it is the choice that was made, or no score at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from niceeval._judging.outcome import JudgeProblem
from niceeval._judging.reading_answers import choice_of, completion, usage_of

CHOICES = ("Y", "N")
ON_ANY_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
_NAMES = st.sampled_from(["choices", "message", "tool_calls", "function", "arguments", "choice", "content", "usage"])
JSON = st.recursive(
    _LEAVES | st.sampled_from(["Y", "N", "select_choice"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES | st.text(max_size=5), inner, max_size=4),
    max_leaves=25,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["choice", "reasons", "other"]), JSON, max_size=3)


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """A completion with one message."""
    return {"choices": [{"message": message}]}


def attempted(read: Callable[..., Any], *arguments: Any) -> Any:
    """What reading gives, or the problem that it raises; any other exception is a fault."""
    try:
        return read(*arguments)
    except JudgeProblem as problem:
        return problem


@ON_ANY_MACHINE
@given(st.text(max_size=200) | JSON.map(json.dumps))
def test_any_body_is_a_completion_or_a_problem(body: str) -> None:
    """Nothing but a JSON object is a completion, and nothing raises but the problem that says why."""
    found = attempted(completion, body)
    if isinstance(found, JudgeProblem):
        assert found.code in ("judge-unparsable", "judge-call-failed")
        assert str(found)
    else:
        assert isinstance(found, dict)
        usage_of(found)


@ON_ANY_MACHINE
@given(JSON, JSON, ARGUMENTS, st.booleans())
def test_any_message_makes_an_offered_choice_or_none(content: Any, calls: Any, arguments: Any, call: bool) -> None:
    """A choice is one of those that were offered, and it stood in the answer."""
    made = {"function": {"name": "select_choice", "arguments": json.dumps(arguments)}}
    message = {"content": content, "tool_calls": [made] if call else calls}
    found = attempted(choice_of, answer(message), CHOICES)
    if isinstance(found, JudgeProblem):
        assert found.code == "judge-unparsable"
    else:
        assert found.choice in CHOICES
        assert found.choice in json.dumps(message)


@ON_ANY_MACHINE
@given(ARGUMENTS, st.integers(min_value=0, max_value=60))
def test_a_cut_answer_is_no_choice(arguments: dict[str, Any], end: int) -> None:
    """Arguments that are cut anywhere make no choice."""
    whole = json.dumps({**arguments, "choice": "Y"})
    cut = whole[: min(end, len(whole) - 1)]
    made = {"function": {"name": "select_choice", "arguments": cut}}
    found = attempted(choice_of, answer({"tool_calls": [made]}), CHOICES)
    assert isinstance(found, JudgeProblem)
    assert found.code == "judge-unparsable"
