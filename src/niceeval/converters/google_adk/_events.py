"""The parts of events, as events of ours. An event is the framework's object, or its JSON form in snake case."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from niceeval.adapter import InputOption, InputRequest, Usage
from niceeval.converters._attributes import count_field, field, items, text_field, without_bytes
from niceeval.converters._call_ids import CallIds
from niceeval.turn_building import TurnBuilder

APPROVE: Final = "approve"
REJECT: Final = "reject"
CONFIRMATION: Final = "adk_request_confirmation"
"""The call by which the framework asks for the approval of another one."""
INPUT: Final = "adk_request_input"
"""The call by which an agent asks a person for words."""
CREDENTIAL: Final = "adk_request_credential"
ANSWER_TOOL: Final = "set_model_response"
"""The tool by which an agent that has tools gives its structured answer: no action."""
TRANSFER: Final = "transfer_to_agent"
OPTIONS: Final = (InputOption(id=APPROVE, label="Approve"), InputOption(id=REJECT, label="Reject"))
REJECTED: Final = "This tool call is rejected."
"""What the framework gives as the error of a call that was not confirmed."""
MAX_REASON: Final = 200
"""Characters of a summary that are kept as the reason of a compaction."""
_REQUESTS: Final = frozenset({CONFIRMATION, INPUT, CREDENTIAL})


class EventReader:
    """Adds events to a builder. `subagents` maps tools that run an agent to its name; `rejected` are ids of calls a
    human refused, where the framework's own words do not say so.

    `requests` are the questions that are open, by their id; `answered` is the structured answer as it was given, and
    `state` what the run put into the session's state; `last_text` is what was said last.
    """

    def __init__(
        self, builder: TurnBuilder, ids: CallIds, subagents: Mapping[str, str], rejected: Collection[str]
    ) -> None:
        self.builder = builder
        self.requests: dict[str, InputRequest] = {}
        self.answered: Any = None
        self.state: dict[str, Any] = {}
        self.last_text: str | None = None
        self.tools_ran = False
        self.calls_subagents = False
        self.error: str | None = None
        self._ids = ids
        self._subagents = subagents
        self._rejected = frozenset(rejected)
        self._answer_calls: set[str] = set()
        self._open: dict[str, tuple[str, str, Any]] = {}
        self._transfers: dict[str, str] = {}
        self._said: dict[str, str] = {}
        self._long: set[str] = set()
        self._code: list[str] = []
        self._counted = self._uncounted = 0

    @property
    def open_calls(self) -> list[str]:
        """The ids of the calls that have no result."""
        return [unique for unique, _, _ in self._open.values()]

    def read(self, event: object) -> None:
        """One event, whole."""
        self.error = None
        actions = field(event, "actions")
        parts = items(field(field(event, "content"), "parts"))
        self._long.update(id for id in _members(field(event, "long_running_tool_ids")) if isinstance(id, str))
        if text_field(event, "author") != "user":
            for place, part in enumerate(parts):
                self._part(part, event, actions, place)
            self.builder.end_text()
            self._usage(event, parts, actions)
        self._actions(actions)
        self._ending(event)

    def _actions(self, actions: object) -> None:
        state = field(actions, "state_delta")
        if isinstance(state, Mapping):
            self.state.update(state)
        given = field(actions, "set_model_response")
        if given is not None:
            self.answered = given
        compaction = field(actions, "compaction")
        if compaction is not None:
            summary = items(field(field(compaction, "compacted_content"), "parts"))
            texts = "".join(text_field(part, "text") or "" for part in summary)
            self.builder.compaction(texts[:MAX_REASON] or None)

    def _ending(self, event: object) -> None:
        code, message = text_field(event, "error_code"), text_field(event, "error_message")
        if code is not None or message is not None:
            self.error = ": ".join(part for part in (code, message) if part)
            self.builder.error(self.error)
        if _name(field(event, "finish_reason")) == "MAX_TOKENS":
            self.builder.diagnostic("answer-cut", "an answer of the model ended at its limit of tokens")

    def _part(self, part: object, event: object, actions: object, place: int) -> None:
        text = text_field(part, "text")
        if field(part, "function_call") is not None:
            self._call(field(part, "function_call"), f"{text_field(event, 'id')}#{place}")
        elif field(part, "function_response") is not None:
            self._response(field(part, "function_response"), actions)
        elif field(part, "executable_code") is not None:
            self._executable(field(part, "executable_code"), f"{text_field(event, 'id')}#{place}")
        elif field(part, "code_execution_result") is not None:
            self._executed(field(part, "code_execution_result"))
        elif text is not None:
            self._text(text, event, thought=field(part, "thought") is True)
        elif field(part, "inline_data") is not None or field(part, "file_data") is not None:
            self._file(field(part, "inline_data") or field(part, "file_data"))
        elif field(part, "thought_signature") is None:
            self.builder.unknown("a part without known fields")

    def _text(self, text: str, event: object, *, thought: bool) -> None:
        id = text_field(event, "id") or ""
        if thought:
            self.builder.text_delta(text, kind="thinking", key=id)
            return
        self.builder.text_delta(text, key=id)
        author = text_field(event, "author") or ""
        self._said[author] = text
        self.last_text = text

    def _file(self, data: object) -> None:
        kind = text_field(data, "mime_type") or "a file of unknown type"
        self.builder.incomplete("the model answered with a file, which no event holds", ("events", "messages"))
        self.builder.diagnostic("file-left-out", f"the model answered with {kind}, which is not kept")

    # Tools ------------------------------------------------------------------------------------------------------

    def _call(self, call: object, fallback: str) -> None:
        id, name = text_field(call, "id") or fallback, text_field(call, "name") or "unknown"
        given = without_bytes(field(call, "args") or {})
        if name in _REQUESTS:
            self.requests[id] = _request(id, name, given)
            return
        if name == ANSWER_TOOL:
            self._answer_calls.add(id)
            return
        unique = self._ids.call(id)
        if name == TRANSFER:
            agent = text_field(given, "agent_name") or "unknown"
            self._transfers[id] = agent
            self.builder.subagent(unique, agent)
            return
        self._open[id] = (unique, name, given)
        if name in self._subagents:
            self.calls_subagents = True
            self.builder.subagent(unique, self._subagents[name])
        else:
            self.builder.called(unique, name, given)

    def _response(self, response: object, actions: object) -> None:
        id, name = text_field(response, "id") or "", text_field(response, "name") or "unknown"
        value = without_bytes(field(response, "response"))
        waiting = _members(field(actions, "requested_tool_confirmations"))
        if id in waiting or id in _members(field(actions, "requested_auth_configs")) or id in self._transfers:
            # The framework's own words while a call waits, and for a transfer, which has no end.
            return
        if id in self._answer_calls or name in _REQUESTS:
            if "error" in _members(value):
                self.builder.error(f"the structured answer was refused: {field(value, 'error')}")
            return
        self.tools_ran = True
        if id in self._long and "error" not in _members(value):
            # What comes first of such a tool is a ticket; its result comes in a later turn, or never.
            self.builder.diagnostic("long-running-tool", f"{name} went on: its result is not known", level="info")
            self._open.pop(id, None)
            return
        self._open.pop(id, None)
        self._result(self._ids.result(id), id, name, value)

    def _result(self, unique: str, id: str, name: str, value: Any) -> None:
        failed = isinstance(value, Mapping) and value.get("error") is not None
        output = value["result"] if isinstance(value, Mapping) and set(value) == {"result"} else value
        if name in self._subagents:
            self.builder.subagent_done(unique, output, "failed" if failed else "completed")
        elif failed and (value["error"] == REJECTED or id in self._rejected):
            self.builder.result(unique, output, "rejected")
        else:
            self.builder.result(unique, output, "failed" if failed else "completed")

    def _executable(self, code: object, id: str) -> None:
        language = _name(field(code, "language")) or "unknown"
        self._code.append(id)
        self.builder.called(id, "code_execution", {"language": language, "code": text_field(code, "code")})

    def _executed(self, result: object) -> None:
        outcome = _name(field(result, "outcome"))
        if self._code:
            status = "completed" if outcome == "OUTCOME_OK" else "failed"
            self.builder.result(self._code.pop(0), text_field(result, "output"), status)  # type: ignore[arg-type]
        else:
            self.builder.unknown("a result of code without the code")

    # The end ----------------------------------------------------------------------------------------------------

    def finish(self, *, failed: bool) -> None:
        """What is left to say: agents that were handed the work end with the run, and calls that wait are requests."""
        for id, (_, name, given) in self._open.items():
            if id in self._long:
                self.requests.setdefault(id, InputRequest(id=id, action=name, input=given))
        for request in self.requests.values():
            self.builder.requested(request)
        if not self.requests:
            for id, agent in self._transfers.items():
                status = "failed" if failed else "completed"
                self.builder.subagent_done(self._ids.current(id), self._said.get(agent), status)  # type: ignore[arg-type]
        if self._uncounted and self._counted:
            self.builder.partial("usage", f"{self._uncounted} of the model's answers came without token counts")
        elif self._uncounted:
            self.builder.unavailable("usage", "the model's answers came without token counts")

    def _usage(self, event: object, parts: list[Any], actions: object) -> None:
        usage = usage_of(field(event, "usage_metadata"))
        if usage is not None:
            self._counted += 1
            self.builder.add_usage(usage)
            return
        if text_field(field(event, "content"), "role") != "model" or not parts:
            return
        calls = [text_field(field(part, "function_call"), "name") for part in parts]
        if all(name in _REQUESTS for name in calls):
            return
        if self.answered is not None and self._is_the_answer(parts):
            # The framework says the structured answer again, as a text.
            return
        self._uncounted += 1

    def _is_the_answer(self, parts: list[Any]) -> bool:
        try:
            return bool(json.loads("".join(text_field(part, "text") or "" for part in parts)) == self.answered)
        except (ValueError, RecursionError):
            return False


def usage_of(usage: object) -> Usage | None:
    """One answer's tokens. Gemini counts thoughts beside the answer, and cached tokens among the prompt's."""
    prompt, output = count_field(usage, "prompt_token_count"), count_field(usage, "candidates_token_count")
    thoughts = count_field(usage, "thoughts_token_count")
    if prompt is None:
        return None
    cached, for_tools = (
        count_field(usage, "cached_content_token_count"),
        count_field(usage, "tool_use_prompt_token_count"),
    )
    return Usage(
        input_tokens=max(prompt - (cached or 0), 0) + (for_tools or 0),
        output_tokens=(output or 0) + (thoughts or 0),
        cache_read_tokens=cached,
        reasoning_tokens=thoughts,
        requests=1,
    )


def _request(id: str, name: str, given: Any) -> InputRequest:
    if name == CONFIRMATION:
        call = field(given, "originalFunctionCall")
        hint = text_field(field(given, "toolConfirmation"), "hint")
        action, arguments = text_field(call, "name"), field(call, "args")
        return InputRequest(id=id, action=action, input=arguments, prompt=hint, options=OPTIONS)
    prompt = text_field(given, "message") or ("credentials are needed" if name == CREDENTIAL else None)
    return InputRequest(id=id, prompt=prompt, input=given if prompt is None or name == CREDENTIAL else None)


def _members(value: object) -> Collection[Any]:
    return value if isinstance(value, (Mapping, set, frozenset, list, tuple)) else ()


def _name(value: object) -> str | None:
    """The name of a member of an enumeration, or the text that stands for it."""
    name = getattr(value, "name", value)
    return name if isinstance(name, str) else None
