"""Ready adapters: one folder or module for each protocol, framework or CLI. Nothing in the core knows them.

    from niceeval.adapters import claude_code_agent

Each is loaded when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from niceeval.adapters.a2a.agent import a2a_agent
    from niceeval.adapters.acp.agent import acp_agent
    from niceeval.adapters.ag_ui.agent import ag_ui_agent
    from niceeval.adapters.bub.agent import bub_agent
    from niceeval.adapters.chat_completions.agent import chat_completions_agent
    from niceeval.adapters.claude_code.agent import claude_code_agent
    from niceeval.adapters.codex.agent import codex_agent
    from niceeval.adapters.function.agent import function_agent
    from niceeval.adapters.gemini_cli.agent import gemini_cli_agent
    from niceeval.adapters.google_adk.agent import google_adk_agent
    from niceeval.adapters.langgraph.agent import langgraph_agent
    from niceeval.adapters.langgraph_server.agent import langgraph_server_agent
    from niceeval.adapters.openai_agents.agent import openai_agents_agent
    from niceeval.adapters.opencode.agent import opencode_agent
    from niceeval.adapters.pydantic_ai.agent import pydantic_ai_agent
    from niceeval.adapters.responses.agent import responses_agent
    from niceeval.adapters.ui_message_stream.agent import ui_message_stream_agent

__all__ = [
    "a2a_agent",
    "acp_agent",
    "ag_ui_agent",
    "bub_agent",
    "chat_completions_agent",
    "claude_code_agent",
    "codex_agent",
    "function_agent",
    "gemini_cli_agent",
    "google_adk_agent",
    "langgraph_agent",
    "langgraph_server_agent",
    "openai_agents_agent",
    "opencode_agent",
    "pydantic_ai_agent",
    "responses_agent",
    "ui_message_stream_agent",
]

_MODULES: Final = {
    "a2a_agent": "a2a.agent",
    "acp_agent": "acp.agent",
    "ag_ui_agent": "ag_ui.agent",
    "bub_agent": "bub.agent",
    "chat_completions_agent": "chat_completions.agent",
    "claude_code_agent": "claude_code.agent",
    "codex_agent": "codex.agent",
    "function_agent": "function.agent",
    "gemini_cli_agent": "gemini_cli.agent",
    "google_adk_agent": "google_adk.agent",
    "langgraph_agent": "langgraph.agent",
    "langgraph_server_agent": "langgraph_server.agent",
    "openai_agents_agent": "openai_agents.agent",
    "opencode_agent": "opencode.agent",
    "pydantic_ai_agent": "pydantic_ai.agent",
    "responses_agent": "responses.agent",
    "ui_message_stream_agent": "ui_message_stream.agent",
}
"""Factory -> the module that defines it."""


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
