"""Real agents of LangChain and LangGraph over models that say what a test wrote."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.types import interrupt

USAGE: Any = {
    "input_tokens": 112,
    "output_tokens": 9,
    "total_tokens": 121,
    "input_token_details": {"cache_read": 5, "cache_creation": 7},
    "output_token_details": {"reasoning": 3},
}


class Scripted(BaseChatModel):
    """Gives its answers in turn; what is an exception is raised. `heard` are the messages of each call."""

    answers: list[Any]
    heard: list[Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **given: Any) -> Scripted:  # type: ignore[override]
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **given: Any) -> ChatResult:
        self.heard.append(list(messages))
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return ChatResult(generations=[ChatGeneration(message=answer)])


def scripted(*answers: Any) -> Scripted:
    return Scripted(answers=list(answers), heard=[])


def says(content: Any, *calls: tuple[str, str, dict[str, Any]], **given: Any) -> AIMessage:
    """An answer of a model, with calls as id, tool and arguments."""
    made = [{"id": id, "name": name, "args": args, "type": "tool_call"} for id, name, args in calls]
    return AIMessage(content, tool_calls=made, **given)


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def delete(path: str) -> str:
    """Delete."""
    return f"deleted {path}"


@tool
def raises(why: str) -> str:
    """Raise."""
    raise ValueError(why)


@tool
def ask(question: str) -> str:
    """Ask a person."""
    return f"they said {interrupt(question)}"


class Desk(Scripted):
    """Reads the conversation: adds, fails, deletes, recalls what came first, and repeats anything else."""

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **given: Any) -> ChatResult:
        answer = self._answer(messages)
        answer.usage_metadata = USAGE
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def _answer(self, messages: Any) -> AIMessage:
        last, number = messages[-1], len(messages)
        asked = [message.text for message in messages if message.type == "human"]
        if last.type == "tool":
            return AIMessage(f"So: {last.text}")
        words = last.text.split()
        if words[0] == "add":
            return says("", (f"{number}", "add", {"a": 1, "b": 2}))
        if words[0] == "bad":
            return says("", (f"{number}", "add", {"a": "one", "b": 2}))
        if words[0] == "delete":
            return says("", *((f"{number}-{path}", "delete", {"path": path}) for path in words[1:]))
        return AIMessage(asked[0] if words[0] == "recall" else last.text)


def desk() -> Desk:
    return Desk(answers=[], heard=[])
