"""What `codex exec --json` prints, with the session's rollout file, as one turn.

The events say how the turn ended. A call that was blocked, denied or unknown gives no event at all, and neither does
compaction: the rollout file has them. Where it is there and whole, what happened is read from it.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable
from typing import Any, Final, Literal, TypeAlias

from niceeval.adapter import Coverage, EvidenceCoverage, Usage
from niceeval.adapters.codex._names import SPAWN, difference, mcp_outcome, usage_of
from niceeval.adapters.codex._rollout import Rollout, read_children
from niceeval.adapters.codex._skills import skill_read
from niceeval.turn_building import (
    LOAD_SKILL,
    Collected,
    JsonLines,
    JsonObject,
    SeenIds,
    TurnBuilder,
    list_of,
    mcp_name,
    object_of,
    text_of,
    value_of,
)

coverage: Final = EvidenceCoverage(
    events=Coverage.complete,
    actions=Coverage.complete,
    messages=Coverage.complete,
    usage=Coverage.complete,
    status=Coverage.complete,
    data=Coverage.unavailable("Codex's events have no structured answer"),
)
"""What the events and a whole rollout file show together; without the rollout, events and actions are partial."""

MAX_KEPT_ERRORS: Final = 200
"""The most errors of the stream that are placed among the events of the rollout file."""

MAX_SPLIT_CHARS: Final = 100_000
"""The longest command line that is taken apart."""

NO_ROLLOUT: Final = "blocked calls and compaction are in the rollout file only, and it was not read whole"
Channel: TypeAlias = Literal["events", "actions", "messages", "usage", "status", "data"]

_STATES: Final = {"completed": "completed", "failed": "failed", "declined": "rejected"}


class Transcript:
    """Reads the events of `codex exec --json` as they arrive.

    transcript = Transcript()
    transcript.feed(chunk)
    collected = transcript.finish(exit_code=0, rollout=chunks_of_the_rollout_file, skip_turns=0)

    `total_before` is the thread's running total when the turn began: `thread_total` of the turn before. It is needed
    where the rollout file is not whole, for Codex counts tokens per thread. `resumed` says that there was one.
    `servers` are the names of the MCP servers that it was given: the rollout file has them changed.
    """

    def __init__(
        self, *, total_before: Usage | None = None, resumed: bool = False, servers: Collection[str] = ()
    ) -> None:
        self._servers = servers
        self._lines = JsonLines()
        self._builder = TurnBuilder(coverage)
        self._before = total_before
        self._resumed = resumed or total_before is not None
        self._errors: list[tuple[int, str]] = []
        self._messages = 0
        self._seen = SeenIds()
        self._unknown: dict[str, tuple[Channel, ...]] = {}
        self._limited = False
        self._spawned = 0
        self._ended: str | None = None
        self._failure: str | None = None
        self._after_end = False
        self.thread_id: str | None = None
        self.thread_total: Usage | None = None

    def feed(self, chunk: bytes) -> None:
        """Some of the stream; it may end anywhere."""
        for line in self._lines.feed(chunk):
            self._line(line)

    def finish(
        self,
        *,
        exit_code: int | None = None,
        killed: bool = False,
        rollout: Iterable[bytes] | None = None,
        skip_turns: int = 0,
        children: Iterable[Iterable[bytes]] = (),
    ) -> Collected:
        """The turn. `exit_code` is the CLI's, None where it is not known; `killed` says that it was ended from outside.

        `rollout` is the thread's file (None: it was not found), of which the first `skip_turns` turns are earlier
        ones; `children` are the files of its subagents' threads.
        """
        for line in self._lines.finish():
            self._line(line)
        self._resumed = self._resumed or skip_turns > 0
        builder = self._merged(rollout, skip_turns, children, killed) if rollout is not None else None
        if builder is None:
            builder = self._builder
            builder.incomplete(NO_ROLLOUT, ("events", "actions"))
            self._own_usage()
        builder.reading(self._lines, "the stream")
        for kind, channels in self._unknown.items():
            builder.unknown(kind, channels)
        if self._limited:
            builder.diagnostic("rate-limited", "the model's API limited the rate")
        self._end(builder, exit_code, killed)
        return builder.build()

    # The stream -------------------------------------------------------------------------------------------------

    def _line(self, line: JsonObject) -> None:
        kind = text_of(line, "type")
        self._after_end = self._after_end or (self._ended is not None and kind not in ("turn.completed", "turn.failed"))
        if kind in ("item.started", "item.updated", "item.completed"):
            self._item(object_of(line, "item"), kind)
        elif kind == "error":
            self._error(text_of(line, "message") or "an error without a message")
        elif kind == "turn.completed":
            self._ended = "completed"
            self.thread_total = usage_of(line.get("usage")) or self.thread_total
        elif kind == "turn.failed":
            self._ended = "failed"
            self._failure = text_of(line, "error", "message") or "the turn failed"
        elif kind == "thread.started":
            self.thread_id = text_of(line, "thread_id")
        elif kind != "turn.started":
            self._not_known(kind or "a line without a type", "usage", "status")

    def _error(self, message: str) -> None:
        if len(self._errors) < MAX_KEPT_ERRORS:
            self._errors.append((self._messages, message))
        self._builder.error(message)
        if "429" in message or "rate limit" in message.lower():
            self._limited = True

    def _item(self, item: Any, event: str) -> None:
        kind, item_id = text_of(item, "type"), text_of(item, "id")
        if not item_id:
            self._not_known("item without an id")
        elif kind == "error":
            self._error(text_of(item, "message") or "an error without a message")
        elif kind in ("agent_message", "reasoning"):
            if event == "item.completed" and self._seen.first(item_id):
                self._said(kind, text_of(item, "text") or "")
        elif kind == "todo_list":
            return
        elif kind in ("command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call"):
            self._call(item_id, kind, item, done=event == "item.completed")
        else:
            self._not_known(f"item/{kind}")

    def _not_known(self, kind: str, *channels: Channel) -> None:
        # Said once the builder that counts is known.
        if len(self._unknown) < MAX_KEPT_ERRORS:
            self._unknown[kind] = channels

    def _said(self, kind: str, text: str) -> None:
        if kind == "reasoning":
            self._builder.thinking(text)
        else:
            self._messages += 1
            self._builder.message(text)

    def _call(self, item_id: str, kind: str, item: Any, *, done: bool) -> None:
        # The stream does not say what the tool is called, so a call goes by its canonical name here.
        name, tool, given = _named(kind, item)
        self._builder.called(item_id, name, given, tool)
        if name == SPAWN:
            self._spawned += self._builder.subagent(item_id, "subagent")
        if not done:
            return
        state = _STATES.get(text_of(item, "status") or ("completed" if kind == "web_search" else ""))
        if state is None:
            self._not_known(f"item state {text_of(item, 'status')}")
            return
        code = value_of(item, "exit_code")
        if type(code) is int and code != 0 and state == "completed":
            state = "failed"
        self._builder.result(item_id, _outcome(kind, item), state)  # type: ignore[arg-type]

    # The rollout file -------------------------------------------------------------------------------------------

    def _merged(
        self, chunks: Iterable[bytes], skip_turns: int, children: Iterable[Iterable[bytes]], killed: bool
    ) -> TurnBuilder | None:
        """What the rollout file says, with the errors of the stream in their places; None where it is not whole."""
        builder = TurnBuilder(coverage)
        waiting = list(reversed(self._errors))
        said = 0

        def place_errors() -> None:
            while waiting and waiting[-1][0] <= said:
                builder.error(waiting.pop()[1])

        def after_message() -> None:
            nonlocal said
            said += 1
            place_errors()

        place_errors()
        rollout = Rollout(builder, skip_turns=skip_turns, servers=self._servers, after_message=after_message)
        for chunk in chunks:
            rollout.feed(chunk)
        rollout.finish()
        if not rollout.complete or killed or not self._belongs(rollout):
            message = "the rollout file does not have the whole of this turn"
            self._builder.diagnostic("rollout-not-used", message)
            return None
        for _, message in reversed(waiting):
            builder.error(message)
        if rollout.usage is not None:
            builder.add_usage(rollout.usage)
            builder.add_usage(Usage(requests=rollout.requests))
        elif rollout.requests or self._ended == "completed":
            builder.partial("usage", "the rollout file has no usage of this turn")
        self.thread_total = rollout.thread_total or self.thread_total
        if not read_children(builder, rollout, children, self._servers):
            builder.incomplete("a subagent's rollout was not read whole", ("events", "actions", "usage"))
        return builder

    def _belongs(self, rollout: Rollout) -> bool:
        if self.thread_id is not None and rollout.thread_id not in (None, self.thread_id):
            return False
        if self._ended == "completed" and self.thread_total is not None and rollout.thread_total is not None:
            return self.thread_total == rollout.thread_total
        return True

    # The end ----------------------------------------------------------------------------------------------------

    def _own_usage(self) -> None:
        if self.thread_total is None:
            if self._ended != "completed":
                self._builder.partial("usage", "Codex says what was used only when a turn is completed")
            return
        if self._resumed and self._before is None:
            self._builder.unavailable("usage", "Codex counts tokens per thread, and what came before is not known")
            return
        used = self.thread_total if self._before is None else difference(self.thread_total, self._before)
        if used is None:
            self._builder.unavailable("usage", "the thread's running total is smaller than before the turn")
            return
        self._builder.add_usage(used)
        if self._spawned:
            self._builder.partial("usage", "Codex counts a subagent's tokens in its own rollout file")

    def _end(self, builder: TurnBuilder, exit_code: int | None, killed: bool) -> None:
        if killed:
            builder.incomplete("the CLI was ended before it was done")
        elif self._ended is None:
            builder.incomplete("the stream has no end of the turn")
        elif self._after_end:
            builder.incomplete("the stream goes on after the end of the turn")
        if self._failure is not None:
            builder.failed(self._failure)
        elif self._ended is None and exit_code != 0:
            code = "" if exit_code is None else f" (exit code {exit_code})"
            builder.failed(f"Codex ended without an end of the turn{code}", said=False)
        elif self._ended is not None and exit_code not in (0, None):
            builder.partial("status", f"Codex reported success and exited with {exit_code}")
            builder.failed(f"exit code {exit_code}", said=False)


def parse(
    chunks: Iterable[bytes],
    *,
    exit_code: int | None = None,
    killed: bool = False,
    rollout: Iterable[bytes] | None = None,
    skip_turns: int = 0,
    children: Iterable[Iterable[bytes]] = (),
    total_before: Usage | None = None,
    resumed: bool = False,
) -> Collected:
    """A whole run as one turn; see `Transcript`."""
    transcript = Transcript(total_before=total_before, resumed=resumed)
    for chunk in chunks:
        transcript.feed(chunk)
    return transcript.finish(
        exit_code=exit_code, killed=killed, rollout=rollout, skip_turns=skip_turns, children=children
    )


def _named(kind: str, item: Any) -> tuple[str, str | None, Any]:
    if kind == "command_execution":
        given = {"cmd": _script(text_of(item, "command") or "")}
        skill = skill_read(given)
        return ("shell", "shell", given) if skill is None else (LOAD_SKILL, None, {**given, "skill": skill})
    if kind == "file_change":
        return "file_edit", "file_edit", {"changes": list_of(item, "changes")}
    if kind == "web_search":
        return "web_search", "web_search", {"query": value_of(item, "query")}
    tool = text_of(item, "tool") or "unknown"
    if kind == "collab_tool_call":
        return tool, "agent_task" if tool == SPAWN else None, {"prompt": value_of(item, "prompt")}
    return mcp_name(text_of(item, "server") or "unknown", tool), None, value_of(item, "arguments")


def _script(command: str) -> str:
    """The command as the model gave it: without the shell that Codex runs it in."""
    if len(command) > MAX_SPLIT_CHARS:
        return command
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    in_shell = len(words) == 3 and words[0].rsplit("/", 1)[-1] in ("bash", "sh", "zsh") and words[1] in ("-lc", "-c")
    return words[2] if in_shell else command


def _outcome(kind: str, item: Any) -> Any:
    if kind == "command_execution":
        return value_of(item, "aggregated_output")
    if kind == "mcp_tool_call":
        return mcp_outcome(item)
    if kind == "collab_tool_call":
        return value_of(item, "agents_states")
    return None
