"""One eval file about approvals, run over agents of nine kinds: each stops, is answered, and goes on alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journey import whole_runs

pytest.importorskip("pydantic_ai.ui.vercel_ai", reason="pip install 'niceeval[pydantic-ai]'")
pytest.importorskip("langchain.agents.middleware", reason="pip install 'niceeval[langgraph]'")
pytest.importorskip("httpx2", reason="pip install 'niceeval[http]'")
pytest.importorskip("agents", reason="pip install 'niceeval[openai-agents]'")
pytest.importorskip("ag_ui.core", reason="pip install 'niceeval[ag-ui]'")

EVALS = """
from niceeval import EvalContext, define_eval


@define_eval()
async def approved(t: EvalContext) -> None:
    (await t.send("delete a")).parked()
    t.require_input_request(action="delete", input={"path": "a"}, option_ids=["approve", "reject"])
    turn = await t.respond("approve")
    turn.message_includes("a is gone")
    t.called_tool("delete", input={"path": "a"}, output="a is gone", status="completed")
    t.succeeded()


@define_eval()
async def rejected(t: EvalContext) -> None:
    await t.send("delete a")
    turn = await t.respond("reject")
    turn.succeeded()
    t.called_tool("delete", input={"path": "a"}, status="rejected")


@define_eval()
async def rejected_in_words(t: EvalContext) -> None:
    await t.send("delete a")
    turn = await t.respond(text="it is needed still")
    turn.message_includes("it is needed still")
    t.called_tool("delete", status="rejected")


@define_eval()
async def two_at_once(t: EvalContext) -> None:
    await t.send("delete a b")
    first = t.require_input_request(input={"path": "a"})
    second = t.require_input_request(input={"path": "b"})
    turn = await t.respond(first.choose("approve"), second.reply("it is needed still"))
    turn.message_includes("a is gone")
    t.called_tool("delete", input={"path": "a"}, status="completed")
    t.called_tool("delete", input={"path": "b"}, status="rejected")
    after = await t.send("hello")
    after.message_includes("hello")
    t.succeeded()
"""

GRAPH = '''
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class Scripted(BaseChatModel):
    """Wants to delete what it is told to, and says what came of it."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **more: Any) -> "Scripted":
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
        last = messages[-1]
        words = str(last.content).split()
        answer = AIMessage(str(last.content))
        if isinstance(last, ToolMessage):
            begin = max(number for number, one in enumerate(messages) if isinstance(one, HumanMessage))
            answer = AIMessage("; ".join(str(one.content) for one in messages[begin:] if isinstance(one, ToolMessage)))
        elif words[0] == "delete":
            calls = [{"name": "delete", "args": {"path": path}, "id": f"{len(messages)}-{path}"} for path in words[1:]]
            answer = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=answer)])


def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


def desk(**more: Any) -> Any:
    asks = HumanInTheLoopMiddleware(interrupt_on={"delete": {"allowed_decisions": ["approve", "reject"]}})
    return create_agent(Scripted(), [delete], middleware=[asks], **more)
'''

FUNCTION = '''
from niceeval.adapter import (
    ActionCalled, ActionResult, InputOption, InputRequest, InputRequested, Message, SessionSlot, Turn,
)

OPTIONS = (InputOption(id="approve", label="Approve"), InputOption(id="reject", label="Reject"))
ASKED = SessionSlot("asked", default=dict)


def desk(input, ctx):
    """Returns turns itself."""
    if input.responses:
        asked = ctx.session.take(ASKED)
        events, said = [], []
        for answer in input.responses:
            done = answer.option_id == "approve"
            text = f"{asked[answer.request_id]} is gone" if done else answer.text or "refused"
            status = "completed" if done else "rejected"
            events.append(ActionResult(call_id=answer.request_id, status=status, output=text))
            said.append(text)
        return Turn(events=[*events, Message(role="assistant", text="; ".join(said))])
    words = input.text.split()
    if words[0] != "delete":
        return Turn(events=[Message(role="assistant", text=input.text)])
    events = []
    for path in words[1:]:
        ctx.session.get(ASKED)[f"call-{path}"] = path
        events.append(ActionCalled(call_id=f"call-{path}", name="delete", input={"path": path}))
        request = InputRequest(id=f"call-{path}", action="delete", input={"path": path}, options=OPTIONS)
        events.append(InputRequested(request=request))
    return Turn(events=events, status="waiting")
