"""From what authors configured to what a judgement is made with: the first configuration that there is, and its key."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urlsplit

from niceeval._base.errors import error_text
from niceeval._evidence.prices import Price
from niceeval._judging.outcome import JudgeProblem
from niceeval._model.judge import DEFAULT_TIMEOUT, JudgeConfig, url_problem

DEFAULT_BASE_URL: Final = "https://api.openai.com/v1"
"""Where a judge without `base_url` is asked. It is always given, so that no variable of a library's redirects it."""
KEY_VARIABLE: Final = "NICEEVAL_JUDGE_KEY"
"""The variable that holds the key where a configuration names none."""
FOUND_WHEN_NEEDED: Final = "found when needed"
"""Stands for the address of an endpoint that a function finds."""
NO_KEY: Final = "no-key"
"""Sent to an endpoint on this machine where there is no key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedJudge:
    """Everything that a judgement is made with. `timeout` is in seconds; of several price tables the first counts."""

    model: str
    base_url: str
    api_key: str = field(repr=False)
    timeout: float = DEFAULT_TIMEOUT
    pricing: tuple[Mapping[str, Price], ...] = ()


def endpoint_of(config: JudgeConfig) -> str:
    """Where a judge is asked, as its results and calibrations name it: an address, or that it is found when needed."""
    if callable(config.base_url):
        return FOUND_WHEN_NEEDED
    return config.base_url or DEFAULT_BASE_URL


def chosen(*configs: JudgeConfig | None, model: str | None = None) -> JudgeConfig | None:
    """The first configuration that there is (an eval's, an experiment's, the project's), with a call's own model."""
    found = next((config for config in configs if config is not None), None)
    if model is None:
        return found
    return JudgeConfig(model=model) if found is None else replace(found, model=model)


def resolve(
    config: JudgeConfig | None, environ: Mapping[str, str], pricing: tuple[Mapping[str, Price], ...] = ()
) -> ResolvedJudge:
    """The configuration with its key. Raises JudgeProblem (`judge-not-configured`)."""
    if config is None:
        fix = f'judge=JudgeConfig(model="...") in the experiment, and its key in {KEY_VARIABLE}'
        raise JudgeProblem("judge-not-configured", f"there is no judge, and no default model: {fix}")
    base_url = _address(config)
    variable = config.api_key_env or KEY_VARIABLE
    key = environ.get(variable, "").strip()
    if not key:
        # A server on this machine seldom asks for a key. Who names a variable wants it, though.
        if config.api_key_env is not None or not _is_local(base_url):
            raise JudgeProblem("judge-not-configured", f"there is no key for {config.model} in {variable}")
        key = NO_KEY
    return ResolvedJudge(model=config.model, base_url=base_url, api_key=key, timeout=config.timeout, pricing=pricing)


def _address(config: JudgeConfig) -> str:
    given: object = config.base_url
    if callable(given):
        try:
            given = given()
        except Exception as error:  # noqa: BLE001 - the author's function: what it raises is why there is no judge
            said = f"base_url of {config.model} raised {error_text(error)}"
            raise JudgeProblem("judge-not-configured", said) from None
        problem = url_problem(given)
        if problem is not None:
            raise JudgeProblem("judge-not-configured", f"base_url of {config.model} {problem}")
    return DEFAULT_BASE_URL if given is None else str(given)


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
