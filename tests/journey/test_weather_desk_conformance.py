"""The example's adapter keeps the contract, over HTTP, against its real service."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from niceeval.adapter import Agent
from niceeval.expect import includes
from niceeval.testing import Probes, check_agent_sync

EXAMPLE = Path(__file__).parents[2] / "examples" / "weather_desk"
OWN_MODULES = ("desk", "service", "local_service", "adapters", "adapters.weather_desk")


@dataclass
class Forecast:
    city: str
    celsius: int


PROBES = Probes(
    hello="Hello there",
    tool="What's the weather in Brooklyn?",
    failing_tool="What's the weather in Atlantis?",
    memory=("My city is Oslo", "And what's the weather tomorrow?", includes("Oslo")),
    approval="Mail the forecast for Oslo to kari@example.com",
    output=("What's the weather in Oslo?", Forecast),
)


@pytest.fixture
def agent() -> Iterator[Agent]:
    """The adapter, connected to a service of its own."""
    sys.path.insert(0, str(EXAMPLE))
    try:
        from adapters.weather_desk import weather_desk
        from local_service import LocalService

        service = LocalService()
        service.start()
        try:
            yield weather_desk(service.url)
        finally:
            service.stop()
    finally:
        sys.path.remove(str(EXAMPLE))
        for name in OWN_MODULES:
            sys.modules.pop(name, None)


def test_the_weather_desk_keeps_the_contract(agent: Agent) -> None:
    """Everything holds; not checked is only what the desk does not have: hooks, and two questions at once."""
    report = check_agent_sync(agent, PROBES, model="a-model", flags={"prompt": "verbose"})
    report.raise_for_failures()
    assert {finding.check for finding in report.not_checked} == {"hooks-run", "attempts-apart", "answers-by-request"}
