"""niceeval measures AI agents: write evals, run them under experiments, and see why a case failed.

Names are imported when they are first used, so that `import niceeval` costs next to nothing.
"""

from __future__ import annotations

import importlib

from niceeval._version import __version__

# Type checkers take a name like this for true; importing `typing` for it would cost 25 modules.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from niceeval._discover.define_config import define_config
    from niceeval._discover.define_eval import define_eval
    from niceeval._discover.define_experiment import define_experiment
    from niceeval._discover.specs import EvalInfo
    from niceeval._drive.context import EvalContext
    from niceeval._drive.structured import JsonSchema
    from niceeval._evidence.prices import Price
    from niceeval._model.failure import EvalFatalError, ExperimentFatalError
    from niceeval._model.judge import JudgeConfig, JudgeMaterial

__all__ = [
    "EvalContext",
    "EvalFatalError",
    "EvalInfo",
    "ExperimentFatalError",
    "JsonSchema",
    "JudgeConfig",
    "JudgeMaterial",
    "Price",
    "__version__",
    "define_config",
    "define_eval",
    "define_experiment",
]

_HOMES = {
    "EvalContext": "niceeval._drive.context",
    "EvalFatalError": "niceeval._model.failure",
    "EvalInfo": "niceeval._discover.specs",
    "ExperimentFatalError": "niceeval._model.failure",
    "JsonSchema": "niceeval._drive.structured",
    "JudgeConfig": "niceeval._model.judge",
    "JudgeMaterial": "niceeval._model.judge",
    "Price": "niceeval._evidence.prices",
    "define_config": "niceeval._discover.define_config",
    "define_eval": "niceeval._discover.define_eval",
    "define_experiment": "niceeval._discover.define_experiment",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
