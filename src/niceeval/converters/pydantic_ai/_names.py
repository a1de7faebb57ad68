"""The tools by which a structured answer is given."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from niceeval.converters._attributes import field, items, text_field

DEFAULT_OUTPUT_TOOL: Final = "final_result"
"""What the tool is called that gives the structured answer, where the agent does not say otherwise."""
_PROCESSED: Final = ("Final result processed.", "Output tool not used - ")
"""How the framework's own words begin that answer such a call."""


def output_tools(messages: Collection[object], named: Collection[str]) -> frozenset[str]:
    """The names of the tools that gave, or were to give, the structured answer.

    `named` are known ones. An agent with several forms of answer has one tool for each, `final_result_<form>`: of
    these names only those count that the framework answered itself.
    """
    found = {DEFAULT_OUTPUT_TOOL, *named}
    for message in messages:
        for part in items(field(message, "parts")):
            name = text_field(part, "tool_name") or ""
            if name.startswith(f"{DEFAULT_OUTPUT_TOOL}_") and _answered_by_framework(part):
                found.add(name)
    return frozenset(found)


def _answered_by_framework(part: object) -> bool:
    if text_field(part, "part_kind") != "tool-return":
        return False
    content = field(part, "content")
    if isinstance(content, str) and content.startswith(_PROCESSED):
        return True
    cause = field(field(part, "retry"), "cause")
    return field(part, "outcome") == "retried" and cause in ("validation_error", "model_retry")
