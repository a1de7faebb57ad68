from niceeval import EvalContext, JudgeMaterial, define_eval

ARTICLE = """JFK airport opened in 1948 in the borough of Queens, on what had been a marsh and a golf course."""


@define_eval(description="a fact, judged by a criterion and against an answer")
async def borough(t: EvalContext) -> None:
    turn = await t.send("Which borough of New York is JFK airport in?")
    turn.judge.closed_qa("names the borough").gate()
    turn.judge.factuality("It is in Queens.").at_least(0.6)


@define_eval(description="a summary, against the text that it is of")
async def history(t: EvalContext) -> None:
    turn = await t.send("Sum up the airport's history.")
    turn.judge.summarizes(ARTICLE).at_least(0.5)
    t.judge.custom("short", _is_short).gate()


@define_eval(description="manners: grades of your own, and code that depends on one")
async def manners(t: EvalContext) -> None:
    turn = await t.send("Which borough is it in?")
    score = await turn.judge.rubric("manners", "greets the person", {"warm": 1, "plain": 0.5, "rude": 0}).settle()
    if score is not None and score < 1:
        await t.send("Please be friendlier: which borough?")


def _is_short(material: JudgeMaterial) -> bool:
    return len(material.output) < 400
