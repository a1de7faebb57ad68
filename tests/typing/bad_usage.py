"""Usages that type checkers refuse, each on a line that says so; `test_authoring_types.py` compares."""

from __future__ import annotations

from typing import Any

from niceeval import EvalContext, define_config, define_eval, define_experiment


@define_eval()  # wrong: a row without cases=
async def row_without_cases(t: EvalContext, row: dict[str, Any]) -> None: ...


@define_eval(cases=[1])  # wrong: cases= without a row
async def cases_without_row(t: EvalContext) -> None: ...


@define_eval()  # wrong: no parameter
async def no_parameter() -> None: ...


@define_eval()  # wrong: a plain function
def plain_function(t: EvalContext) -> None: ...


@define_eval()  # wrong: `t` is something else
async def wrong_t(t: int) -> None: ...


define_eval(description=lambda row: "x")  # wrong: a function of the row without rows
define_eval(cases=3)  # wrong: no rows
define_eval(judge="x")  # wrong: no such parameter
define_eval(timeout="5")  # wrong: seconds are a number
define_experiment(agent=print)  # wrong: not an Agent
define_experiment()  # wrong: no agent
define_config(pricing={"acme-1": 3})  # wrong: not a Price
