"""What `claude --print --output-format stream-json --verbose` prints, as one turn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from niceeval.adapter import Coverage, EvidenceCoverage, InputOption, InputRequest, Usage
from niceeval.adapters.claude_code._blocks import Blocks, usage_of
from niceeval.turn_building import (
    Collected,
    JsonLines,
    JsonObject,
    SeenIds,
    TurnBuilder,
    amount_of,
    count_of,
    list_of,
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
    data=Coverage.unavailable("Claude Code's stream has no structured answer"),
)
"""What a whole stream shows: every message and call, compaction, the final usage and how it ended."""

MAX_RESULTS: Final = 200
"""The most result lines that are kept; the CLI prints one, and one more for each subagent that ends after it."""
MAX_DENIALS: Final = 1_000
"""The most denied calls that a result line is read for."""

_SILENT_TYPES: Final = frozenset(
    {
        "auth_status",
        "control_response",
        "keep_alive",
        "prompt_suggestion",
        "stream_event",
        "streamlined_text",
        "streamlined_tool_use_summary",
        "tool_progress",
        "tool_use_summary",
    }
)
"""Lines that say nothing that another line does not say: progress, pieces of messages, housekeeping."""
_SILENT_SYSTEM: Final = frozenset(
    {
        "background_tasks_changed",
        "elicitation_complete",
        "files_persisted",
        "hook_progress",
        "hook_response",
        "hook_started",
        "local_command_output",
        "permission_denied",
        "post_turn_summary",
        "session_state_changed",
        "status",
        "task_progress",
        "thinking_tokens",
        "ui_invalidate",
    }
)
_ENDED: Final = frozenset({"completed", "failed", "stopped", "killed", "cancelled"})


class Transcript:
    """Reads a stream as it arrives.

    transcript = Transcript()
    transcript.feed(chunk)
    collected = transcript.finish(exit_code=0)

    `session_id`, `model` and `version` are what the CLI said of itself so far; `questions` are the tool calls that it
    waits for a permission for (`--permission-prompt-tool stdio`).
    """

    def __init__(self) -> None:
        self._lines = JsonLines()
        self._builder = TurnBuilder(coverage)
        self._blocks = Blocks(self._builder)
        self._seen = SeenIds()
        self._repeated = 0
        self._runs = 0
        self._results: list[JsonObject] = []
        self._result_count = 0
        self._after_result = False
        self._tasks: dict[str, str] = {}
        self._unsure: set[str] = set()
        self._asked: dict[str, InputRequest] = {}
        self.session_id: str | None = None
        self.model: str | None = None
        self.version: str | None = None

    @property
    def questions(self) -> tuple[InputRequest, ...]:
        """The permissions that the CLI has asked for and was not seen to get or to be denied."""
        return tuple(self._asked.values())

    def feed(self, chunk: bytes) -> None:
        """Some of the stream; it may end anywhere."""
        for line in self._lines.feed(chunk):
            self._line(line)

    def finish(self, *, exit_code: int | None = None, killed: bool = False, paused: bool = False) -> Collected:
        """The turn. `exit_code` is the CLI's, None where it is not known; `killed` says that it was ended from outside;
        `paused` says that it was left waiting for the answers to its `questions`."""
        for line in self._lines.finish():
            self._line(line)
        self._builder.reading(self._lines, "the stream")
        if self._repeated:
            self._builder.diagnostic("transcript-repeats", f"{self._repeated:,} lines came twice", level="info")
        if paused and self._asked:
            for request in self._asked.values():
                self._builder.requested(request)
            self._builder.partial("usage", "the CLI says what was used when the turn ends, and it waits")
            return self._builder.build()
        self._end(exit_code, killed)
        return self._builder.build()

    # Lines ------------------------------------------------------------------------------------------------------

    def _line(self, line: JsonObject) -> None:
        if not self._seen.first(text_of(line, "uuid")):
            self._repeated += 1
            return
        self.session_id = self.session_id or text_of(line, "session_id")
        kind = text_of(line, "type")
        if kind == "assistant":
            self._assistant(line)
        elif kind == "user":
            self._user(line)
        elif kind == "result":
            self._result(line)
        elif kind == "system":
            self._system(line)
        elif kind in ("control_request", "control_cancel_request"):
            self._control(line, kind)
        elif kind == "rate_limit_event":
            self._rate_limit(line)
        elif kind not in _SILENT_TYPES:
            self._builder.unknown(kind or "a line without a type", ("usage", "status"))

    def _assistant(self, line: JsonObject) -> None:
        self._after_result = True
        message = object_of(line, "message")
        if line.get("is_api_error_message") is True or (line.get("error") and message.get("model") == "<synthetic>"):
            texts = [text_of(block, "text") or "" for block in list_of(message, "content")]
            self._builder.error("\n".join(texts) or str(line.get("error")))
            return
        self._blocks.assistant(message, child=text_of(line, "parent_tool_use_id") is not None)

    def _user(self, line: JsonObject) -> None:
        known = {text_of(meta, "id"): meta for meta in list_of(line, "tool_result_meta")}
        rejected = frozenset(call_id for call_id, meta in known.items() if call_id and _refused(meta))
        for call_id in self._blocks.user(line, rejected=rejected, details=line.get("tool_use_result")):
            self._after_result = True
            self._asked.pop(call_id, None)
            if call_id not in known and len(self._unsure) < MAX_DENIALS:
                # Only the end of the stream says whether it was denied.
                self._unsure.add(call_id)

    def _result(self, line: JsonObject) -> None:
        self._result_count += 1
        self._after_result = False
        self._results.append(
            {
                key: line.get(key)
                for key in ("is_error", "subtype", "result", "errors", "usage", "total_cost_usd", "terminal_reason")
            }
            | {"since": line.get("model_usage_since_last_result"), "total": line.get("modelUsage")}
        )
        if len(self._results) > MAX_RESULTS:
            self._builder.partial("usage", f"more than {MAX_RESULTS:,} result lines")
            del self._results[1]
        for denial in list_of(line, "permission_denials")[:MAX_DENIALS]:
            call_id = text_of(denial, "tool_use_id")
            if call_id:
                self._builder.amend(call_id, "rejected")
                self._unsure.discard(call_id)

    def _system(self, line: JsonObject) -> None:
        kind = text_of(line, "subtype") or "nothing"
        if kind == "init":
            self._runs += 1
            self._after_result = True
            self.model = self.model or text_of(line, "model")
            self.version = self.version or text_of(line, "claude_code_version")
        elif kind == "api_retry":
            self._retry(line)
        elif kind in ("compact_boundary", "microcompact_boundary"):
            self._builder.compaction(text_of(line, "compact_metadata", "trigger"))
        elif kind in ("task_started", "task_updated", "task_notification"):
            self._task(line, kind)
        elif kind == "api_error":
            self._builder.error(f"API error {value_of(line, 'error', 'status')}")
        elif kind not in _SILENT_SYSTEM:
            self._builder.unknown(f"system/{kind}")

    def _retry(self, line: JsonObject) -> None:
        status, error = line.get("error_status"), line.get("error")
        said = f"retry {line.get('attempt')} of {line.get('max_retries')} after {status} ({error})"
        self._builder.error(said)
        if status == 429 or error == "rate_limit":
            self._builder.diagnostic("rate-limited", "the model's API limited the rate; the CLI tried again")

    def _rate_limit(self, line: JsonObject) -> None:
        info = object_of(line, "rate_limit_info")
        if text_of(info, "status") not in (None, "allowed"):
            message = f"rate limit {text_of(info, 'rateLimitType') or ''}: {text_of(info, 'status')}"
            self._builder.diagnostic("rate-limited", message)

    def _task(self, line: JsonObject, kind: str) -> None:
        task, call_id = text_of(line, "task_id") or "", text_of(line, "tool_use_id")
        if kind == "task_started":
            if line.get("is_backgrounded") is True:
                self._tasks[task] = call_id or ""
                if call_id:
                    self._blocks.background.add(call_id)
            return
        status = text_of(line, "status") or text_of(line, "patch", "status")
        if kind == "task_updated":
            if line.get("patch") and value_of(line, "patch", "is_backgrounded") is True:
                self._tasks.setdefault(task, call_id or "")
            return
        call_id = call_id or self._tasks.get(task)
        if status in _ENDED:
            if task in self._tasks:
                self._after_result = True
            self._tasks.pop(task, None)
            if call_id and call_id in self._blocks.background and self._builder.subagent_open(call_id):
                done = "completed" if status == "completed" else "failed"
                self._builder.subagent_done(call_id, text_of(line, "summary"), done)  # type: ignore[arg-type]

    def _control(self, line: JsonObject, kind: str) -> None:
        request_id, request = text_of(line, "request_id"), object_of(line, "request")
        if kind == "control_cancel_request":
            self._asked = {call: asked for call, asked in self._asked.items() if asked.id != request_id}
        elif text_of(request, "subtype") == "can_use_tool" and request_id:
            self._asked[text_of(request, "tool_use_id") or request_id] = InputRequest(
                id=request_id,
                action=text_of(request, "tool_name"),
                input=value_of(request, "input"),
                prompt=text_of(request, "description") or text_of(request, "title"),
                options=(InputOption(id="allow", label="Allow"), InputOption(id="deny", label="Deny")),
            )
        elif text_of(request, "subtype") not in ("hook_callback", "mcp_message"):
            self._builder.unknown(f"control_request/{text_of(request, 'subtype')}")

    # The end ----------------------------------------------------------------------------------------------------

    def _end(self, exit_code: int | None, killed: bool) -> None:
        missing = self._missing(killed)
        if missing:
            self._builder.incomplete(missing)
            for call_id in self._unsure:
                # It may have been denied: nothing may be claimed of it.
                self._builder.amend(call_id, None)
        self._usage()
        last = self._results[-1] if self._results else None
        error = value_of(last, "is_error")
        if last is not None and not isinstance(error, bool):
            self._builder.partial("status", "the result line does not say whether it is an error")
        if error is True or (last is None and exit_code != 0) or any(one["is_error"] is True for one in self._results):
            self._builder.failed(_failure(last, exit_code), said=last is not None)
        elif last is not None and exit_code not in (0, None):
            self._builder.partial("status", f"the CLI reported success and exited with {exit_code}")
            self._builder.failed(f"exit code {exit_code}", said=False)

    def _missing(self, killed: bool) -> str | None:
        if killed:
            return "the CLI was ended before it was done"
        if not self._results:
            return "the stream has no result line"
        if self._after_result or self._result_count < self._runs:
            return "the stream ends before its last result line"
        if self._tasks:
            return "a background task was still running at the end of the stream"
        return None

    def _usage(self) -> None:
        if not self._results:
            return
        since = [object_of(one, "since") for one in self._results if isinstance(one["since"], dict)]
        if len(since) == len(self._results):
            for models in since:
                for figures in models.values():
                    self._builder.add_usage(_model_usage(figures))
            if not any(since):
                self._builder.add_usage(Usage(input_tokens=0, output_tokens=0))
        else:
            self._main_usage()
        if self._blocks.requests:
            self._builder.add_usage(Usage(requests=self._blocks.requests))

    def _main_usage(self) -> None:
        # An older CLI: the sums that include subagents run on from the session's earlier turns.
        if self._blocks.subagents:
            self._builder.partial("usage", "the CLI reports the tokens of the main conversation, without subagents")
        for one in self._results:
            usage = usage_of(one["usage"])
            if usage is None:
                self._builder.partial("usage", "a result line came without usage")
            else:
                self._builder.add_usage(usage)


def parse(
    chunks: Iterable[bytes], *, exit_code: int | None = None, killed: bool = False, paused: bool = False
) -> Collected:
    """A whole stream as one turn; see `Transcript.finish`."""
    transcript = Transcript()
    for chunk in chunks:
        transcript.feed(chunk)
    return transcript.finish(exit_code=exit_code, killed=killed, paused=paused)


def _refused(meta: object) -> bool:
    return text_of(meta, "permission_decision", "decision") in ("reject", "deny")


def _model_usage(figures: object) -> Usage:
    return Usage(
        input_tokens=count_of(figures, "inputTokens"),
        output_tokens=count_of(figures, "outputTokens"),
        cache_read_tokens=count_of(figures, "cacheReadInputTokens"),
        cache_write_tokens=count_of(figures, "cacheCreationInputTokens"),
        reasoning_tokens=count_of(figures, "thinkingTokens"),
        cost_usd=amount_of(figures, "costUSD"),
    )


def _failure(last: Any, exit_code: int | None) -> str:
    if last is None:
        code = "" if exit_code is None else f" (exit code {exit_code})"
        return f"Claude Code ended without a result{code}"
    errors = [text for text in list_of(last, "errors") if isinstance(text, str)]
    said = "\n".join(errors) or text_of(last, "result") or text_of(last, "terminal_reason") or text_of(last, "subtype")
    return said or "Claude Code reported an error"
