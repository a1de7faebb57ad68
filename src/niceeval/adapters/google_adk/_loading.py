"""Loading the framework before it is used in an event loop, which it would hold for seconds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from typing import Any, Final

_LOCK: Final = threading.Lock()
_loaded = False


async def load() -> None:
    """Have all that a run needs loaded, in a thread.

    The framework loads its parts when they are first used, most of them within the first run; so a first run is made,
    of an agent whose model is a line of code.
    """
    if not _loaded:
        await asyncio.to_thread(_load_here)


def _load_here() -> None:
    global _loaded
    with _LOCK:
        if not _loaded:
            asyncio.run(_run())
            _loaded = True


async def _run() -> None:
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    class Nothing(BaseLlm):
        async def generate_content_async(
            self, llm_request: Any, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            used = types.GenerateContentResponseUsageMetadata(prompt_token_count=1, candidates_token_count=1)
            content = types.Content(role="model", parts=[types.Part(text="nothing")])
            yield LlmResponse(content=content, usage_metadata=used)

    runner = InMemoryRunner(agent=LlmAgent(name="nobody", model=Nothing(model="nothing")), app_name="loading")
    session = await runner.session_service.create_session(app_name="loading", user_id="nobody")
    message = types.Content(role="user", parts=[types.Part(text="nothing")])
    async for _ in runner.run_async(user_id="nobody", session_id=session.id, new_message=message):
        pass
