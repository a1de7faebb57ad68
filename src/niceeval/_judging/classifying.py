"""autoevals' classifiers through a client of ours. It imports the extra `judges`: only `judging` does, when it asks.

Left alone, the library retries a 429 a hundred times, sends models named `gpt-5...` to another endpoint and loses their
usage, and reads no JSON that is not a function's arguments; a client of its own kind decides all of that here.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import openai
from autoevals.llm import ClosedQA, Factuality, LLMClassifier  # type: ignore[import-untyped]
from autoevals.oai import LLMClient  # type: ignore[import-untyped]

from niceeval._judging.outcome import call_failed
from niceeval._judging.reading_answers import TOOL, Choice, choice_of, completion, usage_of
from niceeval._judging.recipes import Recipe
from niceeval._judging.resolving import DEFAULT_BASE_URL, ResolvedJudge
from niceeval._model.judge import JudgeMaterial
from niceeval._model.usage import Usage

RETRY_PAUSES: Final = (0.5, 2.0, 8.0)
"""Seconds before each further try after a fault of the transport, where the service does not say how long."""
_ACCOUNT_HEADERS: Final = ("OpenAI-Organization", "OpenAI-Project")
MAX_BODY: Final = 4 * 1024 * 1024
"""Characters of an answer that are read; a longer one is no judgement."""


@dataclass(slots=True)
class Exchange:
    """What went to and fro for one judgement. `until` is the instant (monotonic) by which it must be over."""

    choices: tuple[str, ...]
    until: float
    prompt: str = ""
    answer: str = ""
    usages: list[Usage | None] = field(default_factory=list)
    choice: Choice | None = None
    fault: str = ""


class _NeverRaised(Exception):
    """In place of the error that the library would retry by itself."""


class JudgeClient(LLMClient):  # type: ignore[misc]
    """The library's client for one judgement: one request in one form, bounded retries, and every answer kept."""

    def __init__(self, client: openai.AsyncOpenAI, exchange: Exchange) -> None:
        # Before the library may wrap the client to trace it.
        self._create = client.chat.completions.with_raw_response.create
        self._exchange = exchange
        super().__init__(openai=client, is_async=True)
        self.RateLimitError = _NeverRaised
        self.complete = self._complete

    async def _complete(self, **request: Any) -> dict[str, Any]:
        exchange = self._exchange
        for extra in ("use_responses_api", "span_info"):
            request.pop(extra, None)
        exchange.prompt = request["messages"][0]["content"]
        body = await self._answered(request)
        exchange.answer = body[:MAX_BODY]
        if len(body) > MAX_BODY:
            raise call_failed(f"the answer has {len(body):,} characters; {MAX_BODY:,} are read")
        try:
            response = completion(body)
        finally:
            exchange.usages.append(_usage(body))
        exchange.choice = choice_of(response, exchange.choices)
        return _as_call(exchange.choice)

    async def _answered(self, request: dict[str, Any]) -> str:
        """The body of the first answer that is one; faults of the transport are tried again while there is time."""
        for pause in (*RETRY_PAUSES, None):
            try:
                # `text` may only be asked of the response itself: parsing it would raise on what is no completion.
                return str((await self._create(**request)).http_response.text)
            except (openai.APIConnectionError, openai.RateLimitError, openai.InternalServerError) as error:
                self._exchange.fault = said(error)
                wait = _wait(error, pause)
                if wait is None or time.monotonic() + wait >= self._exchange.until:
                    raise
                await asyncio.sleep(wait)
        raise AssertionError("the last try returns or raises")


async def classify(
    recipe: Recipe, material: JudgeMaterial, judge: ResolvedJudge, client: openai.AsyncOpenAI, exchange: Exchange
) -> float:
    """The score of the choice that the model makes. Raises what the request raises, and JudgeProblem."""
    asked = {"input": material.input, "output": material.output, **recipe.rubric, **recipe.reference}
    score = await _classifier(recipe, judge.model, JudgeClient(client, exchange)).eval_async(**asked)
    return float(score.score)


def open_client(judge: ResolvedJudge) -> openai.AsyncOpenAI:
    """A client for one endpoint and key. It never retries: that is bounded here. Close it where it was opened."""
    # An account that the library finds in the environment is named to nobody but its own service.
    account = {} if judge.base_url == DEFAULT_BASE_URL else dict.fromkeys(_ACCOUNT_HEADERS, openai.Omit())
    return openai.AsyncOpenAI(
        api_key=judge.api_key,
        base_url=judge.base_url,
        timeout=judge.timeout,
        max_retries=0,
        default_headers=cast(Mapping[str, str], account),
    )


def said(error: BaseException) -> str:
    """What a failed request is told as; no body of a refused key, which may repeat a part of it."""
    if isinstance(error, openai.APITimeoutError):
        return "the service did not answer in time"
    if isinstance(error, openai.APIConnectionError):
        return f"the service was not reached: {error.__cause__ or error}"
    if isinstance(error, (openai.AuthenticationError, openai.PermissionDeniedError)):
        return f"the service did not accept the key ({error.status_code})"
    if isinstance(error, openai.APIStatusError):
        return f"the service answered {error.status_code}: {error.message}"
    return f"{type(error).__name__}: {error}"


def _classifier(recipe: Recipe, model: str, client: JudgeClient) -> Any:
    if recipe.kind == "closed_qa":
        return ClosedQA(model=model, client=client)
    if recipe.kind == "factuality":
        return Factuality(model=model, client=client)
    return LLMClassifier(recipe.name, recipe.template, dict(recipe.scores), model=model, client=client)


def _as_call(choice: Choice) -> dict[str, Any]:
    """The choice in the one form that the library reads."""
    arguments = json.dumps({"choice": choice.choice, "reasons": choice.rationale or ""})
    call = {"id": "choice", "type": "function", "function": {"name": TOOL, "arguments": arguments}}
    return {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [call]}}]}


def _usage(body: str) -> Usage | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return usage_of(value) if isinstance(value, dict) else None


def _wait(error: openai.APIError, pause: float | None) -> float | None:
    """Seconds until the next try: what the service asks for, else the pause; None where there is none."""
    if pause is None:
        return None
    headers = error.response.headers if isinstance(error, openai.APIStatusError) else {}
    try:
        return max(float(headers.get("retry-after", pause)), 0.0)
    except ValueError:  # a date: the pause is as good
        return pause
