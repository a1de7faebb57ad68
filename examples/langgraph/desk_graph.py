"""The agent under test: a travel desk made with LangGraph. It knows nothing of niceeval."""

from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ToolCallRequest, wrap_tool_call
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.types import interrupt

from desk_model import DeskModel

CAREFUL = "You book flights. Look a flight up before you book it."
HASTY = "You book flights. Be quick."
FLIGHTS = {"AB12": "at 9:30", "CD34": "at 18:05"}


@tool
def find_flight(flight: str) -> str:
    """When a flight leaves."""
    if flight not in FLIGHTS:
        raise LookupError(f"there is no flight {flight}")
    return f"{flight} leaves {FLIGHTS[flight]}."


@tool
def book(flight: str) -> str:
    """Book a flight. A person has to approve."""
    return f"{flight} is booked."


@tool
def ask_traveller(question: str) -> str:
    """Ask the traveller something."""
    return str(interrupt(question))


@wrap_tool_call
def tell_the_model(request: ToolCallRequest, handler: Any) -> Any:
    """What a tool raises goes to the model, and does not end the run."""
    try:
        return handler(request)
    except LookupError as error:
        return ToolMessage(f"That went wrong: {error}", tool_call_id=request.tool_call["id"], status="error")


def travel_desk(instructions: str = CAREFUL) -> Any:
    """The desk, with instructions of its own."""
    return create_agent(
        DeskModel(),
        [find_flight, book, ask_traveller],
        system_prompt=instructions,
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"book": True}), tell_the_model],
        name="travel-desk",
    )
