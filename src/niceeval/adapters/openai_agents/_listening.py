"""What is heard of a run while it goes on, because its result does not say it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Heard:
    """Ids of calls that failed or were refused, names of tools whose failures nobody tells of, and whether a model
    answered."""

    failed: set[str] = field(default_factory=set)
    rejected: set[str] = field(default_factory=set)
    untold: set[str] = field(default_factory=set)
    answered: bool = False


def formatter(own: Any, heard: Heard) -> Any:
    """A `tool_error_formatter` that hears of failures, with the ids of their calls; `own` still words them."""

    def word(given: Any) -> Any:
        if given.kind != "approval_rejected":
            heard.failed.add(given.call_id)
        return None if own is None else own(given)

    return word


def hooks(heard: Heard) -> Any:
    """The SDK's hooks that hear of models' answers and of tools."""
    from agents import RunHooks

    class Hooks(RunHooks[Any]):
        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            heard.answered = True

        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            if not _is_told(tool):
                heard.untold.add(str(tool.name))

    return Hooks()


def _is_told(tool: Any) -> bool:
    """Whether the formatter is asked about every failure of a tool, or the failure ends the run.

    That is so of a decorated function without words of its own for failures. What only private fields say counts for
    nothing where they are not there.
    """
    if not hasattr(tool, "__wrapped__"):
        return False
    if getattr(tool, "timeout_seconds", None) is not None and tool.timeout_behavior != "raise_exception":
        return False
    own_words = getattr(tool, "_failure_error_function", tool)
    return getattr(tool, "_use_default_failure_error_function", False) is True or own_words is None
