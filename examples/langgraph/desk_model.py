"""What stands for a model: code that reads the conversation as a model would, so that no key is needed."""

import re
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

FLIGHT = re.compile(r"\b[A-Z]{2}\d+\b")


class DeskModel(BaseChatModel):
    """The model of the travel desk."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **given: Any) -> "DeskModel":
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **given: Any) -> ChatResult:
        answer = _answer(messages)
        words = sum(len(message.text.split()) for message in messages)
        answer.usage_metadata = {"input_tokens": words, "output_tokens": 5, "total_tokens": words + 5}
        return ChatResult(generations=[ChatGeneration(message=answer)])


def _answer(messages: list[BaseMessage]) -> AIMessage:
    asked = [message.text for message in messages if isinstance(message, HumanMessage)]
    results = _results(messages)
    if results:
        return _go_on(asked[-1], results, len(messages))
    if "ask" in asked[-1]:
        return AIMessage(f"You asked before: {asked[-2] if len(asked) > 1 else 'nothing'}")
    flights = FLIGHT.findall(asked[-1])
    if not flights:
        return _calls("ask_traveller", [{"question": "Which flight?"}], len(messages))
    looks_first = "Look a flight up" in messages[0].text or "book" not in asked[-1]
    return _calls("find_flight" if looks_first else "book", [{"flight": flight} for flight in flights], len(messages))


def _go_on(asked: str, results: list[ToolMessage], number: int) -> AIMessage:
    last = results[-1].name
    if last == "ask_traveller":
        return _calls("find_flight", [{"flight": flight} for flight in FLIGHT.findall(results[-1].text)], number)
    found = [flight for result in results if result.status == "success" for flight in FLIGHT.findall(result.text)]
    if last == "find_flight" and "book" in asked and found:
        return _calls("book", [{"flight": flight} for flight in found], number)
    return AIMessage(" ".join(result.text for result in results))


def _results(messages: list[BaseMessage]) -> list[ToolMessage]:
    """The results at the end of the conversation."""
    found: list[ToolMessage] = []
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            break
        found.insert(0, message)
    return found


def _calls(tool: str, arguments: list[dict[str, Any]], number: int) -> AIMessage:
    calls = [ToolCall(name=tool, args=given, id=f"{tool}-{number}-{n}") for n, given in enumerate(arguments)]
    return AIMessage("", tool_calls=calls)
