"""One judgement: a recipe and its material go to a model, and a score or the reason why there is none comes back.

judge = resolve(JudgeConfig(model="acme-judge"), os.environ)
outcome = await judge_once(closed_qa("names a borough"), JudgeMaterial(output="In Queens."), judge)
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import time
from collections.abc import Sequence
from decimal import Decimal
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from niceeval._base.plain_text import clean_text
from niceeval._base.redaction import Redactor
from niceeval._evidence.prices import turn_cost
from niceeval._judging.outcome import (
    MAX_ANSWER,
    MAX_PROBLEM,
    MAX_PROMPT,
    MAX_RATIONALE,
    JudgeCode,
    JudgeOutcome,
    JudgeProblem,
    call_failed,
)
from niceeval._judging.recipes import Recipe
from niceeval._judging.resolving import NO_KEY, ResolvedJudge
from niceeval._model.judge import JudgeMaterial
from niceeval._model.usage import Usage, add_usage

if TYPE_CHECKING:
    import openai

MAX_MATERIAL: Final = 1_000_000
"""Characters of material that are sent; more is not judged at all, since a part of it would be judged otherwise."""

_PACKAGES: Final = ("autoevals", "openai")


class JudgeClients:
    """One connection pool for each endpoint and key of a run. Close it where it was made: `async with` does."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], openai.AsyncOpenAI] = {}

    async def client(self, judge: ResolvedJudge) -> openai.AsyncOpenAI:
        """The judge's client. Raises JudgeProblem (`judge-not-configured`) without the extra."""
        key = (judge.base_url, judge.api_key)
        if key not in self._open:
            classifying = await _classifying()
            # Another judgement may have come first while this one waited.
            if key not in self._open:
                self._open[key] = classifying.open_client(judge)
        return self._open[key]

    async def close(self) -> None:
        """Close every connection."""
        while self._open:
            await self._open.popitem()[1].close()

    async def __aenter__(self) -> JudgeClients:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def judge_once(
    recipe: Recipe, material: JudgeMaterial, judge: ResolvedJudge, clients: JudgeClients | None = None
) -> JudgeOutcome:
    """Ask once. Never raises for what a service does: without an answer there is a code, and no score.

    Without `clients` a connection is made for this judgement alone. Faults of the transport (no connection, 429, 5xx)
    are tried again within the judge's timeout; nothing else is.
    """
    if clients is None:
        async with JudgeClients() as own:
            return await judge_once(recipe, material, judge, own)
    hide = Redactor([] if judge.api_key == NO_KEY else [judge.api_key])
    try:
        if len(material.output) + len(material.input) > MAX_MATERIAL:
            characters = len(material.output) + len(material.input)
            raise call_failed(f"the material has {characters:,} characters; a judge is given up to {MAX_MATERIAL:,}")
        client = await clients.client(judge)
        classifying = await _classifying()
    except JudgeProblem as problem:
        return _without_score(problem.code, str(problem), judge, hide)
    exchange = classifying.Exchange(choices=tuple(recipe.scores), until=time.monotonic() + judge.timeout)
    score, code, message = await _asked(classifying, recipe, material, judge, client, exchange)
    usage, cost = _spent(exchange.usages, judge)
    return JudgeOutcome(
        score=score,
        code=code,
        message=None if message is None else _kept(message, MAX_PROBLEM, hide),
        choice=exchange.choice.choice if score is not None and exchange.choice else None,
        rationale=_kept(exchange.choice.rationale or "", MAX_RATIONALE, hide) or None if exchange.choice else None,
        prompt=_kept(exchange.prompt, MAX_PROMPT, hide) or None,
        answer=_kept(exchange.answer, MAX_ANSWER, hide) or None,
        model=judge.model,
        base_url=judge.base_url,
        usage=usage,
        cost=cost,
    )


async def _asked(
    classifying: ModuleType,
    recipe: Recipe,
    material: JudgeMaterial,
    judge: ResolvedJudge,
    client: openai.AsyncOpenAI,
    exchange: Any,
) -> tuple[float | None, JudgeCode | None, str | None]:
    """The score, or the code and the words."""
    try:
        async with asyncio.timeout(judge.timeout):
            return await classifying.classify(recipe, material, judge, client, exchange), None, None
    except JudgeProblem as problem:
        return None, problem.code, str(problem)
    except TimeoutError:
        last = f"; before that, {exchange.fault}" if exchange.fault else ""
        return None, "judge-call-failed", f"no answer within {judge.timeout:g} s{last}"
    except Exception as error:  # noqa: BLE001 - two libraries and a network: whatever they raise is no score
        return None, "judge-call-failed", classifying.said(error)


async def _classifying() -> ModuleType:
    """The module that needs the extra. Importing it takes seconds, so a thread does.

    Raises JudgeProblem (`judge-not-configured`).
    """
    missing = [package for package in _PACKAGES if importlib.util.find_spec(package) is None]
    if missing:
        problem = f"judges need {' and '.join(missing)}, not installed: pip install 'niceeval[judges]'"
        raise JudgeProblem("judge-not-configured", problem)
    return await asyncio.to_thread(importlib.import_module, "niceeval._judging.classifying")


def _spent(usages: Sequence[Usage | None], judge: ResolvedJudge) -> tuple[Usage | None, Decimal | None]:
    """What the answered requests used and cost; the cost is not known where one of them says nothing."""
    usage = add_usage(known for known in usages if known is not None)
    if usage is None or None in usages:
        return usage, None
    return usage, turn_cost(usage, judge.model, judge.pricing)[0]


def _without_score(code: JudgeCode, message: str, judge: ResolvedJudge, hide: Redactor) -> JudgeOutcome:
    return JudgeOutcome(
        code=code, message=_kept(message, MAX_PROBLEM, hide), model=judge.model, base_url=judge.base_url
    )


def _kept(text: str, limit: int, hide: Redactor) -> str:
    """Cut before it is searched: the search knows what a secret looks like that a cut went through."""
    return hide(clean_text(text, limit)[0])
