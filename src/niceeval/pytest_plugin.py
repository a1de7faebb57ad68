"""The pytest plugin's options. pytest imports this module in every run, so everything else waits until it is wanted."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("niceeval", "evals of AI agents (niceeval)")
    group.addoption(
        "--niceeval-experiment",
        action="append",
        default=[],
        metavar="ID|GROUP",
        help="collect the project's evals and run them under this experiment, or every one of this group (repeatable)",
    )
    group.addoption("--niceeval-runs", type=_count, metavar="N", help="attempts per eval")
    group.addoption("--niceeval-max-concurrency", type=_count, metavar="N", help="attempts at the same time")
    group.addoption("--niceeval-timeout", type=_seconds, metavar="S", help="seconds an attempt may take")
    group.addoption("--niceeval-strict", action="store_true", help="failed soft assertions fail the eval")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("niceeval_experiment"):
        # The one way in: whoever names no experiment never loads niceeval.
        from niceeval._pytest.plugin import EvalPlugin

        config.pluginmanager.register(EvalPlugin(config), "niceeval-evals")


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ArgumentTypeError(f"{value} is less than 1")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ArgumentTypeError(f"{text} is no positive number of seconds")
    return value
