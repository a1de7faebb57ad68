"""Real agents of Google's ADK over models that say what a test wrote."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types

USED = types.GenerateContentResponseUsageMetadata(
    prompt_token_count=112, cached_content_token_count=5, candidates_token_count=6, thoughts_token_count=3
)


class Scripted(BaseLlm):
    """Gives its answers in turn: a response, several in a row, or an exception. `heard` are its requests."""

    answers: list[Any]
    heard: list[Any]

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        self.heard.append(llm_request)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        for response in answer if isinstance(answer, list) else [answer]:
            yield response


def scripted(*answers: Any) -> Scripted:
    return Scripted(model="scripted", answers=list(answers), heard=[])


def agent(*answers: Any, name: str = "desk", **given: Any) -> LlmAgent:
    return LlmAgent(name=name, model=scripted(*answers), **given)


def says(*parts: Any, **given: Any) -> LlmResponse:
    """An answer of texts and parts."""
    made = [types.Part(text=part) if isinstance(part, str) else part for part in parts]
    return LlmResponse(content=types.Content(role="model", parts=made), **{"usage_metadata": USED, **given})


def call(id: str, name: str, /, **args: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id=id, name=name, args=args))


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def delete(path: str) -> str:
    """Delete."""
    return f"deleted {path}"


def raises(why: str) -> str:
    """Raise."""
    raise ValueError(why)


class Desk(Scripted):
    """Reads the conversation: adds, fails, deletes, recalls what came first, and repeats anything else."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        yield self._answer(llm_request.contents)

    def _answer(self, contents: list[Any]) -> LlmResponse:
        last, number = contents[-1].parts[0], len(contents)
        if last.function_response is not None:
            return says(f"So: {last.function_response.response}")
        words = last.text.split()
        if words[0] == "add":
            return says(call(f"{number}", "add", a=1, b=2))
        if words[0] == "bad":
            return says(call(f"{number}", "add", a=1))
        if words[0] == "delete":
            return says(*(call(f"{number}-{path}", "delete", path=path) for path in words[1:]))
        return says(contents[0].parts[0].text if words[0] == "recall" else last.text)


def desk(**given: Any) -> LlmAgent:
    return LlmAgent(name="desk", model=Desk(model="desk", answers=[], heard=[]), **given)
