"""Counting what the models of a run used, wherever in the graph they were called: in a node, a tool, a middleware."""

from __future__ import annotations

from typing import Any, Protocol
from uuid import UUID

from niceeval.adapter import Usage
from niceeval.converters.langgraph import usage_of


class Counter(Protocol):
    """What was seen of a run's requests to models. `models` are the names of those that were asked; `errors` what was
    raised by them."""

    models: set[str]
    errors: list[BaseException]

    def usage(self) -> list[Usage]: ...

    def uncounted(self) -> int: ...


def counter() -> Any:
    """A callback handler of LangChain that is a Counter."""
    from langchain_core.callbacks import BaseCallbackHandler

    class Counting(BaseCallbackHandler):
        run_inline = True

        def __init__(self) -> None:
            self.models: set[str] = set()
            self.errors: list[BaseException] = []
            self._begun: set[UUID] = set()
            self._used: dict[UUID, Usage] = {}

        def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: UUID, **given: Any) -> None:
            self._start(run_id, given.get("metadata"))

        def on_llm_start(self, serialized: Any, prompts: Any, *, run_id: UUID, **given: Any) -> None:
            self._start(run_id, given.get("metadata"))

        def on_llm_end(self, response: Any, *, run_id: UUID, **given: Any) -> None:
            try:
                used = usage_of(response.generations[0][0].message.usage_metadata)
            except (AttributeError, IndexError, TypeError):
                used = None
            if used is not None:
                self._used[run_id] = used

        def on_llm_error(self, error: BaseException, *, run_id: UUID, **given: Any) -> None:
            self.errors.append(error)

        def _start(self, run_id: UUID, metadata: Any) -> None:
            self._begun.add(run_id)
            name = metadata.get("ls_model_name") if isinstance(metadata, dict) else None
            if isinstance(name, str):
                self.models.add(name)

        def usage(self) -> list[Usage]:
            """What each request used that is known of."""
            return list(self._used.values())

        def uncounted(self) -> int:
            """Requests of which it is not known what they used."""
            return len(self._begun - self._used.keys())

    return Counting()
