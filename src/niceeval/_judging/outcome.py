"""What one judgement came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from niceeval._model.usage import Usage

JudgeCode: TypeAlias = Literal["judge-not-configured", "judge-call-failed", "judge-unparsable"]

MAX_PROMPT: Final = 20_000
"""Characters of a prompt that are kept."""
MAX_ANSWER: Final = 20_000
"""Characters of a raw answer that are kept."""
MAX_RATIONALE: Final = 4_000
"""Characters of a rationale that are kept."""
MAX_PROBLEM: Final = 400
"""Characters of what went wrong that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOutcome:
    """A score in [0, 1], or the code and the words why there is none: exactly one of `score` and `code` is set.

    `choice` is the one of the recipe's that the model made, `rationale` its reasons, `prompt` and `answer` what went to
    and fro; all bounded text. `usage` and `cost` (US dollars, None: not known) count every request that was answered,
    also where its answer could not be read.
    """

    score: float | None = None
    code: JudgeCode | None = None
    message: str | None = None
    choice: str | None = None
    rationale: str | None = None
    prompt: str | None = field(default=None, repr=False)
    answer: str | None = field(default=None, repr=False)
    model: str | None = None
    base_url: str | None = None
    usage: Usage | None = None
    cost: Decimal | None = None


class JudgeProblem(Exception):
    """Why there is no score. `code` is what the outcome gets, the text what people read."""

    def __init__(self, code: JudgeCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def unparsable(message: str) -> JudgeProblem:
    """The model answered, and the answer holds no choice that can be read."""
    return JudgeProblem("judge-unparsable", message)


def call_failed(message: str) -> JudgeProblem:
    """The model was not reached, or did not answer."""
    return JudgeProblem("judge-call-failed", message)
