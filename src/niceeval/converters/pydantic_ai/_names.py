"""Ids of calls that are each used once, and the tools by which a structured answer is given."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from niceeval.converters._attributes import field, items, text_field

DEFAULT_OUTPUT_TOOL: Final = "final_result"
"""What the tool is called that gives the structured answer, where the agent does not say otherwise."""
_PROCESSED: Final = ("Final result processed.", "Output tool not used - ")
"""How the framework's own words begin that answer such a call."""


class CallIds:
    """Ids that name one call each. Models that give none get one made of the tool and its arguments, which comes
    again with the same call; the second is then `id#2`. Keep one for a conversation, so that ids differ across turns.
    """

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        self._closed: set[str] = set()

    def call(self, id: str) -> str:
        """The id of a call that is made now."""
        times = self._times.get(id, 0)
        if times == 0 or id in self._closed:
            self._times[id] = times + 1
            self._closed.discard(id)
        return self.current(id)

    def result(self, id: str) -> str:
        """The id of the call whose result this is."""
        self._closed.add(id)
        return self.current(id)

    def current(self, id: str) -> str:
        """The id of the call that was made last under this one."""
        times = self._times.get(id, 1)
        return id if times == 1 else f"{id}#{times}"

    def copy(self) -> CallIds:
        """The same, apart."""
        other = CallIds()
        other.restore(self)
        return other

    def restore(self, other: CallIds) -> None:
        """Become what the other one is."""
        self._times = dict(other._times)
        self._closed = set(other._closed)

    def original(self, id: str) -> str:
        """What the framework calls it."""
        base, mark, number = id.rpartition("#")
        return base if mark and number.isdigit() and base in self._times else id


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
