"""A desk that answers questions about a city: what is judged."""

from __future__ import annotations

from niceeval.adapter import Agent, AgentContext, Coverage, EvidenceCoverage, Message, Turn, TurnInput, define_agent

ANSWERS = {
    "borough": "I am glad to help: JFK airport is in Queens.",
    "history": "JFK airport opened in 1948, on a marsh in Queens.",
}


def desk(*, wrong: bool = False) -> Agent:
    """One that knows its city, or one that does not."""

    def send(input: TurnInput, ctx: AgentContext) -> Turn:
        topic = next((topic for topic in ANSWERS if topic in input.text.lower()), None)
        text = ANSWERS[topic] if topic and not wrong else "It is in Newark."
        return Turn(events=[Message(role="assistant", text=text)])

    coverage = EvidenceCoverage.complete_except(usage=Coverage.unavailable("it calls no model"))
    return define_agent(name="city-desk", evidence_coverage=coverage, send=send)
