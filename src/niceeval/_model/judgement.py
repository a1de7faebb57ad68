"""One judgement as it is stored (`judgements.json` of an attempt): what was asked, and what was answered."""

from __future__ import annotations

import msgspec

from niceeval._model.usage import Usage


class StoredJudgement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """`assertion` is its place among the result's, from 0. A score, or a code and a message why there is none.

    `prompt` and `answer` are what went to and fro, bounded and redacted; a judgement by a function of the author's has
    none. `answer` is the raw body.
    """

    assertion: int
    name: str
    recipe: str
    model: str | None = None
    score: float | None = None
    code: str | None = None
    message: str | None = None
    choice: str | None = None
    rationale: str | None = None
    prompt: str | None = None
    answer: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = msgspec.field(default=None, name="costUSD")
