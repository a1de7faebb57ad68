"""`define_config(...)`: the project's defaults, in `niceeval_config.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from niceeval._base.arguments import Arguments
from niceeval._base.places import author_place
from niceeval._discover.define_experiment import sandbox_argument
from niceeval._discover.specs import ConfigSpec
from niceeval._evidence.prices import Price
from niceeval._model.judge import JudgeConfig, judge_argument
from niceeval._model.sandbox import SandboxSpec

if TYPE_CHECKING:
    from niceeval._reporters.protocol import Reporter


def define_config(
    *,
    name: str | None = None,
    max_concurrency: int | None = None,
    timeout: float | None = None,
    pricing: Mapping[str, Price] | None = None,
    reporters: Sequence[Reporter] = (),
    sandbox: SandboxSpec | None = None,
    judge: JudgeConfig | None = None,
) -> ConfigSpec:
    """The project's defaults: assign it to `config` in `niceeval_config.py`.

    `name` is shown above a run. `max_concurrency`: attempts at the same time (10 where nothing is said). `timeout`:
    seconds for one attempt (600). `pricing`: `{"acme-1": Price(...), "acme/*": Price(...)}`, for models whose cost is
    not measured. `reporters`: objects that are told what happens in every run (`niceeval.reporters`). `sandbox`: where
    the commands of sandbox agents run, in experiments that say nothing of it (`niceeval.sandbox`). `judge`: which model
    judges where neither the eval nor the experiment names one.

    Raises ProjectError (`bad-argument`).
    """
    values = {
        "name": name,
        "max_concurrency": max_concurrency,
        "timeout": timeout,
        "pricing": pricing,
        "reporters": reporters,
        "sandbox": sandbox,
        "judge": judge,
    }
    arguments = Arguments("define_config", author_place(), values)
    prices = arguments.mapping("pricing", lambda value: isinstance(value, Price), "a Price")
    return ConfigSpec(
        name=arguments.text("name"),
        max_concurrency=arguments.count("max_concurrency"),
        timeout=arguments.seconds("timeout"),
        pricing=cast(dict[str, Price], prices),
        reporters=arguments.reporters("reporters"),
        sandbox=sandbox_argument(arguments),
        judge=judge_argument(arguments),
    )
