"""Scenarios that are ready to use."""

from __future__ import annotations

from niceeval.testing._model_server.model_request import ModelRequest
from niceeval.testing._model_server.scenario import Scenario, without_markers
from niceeval.testing._model_server.steps import Step, cut, empty, fail, rate_limited, say, slow

NOTHING = "nothing"
"""What `recall` answers in a new conversation."""


def what_was_said(request: ModelRequest) -> Step:
    """A step: it says what it finds of the user's earlier turns, or `nothing`."""
    texts = [found for text in request.earlier_texts if (found := without_markers(text))]
    return say(f"You said: {' | '.join(texts)}" if texts else NOTHING)


RECALL = Scenario("recall", [what_was_said], repeats=True)
"""Proves that a second turn sees the first, and that a new session does not."""

HELLO = Scenario("hello", [say("Hello from the script.")], repeats=True)
"""Answers every turn with the same words."""

READY_MADE = (
    HELLO,
    RECALL,
    Scenario("empty", [empty()], repeats=True),
    Scenario("error", [fail(500, "scripted error")], repeats=True),
    Scenario("rate-limited", [rate_limited(1, say("After the limit."))], repeats=True),
    Scenario("slow", [slow(say("This takes a while."), 1.0)], repeats=True),
    Scenario("cut", [cut(say("This never ends."))], repeats=True),
)
"""Scenarios that need no tool: `model_server(*READY_MADE, *yours)`."""
