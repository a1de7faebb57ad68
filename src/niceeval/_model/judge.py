"""What a judge is asked with: the model that answers, and the material that it sees."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from niceeval._base.arguments import Arguments, described
from niceeval._base.errors import ProjectError
from niceeval._base.places import author_place

DEFAULT_TIMEOUT: Final = 180.0
"""Seconds that one judgement may take, its retries included."""
DEFAULT_CONCURRENCY: Final = 8
"""Judgements of one judge at the same time in one run."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, init=False)
class JudgeConfig:
    """Which model judges, and where: `judge=` of an eval, an experiment or the project. There is no default model.

    `base_url`: an endpoint that speaks OpenAI's chat completions, or a function that gives it when it is needed (of a
    server that the experiment's `setup` starts); None is OpenAI's own. `api_key_env`: the *name* of
    the environment variable that holds the key; None is `NICEEVAL_JUDGE_KEY`. `timeout`: seconds for one judgement, its
    retries included. `require_calibration`: a judge that gates without a current calibration is an error.
    `max_concurrency`: judgements at the same time in one run.

    Raises ProjectError (`bad-argument`).
    """

    model: str
    base_url: str | Callable[[], str] | None
    api_key_env: str | None
    timeout: float
    require_calibration: bool
    max_concurrency: int

    # Written out, since a generated one would stand between the author's line and the check that names it.
    def __init__(
        self,
        model: str,
        base_url: str | Callable[[], str] | None = None,
        api_key_env: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        require_calibration: bool = False,
        max_concurrency: int = DEFAULT_CONCURRENCY,
    ) -> None:
        values = {
            "model": model,
            "base_url": base_url,
            "api_key_env": api_key_env,
            "timeout": timeout,
            "require_calibration": require_calibration,
            "max_concurrency": max_concurrency,
        }
        arguments = Arguments("JudgeConfig", author_place(), values)
        if arguments.text("model") is None:
            raise arguments.error("model", "is None; there is no default model", 'JudgeConfig(model="...")')
        _require_url(arguments)
        _require_variable(arguments)
        values["timeout"] = arguments.seconds("timeout")
        if values["timeout"] is None:
            raise arguments.error("timeout", "is None; it is a positive number of seconds", "timeout=180")
        arguments.flag("require_calibration")
        arguments.required_count("max_concurrency")
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeMaterial:
    """What a judge sees: `output` is judged; `input` is what was asked for. Both are text, and may be empty.

    `note` says what is not whole about it, where something is not.
    """

    output: str
    input: str = ""
    note: str | None = None


def url_problem(url: object) -> str | None:
    """Why this is no address to ask a judge at; None where it is one."""
    if not isinstance(url, str):
        return f"is {described(url)}; it is an http or https address"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        return f"is {described(url)}; it is an http or https address"
    # The address is stored with the results and shown; a password in it would be, too.
    return "holds a user or a password" if "@" in parts.netloc else None


def _require_url(arguments: Arguments) -> None:
    url = arguments["base_url"]
    problem = None if url is None or callable(url) else url_problem(url)
    if problem is not None:
        fix = 'base_url="https://api.example.com/v1"'
        raise arguments.error("base_url", problem, f"{fix}; the key is what api_key_env's variable holds")


def _require_variable(arguments: Arguments) -> None:
    name = arguments.text("api_key_env")
    if name is not None and not _VARIABLE.fullmatch(name):
        # It may be the key itself, so it is not repeated.
        problem = "is no variable's name; it names the environment variable that holds the key"
        raise arguments.error("api_key_env", problem, 'api_key_env="ACME_API_KEY"')


def judge_argument(arguments: Arguments, name: str = "judge") -> JudgeConfig | None:
    """`judge=` of a `define_*` call. Raises ProjectError (`bad-argument`)."""
    value: object = arguments[name]
    if value is None or isinstance(value, JudgeConfig):
        return value
    problem: ProjectError = arguments.error(
        name, f"is {described(value)}; it is a JudgeConfig", f'{name}=JudgeConfig(model="...")'
    )
    raise problem
