"""Usages that type checkers accept; `test_authoring_types.py` runs mypy over this file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from niceeval import EvalContext, EvalInfo, Price, define_config, define_eval, define_experiment
from niceeval.adapter import AgentContext, Turn, TurnInput, complete_evidence_coverage, define_agent


@dataclass
class Row:
    city: str


@define_eval(description="plain", tags=["smoke"], timeout=5, metadata={"owner": "x"})
async def plain(t: EvalContext) -> None: ...


@define_eval()
async def bare(t: EvalContext) -> None: ...


@define_eval(cases=[{"city": "Oslo"}], description=lambda row: str(row))
async def by_sequence(t: EvalContext, row: Row) -> None: ...


@define_eval(cases={"oslo": Row("Oslo")})
async def by_mapping(t: EvalContext, row: Row) -> None: ...


@define_eval(cases=[1, 2], description="text")
async def untyped_row(t: EvalContext, row: Any) -> None: ...


@define_eval(cases=[{"a": 1}])
async def mapping_row(t: EvalContext, row: Mapping[str, int]) -> None: ...


async def send(input: TurnInput, ctx: AgentContext) -> Turn:
    return Turn()


def only_smoke(info: EvalInfo) -> bool:
    return "smoke" in info.tags


async def start() -> None: ...


def stop() -> None: ...


agent = define_agent(name="bot", evidence_coverage=complete_evidence_coverage, send=send)
experiment = define_experiment(agent=agent, evals="*", flags={"a": [1]}, setup=start, teardown=stop, runs=3)
experiments = {size: experiment.replace(model=f"acme-{size}", evals=["sql"]) for size in ("s", "l")}
chosen = define_experiment(agent=agent, evals=only_smoke)
config = define_config(name="x", timeout=5, pricing={"acme-1": Price(input_per_mtok=1.0, output_per_mtok=2.0)})
