"""A request to the model, read into one form whatever protocol it came in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from niceeval._base.plain_text import cut_text

ProtocolName = Literal["anthropic", "openai-responses", "openai-chat", "gemini"]
EntryKind = Literal["user", "assistant", "call", "result"]

CALL_PREFIX = "scripted_"
"""How the ids of our own tool calls go on, behind the protocol's prefix; then the answer's id and the call's place."""

MAX_QUOTED = 4000
"""Characters of an earlier text that an answer quotes."""

_OUR_CALL = re.compile(rf"{CALL_PREFIX}([0-9a-f]+)_[0-9]+")
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
_INJECTED = re.compile(r"\s*(<[a-zA-Z_][\w-]*>|# AGENTS\.md)")


@dataclass(frozen=True, slots=True)
class Entry:
    """One part of the conversation: a text of the user or the assistant, a tool call, or a tool's result.

    `text` is the text, the call's arguments as JSON text, or the result's text.
    """

    kind: EntryKind
    text: str
    call_id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that the request offers. `schema` is its arguments' JSON Schema; None where it takes free text.

    `namespace` is the group that it was offered in, where the protocol has groups.
    """

    name: str
    schema: Mapping[str, Any] | None
    namespace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """What a client asked the model.

    entries        the conversation, oldest first
    searches       what tools were searched for
    session_id     what the client calls this conversation, where it says so
    schema         the JSON Schema of the structured answer that is asked for
    output_tool    the tool that has to be called, where the request says so
    body           the request as it came
    """

    protocol: ProtocolName
    model: str
    stream: bool
    system: str
    entries: tuple[Entry, ...]
    tools: tuple[OfferedTool, ...] = ()
    schema: Mapping[str, Any] | None = None
    output_tool: str | None = None
    searches: tuple[str, ...] = ()
    session_id: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def user_texts(self) -> tuple[str, ...]:
        """Every text of the user, oldest first; also those that the client added itself."""
        return tuple(entry.text for entry in self.entries if entry.kind == "user")

    @property
    def user_text(self) -> str:
        """The latest text of the user; empty where there is none."""
        texts = self.user_texts
        return texts[-1] if texts else ""

    @property
    def results(self) -> tuple[Entry, ...]:
        """Every tool result, oldest first."""
        return tuple(entry for entry in self.entries if entry.kind == "result")

    @property
    def earlier_texts(self) -> tuple[str, ...]:
        """The user's texts of earlier turns: those that were answered before the latest text came.

        What a client adds around them (reminders, its environment) is left out.
        """
        latest = self._latest_user()
        before = [entry for entry in self.entries[:latest] if entry.kind in ("user", "assistant")]
        while before and before[-1].kind == "user":
            before.pop()
        texts = (_REMINDER.sub("", entry.text).strip() for entry in before if entry.kind == "user")
        return tuple(cut_text(text, MAX_QUOTED) for text in texts if text and not _INJECTED.match(text))

    def _latest_user(self) -> int:
        positions = [place for place, entry in enumerate(self.entries) if entry.kind == "user"]
        return positions[-1] if positions else 0


def answers_after(entries: Sequence[Entry], start: int) -> int:
    """How many answers of the model stand behind `start`.

    Calls and results of one answer of ours count once however the client orders them; otherwise what is adjacent is one
    answer. An answer of which the client dropped everything does not count.
    """
    count = 0
    ours: set[str] = set()
    within = False
    for entry in entries[start:]:
        found = _OUR_CALL.search(entry.call_id) if entry.call_id else None
        if found is not None:
            new = found[1] not in ours
            ours.add(found[1])
            count += new and not within
            within = entry.kind == "call"
        elif entry.kind in ("assistant", "call"):
            count += not within
            within = True
        else:
            within = False
    return count
