"""`o11y.json`: what an attempt did, in figures, derived from its event stream; for people, never for a verdict."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final, TypeVar

from niceeval._base.plain_text import cut_text
from niceeval._evidence.facts import ToolCall, derive_facts
from niceeval._model.events import ErrorEvent, StreamEvent, Thinking
from niceeval._model.json_types import JsonValue
from niceeval._model.o11y import O11ySummary, ShellCommand, TurnSummary, WebFetch
from niceeval._model.usage import Usage

MAX_LISTED: Final = 500
"""Entries of one list; an entry `… and N more` stands for the rest."""
MAX_TEXT: Final = 1_000
"""Characters of one path, command, address or error."""

_READS: Final = frozenset({"file_read"})
_WRITES: Final = frozenset({"file_write", "file_edit"})
_PATH_KEYS: Final = ("path", "file_path", "filePath", "filepath", "filename", "file", "notebook_path")
_PATHS_KEYS: Final = ("paths", "files")
_COMMAND_KEYS: Final = ("command", "cmd", "script")
_URL_KEYS: Final = ("url", "uri")
_EXIT_KEYS: Final = ("exit_code", "exitCode", "returncode")
_STATUS_KEYS: Final = ("status", "status_code", "statusCode")

T = TypeVar("T")


def summarise(
    events: Sequence[StreamEvent],
    turns: Sequence[TurnSummary],
    duration_ms: int,
    usage: Usage | None,
    cost: Decimal | float | None,
) -> O11ySummary:
    """The summary of one attempt.

    Files, commands and addresses come from calls whose canonical tool says what they are. A refused call did nothing
    and is only counted; a file of a failed call is not listed. `success` and `exitCode` are left out where no result
    says them, and where one call id is used again in an attempt of several sessions: ids pair within one only.
    """
    facts = derive_facts(events)
    calls = facts.tool_calls
    done = [call for call in calls if call.status != "rejected"]
    answered = _answered(calls, sessions=len({turn.session for turn in turns}))
    return O11ySummary(
        total_turns=len(turns),
        tool_calls=_counts(calls),
        total_tool_calls=len(calls),
        files_read=_files(done, _READS),
        files_modified=_files(done, _WRITES),
        shell_commands=_bounded(
            [_shell(command, call, answered) for call in done if (command := _command(call)) is not None],
            lambda text: ShellCommand(command=text),
        ),
        web_fetches=_bounded(
            [_fetch(url, call, answered) for call in done if (url := _url(call)) is not None],
            lambda text: WebFetch(url=text),
        ),
        errors=_bounded([_text(event.message) for event in events if isinstance(event, ErrorEvent)], str),
        thinking_blocks=sum(isinstance(event, Thinking) for event in events),
        compactions=facts.compactions,
        duration_ms=duration_ms,
        turns=tuple(turns),
        usage=usage,
        estimated_cost_usd=None if cost is None else float(cost),
    )


def _answered(calls: Iterable[ToolCall], sessions: int) -> frozenset[str]:
    uses = Counter(call.call_id for call in calls)
    return frozenset(call_id for call_id, count in uses.items() if count == 1 or sessions <= 1)


def _counts(calls: Iterable[ToolCall]) -> dict[str, int]:
    counts = Counter(_text(call.name) for call in calls)
    if len(counts) <= MAX_LISTED:
        return dict(counts)
    listed = dict(list(counts.items())[: MAX_LISTED - 1])
    rest = len(counts) - len(listed)
    return {**listed, f"… and {rest:,} more": counts.total() - sum(listed.values())}


def _files(calls: Iterable[ToolCall], tools: frozenset[str]) -> tuple[str, ...]:
    found = [path for call in calls if call.tool in tools and call.status != "failed" for path in _paths(call.input)]
    return _bounded(list(dict.fromkeys(found)), str)


def _paths(given: JsonValue) -> list[str]:
    one = _first_text(given, _PATH_KEYS)
    if one is not None:
        return [one]
    if isinstance(given, Mapping):
        for key in _PATHS_KEYS:
            several = given.get(key)
            if isinstance(several, list):
                return [_text(path) for path in several if isinstance(path, str) and path]
    return []


def _command(call: ToolCall) -> str | None:
    if call.tool != "shell":
        return None
    if isinstance(call.input, Mapping):
        for key in _COMMAND_KEYS:
            words = call.input.get(key)
            if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
                return _text(shlex.join([word for word in words if isinstance(word, str)]))
    return _first_text(call.input, _COMMAND_KEYS)


def _url(call: ToolCall) -> str | None:
    return _first_text(call.input, _URL_KEYS) if call.tool == "web_fetch" else None


def _shell(command: str, call: ToolCall, answered: frozenset[str]) -> ShellCommand:
    exit_code = _first_int(call.output, _EXIT_KEYS) if call.call_id in answered else None
    return ShellCommand(command=command, exit_code=exit_code, success=_success(call, answered, exit_code in (None, 0)))


def _fetch(url: str, call: ToolCall, answered: frozenset[str]) -> WebFetch:
    status = _first_int(call.output, _STATUS_KEYS) if call.call_id in answered else None
    return WebFetch(url=url, status=status, success=_success(call, answered, status is None or status < 400))


def _success(call: ToolCall, answered: frozenset[str], good: bool) -> bool | None:
    if call.call_id not in answered or call.result_event is None:
        return None
    return call.status == "completed" and good


def _first_text(given: JsonValue, keys: Iterable[str]) -> str | None:
    if isinstance(given, str):
        return _text(given) if given else None
    if isinstance(given, Mapping):
        for key in keys:
            found = given.get(key)
            if isinstance(found, str) and found:
                return _text(found)
    return None


def _first_int(given: JsonValue, keys: Iterable[str]) -> int | None:
    if isinstance(given, Mapping):
        for key in keys:
            found = given.get(key)
            if isinstance(found, int) and not isinstance(found, bool):
                return found
    return None


def _text(text: str) -> str:
    return cut_text(text, MAX_TEXT)


def _bounded(items: list[T], rest: Callable[[str], T]) -> tuple[T, ...]:
    if len(items) <= MAX_LISTED:
        return tuple(items)
    left_out = len(items) - MAX_LISTED + 1
    return (*items[: MAX_LISTED - 1], rest(f"… and {left_out:,} more"))
