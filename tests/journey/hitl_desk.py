"""One desk, made with many frameworks: told to `delete a b`, it asks a human about each, and says what came of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from niceeval.adapter import Agent
from niceeval.testing import ModelServer, model_server
from niceeval.testing.scenarios import ModelRequest, Scenario, Step, call, say, tool


def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


def scripted(request: ModelRequest) -> Step:
    """What a model does: it wants to delete what it is told to, and repeats what the tools said."""
    latest = max(place for place, entry in enumerate(request.entries) if entry.kind == "user")
    results = [entry.text for entry in request.entries[latest:] if entry.kind == "result"]
    if results:
        return say("So: " + "; ".join(results))
    return call(*(tool("delete", path=path) for path in request.user_text.split()[1:]), text="I will ask.")


def server() -> ModelServer:
    """A model behind a real HTTP server, until this process ends."""
    return model_server(Scenario("desk", [scripted], repeats=True)).start()


def chat_completions() -> Agent:
    from niceeval.adapters import chat_completions_agent

    return chat_completions_agent(
        server().openai_url, model="m", api_key_env=None, tools=[delete], approve=["delete"], stream=True
    )


def responses() -> Agent:
    from niceeval.adapters import responses_agent

    return responses_agent(
        server().openai_url, model="m", api_key_env=None, tools=[delete], approve=["delete"], history="client"
    )


def openai_agents() -> Agent:
    from agents import Agent as Desk
    from agents import OpenAIChatCompletionsModel, function_tool
    from openai import AsyncOpenAI

    from niceeval.adapters import openai_agents_agent

    url = server().openai_url

    def make(ctx: Any) -> Any:
        model = OpenAIChatCompletionsModel(model="m", openai_client=AsyncOpenAI(api_key="none", base_url=url))
        return Desk(name="desk", model=model, tools=[function_tool(needs_approval=True)(delete)])

    return openai_agents_agent(make, name="openai-agents")


def pydantic_ai() -> Agent:
    from niceeval.adapters import pydantic_ai_agent
    from tests.unit.protocol_app import desk

    return pydantic_ai_agent(desk(), name="pydantic-ai")


def ui_message_stream() -> Agent:
    from niceeval.adapters import ui_message_stream_agent
    from tests.unit.protocol_app import transport

    return ui_message_stream_agent("http://desk.test/ui", transport=transport())


def ag_ui() -> Agent:
    from niceeval.adapters import ag_ui_agent
    from tests.unit.protocol_app import transport

    return ag_ui_agent("http://desk.test/ag-ui", transport=transport())


def langgraph() -> Agent:
    from langchain.agents import create_agent
    from langchain.agents.middleware import HumanInTheLoopMiddleware
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, ToolCall, ToolMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import tool as langchain_tool
    from langgraph.checkpoint.memory import InMemorySaver

    from niceeval.adapters import langgraph_agent

    class Model(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **given: Any) -> Any:
            return self

        def _generate(self, messages: list[Any], *args: Any, **given: Any) -> ChatResult:
            latest = max(place for place, message in enumerate(messages) if message.type == "human")
            results = [message.text for message in messages[latest:] if isinstance(message, ToolMessage)]
            paths = messages[latest].text.split()[1:]
            calls = [ToolCall(name="delete", args={"path": path}, id=f"c{len(messages)}-{path}") for path in paths]
            answer = AIMessage("So: " + "; ".join(results)) if results else AIMessage("I will ask.", tool_calls=calls)
            return ChatResult(generations=[ChatGeneration(message=answer)])

    graph = create_agent(
        Model(),
        [langchain_tool(delete)],
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"delete": True})],
        checkpointer=InMemorySaver(),
    )
    return langgraph_agent(graph, name="langgraph")


def google_adk() -> Agent:
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.tools import FunctionTool
    from google.genai import types

    from niceeval.adapters import google_adk_agent

    class Model(BaseLlm):
        model: str = "scripted"

        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            last = llm_request.contents[-1]
            said = [part.function_response.response for part in last.parts if part.function_response]
            if said:
                told = "; ".join(str(one.get("result", one.get("error", one))) for one in said)
                parts = [types.Part(text=f"So: {told}")]
            else:
                paths = (last.parts[-1].text or "").split()[1:]
                parts = [types.Part.from_function_call(name="delete", args={"path": path}) for path in paths]
            yield LlmResponse(content=types.Content(role="model", parts=parts))

    agent = LlmAgent(name="desk", model=Model(), tools=[FunctionTool(delete, require_confirmation=True)])
    return google_adk_agent(agent, name="google-adk")


DESKS: dict[str, Callable[[], Agent]] = {
    "ag_ui": ag_ui,
    "chat_completions": chat_completions,
    "google_adk": google_adk,
    "langgraph": langgraph,
    "openai_agents": openai_agents,
    "pydantic_ai": pydantic_ai,
    "responses": responses,
    "ui_message_stream": ui_message_stream,
}
