"""The same question twice: did the desk shorten its context? Its API has no place to say so.

Not having seen it proves nothing, so the assertion is `unavailable`. Where it counts, that makes the attempt `errored`;
`.optional()` keeps it in view and lets the other assertions decide.
"""

from niceeval import EvalContext, define_eval


@define_eval(description="Comes out errored: the evidence cannot answer this")
async def required(t: EvalContext) -> None:
    turn = await t.send("What's the weather in Lagos today?")
    turn.succeeded()
    t.not_event("compaction")


@define_eval(description="The same, where the assertion may stay unanswered")
async def optional(t: EvalContext) -> None:
    turn = await t.send("What's the weather in Lagos today?")
    turn.succeeded()
    t.not_event("compaction").optional()
