"""The adapters of protocols keep the contract that `check_agent` asks for, against real services."""

from __future__ import annotations

import pytest

from niceeval.adapter import Agent
from niceeval.adapters import a2a_agent, ag_ui_agent, langgraph_server_agent, ui_message_stream_agent
from niceeval.expect import includes
from niceeval.testing import Probes, check_agent_sync
from tests.unit import a2a_app, graph_app, protocol_app

pytestmark = pytest.mark.slow

MEMORY = ("My name is Kari", "recall", includes("Kari"))
NO_HOOKS = {"hooks-run", "attempts-apart"}
NO_DATA = {"output-given"}
ROWS: dict[str, tuple[Probes, set[str]]] = {
    "ui": (
        Probes(hello="hello", tool="look x", failing_tool="bad", approval="delete a b", memory=MEMORY),
        {*NO_HOOKS, *NO_DATA, "usage-sane", "usage-given"},
    ),
    "ag-ui": (
        Probes(hello="hello", tool="look x", failing_tool="bad", approval="delete a b", memory=MEMORY),
        {*NO_HOOKS, *NO_DATA, "usage-sane", "usage-given"},
    ),
    "langgraph-server": (
        Probes(hello="hello", tool="look x", approval="delete a", memory=MEMORY),
        {*NO_HOOKS, *NO_DATA, "usage-given", "tool-failure-seen", "answers-by-request"},
    ),
}


def agent_of(name: str) -> Agent:
    if name == "langgraph-server":
        of_server = graph_app.transport([])
        return langgraph_server_agent("http://server", "desk", subagents={}, transport=of_server)
    if name == "ui":
        return ui_message_stream_agent("http://app/ui", transport=protocol_app.transport())
    return ag_ui_agent("http://app/ag-ui", transport=protocol_app.transport())


@pytest.mark.parametrize("name", ROWS)
def test_the_contract(name: str) -> None:
    """Nothing fails, and what is not checked is only what the protocol has not."""
    probes, expected = ROWS[name]
    report = check_agent_sync(agent_of(name), probes, timeout=120)
    report.raise_for_failures()
    assert {finding.check for finding in report.not_checked} == expected


def test_the_contract_of_a2a() -> None:
    """The protocol shows no calls and has no approvals; everything else holds."""
    agent = a2a_agent(a2a_app.URL, transport=a2a_app.Noting([]))
    report = check_agent_sync(agent, Probes(hello="hello", memory=MEMORY), timeout=120)
    report.raise_for_failures()
    checked = {finding.check for finding in report.passed}
    assert {
        "remembers",
        "fresh-line",
        "lines-apart",
        "session-ids",
        "parallel-sends",
        "cancels",
        "files-taken",
    } <= checked
