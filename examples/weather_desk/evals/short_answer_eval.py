"""Where the two experiments differ: the verbose desk needs more words than this eval allows.

The limit is on tokens; this service counts words and reports them in their place.
"""

from niceeval import EvalContext, define_eval


@define_eval(description="A forecast takes at most 20 words, question included")
async def short_answer(t: EvalContext) -> None:
    turn = await t.send("What's the weather in Brooklyn tomorrow?")
    turn.succeeded()
    turn.max_tokens(20)
    turn.message_includes("umbrella").at_least(1).label("gives advice")
