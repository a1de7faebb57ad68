"""Where the judgements of one run are made: what they share is their connections, and how many there are at once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace

from niceeval._evidence.prices import Price
from niceeval._judging.judging import JudgeClients, judge_once
from niceeval._judging.outcome import JudgeOutcome, JudgeProblem
from niceeval._judging.recipes import Recipe
from niceeval._judging.resolving import resolve
from niceeval._model.judge import DEFAULT_CONCURRENCY, JudgeConfig, JudgeMaterial

_ANY_MODEL = "any"


class JudgeDesk:
    """Makes judgements within each judge's own limit. Used on one event loop; close it where it was made."""

    def __init__(self, pricing: tuple[Mapping[str, Price], ...] = (), environ: Mapping[str, str] | None = None) -> None:
        self._pricing = pricing
        self._environ = os.environ if environ is None else environ
        self._clients = JudgeClients()
        self._limits: dict[JudgeConfig | None, asyncio.Semaphore] = {}

    async def judge(self, recipe: Recipe, material: JudgeMaterial, config: JudgeConfig | None) -> JudgeOutcome:
        """One judgement, when it is its turn. Never raises for what a configuration or a service is like."""
        try:
            judge = resolve(config, self._environ, self._pricing)
        except JudgeProblem as problem:
            return JudgeOutcome(code=problem.code, message=str(problem), model=None if config is None else config.model)
        async with self.limit(config):
            return await judge_once(recipe, material, judge, self._clients)

    def limit(self, config: JudgeConfig | None) -> asyncio.Semaphore:
        """What bounds this judge's judgements; a call's own model has the limit of the judge that it stands in for."""
        key = None if config is None else replace(config, model=_ANY_MODEL)
        if key not in self._limits:
            most = DEFAULT_CONCURRENCY if config is None else config.max_concurrency
            self._limits[key] = asyncio.Semaphore(most)
        return self._limits[key]

    async def close(self) -> None:
        """Close every connection."""
        await self._clients.close()