'''

ENDPOINT = '''
from niceeval.testing import model_server
from niceeval.testing.scenarios import Scenario, call, say, tool


def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


def scripted(request):
    """Wants to delete what it is told to, and says what came of it."""
    latest = max(place for place, entry in enumerate(request.entries) if entry.kind == "user")
    results = [entry.text for entry in request.entries[latest:] if entry.kind == "result"]
    words = request.user_text.split()
    if results:
        return say("; ".join(results))
    return call(*(tool("delete", path=path) for path in words[1:])) if words[0] == "delete" else say(request.user_text)


def desk(make, **more):
    server = model_server(Scenario("desk", [scripted], repeats=True)).start()
    return make(server.openai_url, model="m", api_key_env=None, tools=[delete], approve=["delete"], **more)
'''

AGENTS = {
    "chat_completions": """
from endpoint import desk
from niceeval.adapters import chat_completions_agent

agent = desk(chat_completions_agent)
""",
    "responses": """
from endpoint import desk
from niceeval.adapters import responses_agent

agent = desk(responses_agent, history="client")
""",
    "ui_message_stream": """
from niceeval.adapters import ui_message_stream_agent
from tests.unit.protocol_app import transport

agent = ui_message_stream_agent("http://app/ui", transport=transport())
""",
    "ag_ui": """
from niceeval.adapters import ag_ui_agent
from tests.unit.protocol_app import transport

agent = ag_ui_agent("http://app/ag-ui", transport=transport())
""",
    "pydantic_ai": """
from niceeval.adapters import pydantic_ai_agent
from tests.unit.protocol_app import desk

agent = pydantic_ai_agent(desk())
""",
    "openai_agents": """
from niceeval.adapters import openai_agents_agent
from tests.unit.agents_script import desk

agent = openai_agents_agent(desk())
""",
    "langgraph": """
from graphs import desk
from niceeval.adapters import langgraph_agent

agent = langgraph_agent(desk(), name="langgraph")
""",
    "langgraph_server": """
from langgraph.checkpoint.memory import InMemorySaver

from graphs import desk
from niceeval.adapters import langgraph_server_agent
from tests.unit.graph_app import transport

of_server = transport([], {"approvals": desk(checkpointer=InMemorySaver())})
agent = langgraph_server_agent("http://server", "approvals", subagents={}, transport=of_server)
""",
    "function": """
from functions import desk
from niceeval.adapter import complete_evidence_coverage
from niceeval.adapters import function_agent

agent = function_agent(desk, name="function", evidence_coverage=complete_evidence_coverage)
""",
}
EXPERIMENT = "\nfrom niceeval import define_experiment\n\nexperiment = define_experiment(agent=agent)\n"


@pytest.mark.slow
def test_one_eval_file_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Approving, rejecting, rejecting in words, and two requests at once pass for every kind of agent, as one group."""
    files = {f"experiments/approvals/{name}.py": source + EXPERIMENT for name, source in AGENTS.items()}
    files |= {"evals/delete_eval.py": EVALS, "graphs.py": GRAPH, "functions.py": FUNCTION, "endpoint.py": ENDPOINT}
    # Loading this many frameworks at once takes its time on a busy machine.
    monkeypatch.setattr(whole_runs, "PATIENCE", 300.0)
    done = whole_runs.run(whole_runs.project(tmp_path, files), "approvals", short=False)
    wrong = {key: result for key, result in done.results.items() if result["outcome"] != "passed"}
    assert not wrong, done.out
    assert done.code == 0
    evals = ("approved", "rejected", "rejected_in_words", "two_at_once")
    expected = {(f"approvals/{name}", f"delete/{one}", 0) for name in AGENTS for one in evals}
    assert set(done.results) == expected
