"""One conversation with an agent: its history, and what it waits for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from niceeval.adapter import AdapterError, AgentContext, InputResponse, RetryableSendError, Turn, TurnInput
from niceeval.adapters.pydantic_ai._listening import Heard, listening
from niceeval.converters import pydantic_ai as converter

EFFORTS: Final = ("minimal", "low", "medium", "high", "xhigh", "max")
"""What the framework takes as `thinking`; `none` turns it off."""
ANSWER: Final = "answer"
"""The field that holds an answer that is no object, because models are asked for objects."""
_BUSY: Final = frozenset({429, 503})
_NO_VERDICT: Final = ("ModelAPIError", "FallbackExceptionGroup", "UserError", "ConcurrencyLimitExceeded")
"""Errors that say nothing of the agent: its model was not to be had, or it is not set up."""


class Conversation:
    """The history of one conversation line. `pending` is what the last turn waits for."""

    def __init__(
        self, agent: Any, deps: Any, models: Mapping[str, Any], run: Mapping[str, Any], subagents: Mapping[str, str]
    ) -> None:
        self._agent = agent
        self._deps = deps
        self._models = models
        self._run = run
        self._subagents = subagents
        self._history: list[Any] = []
        self._pending: Any = None
        self._ids = converter.CallIds()

    async def turn(self, input: TurnInput, ctx: AgentContext) -> Turn:
        """Run the agent once, on what came before."""
        from pydantic_ai import capture_run_messages
        from pydantic_ai.messages import repair_messages
        from pydantic_ai.usage import RunUsage

        usage, heard = RunUsage(), Heard()
        prompt = None if input.responses else _prompt(input)
        given, wraps = self._arguments(input, ctx)
        if capabilities := listening(self._agent, heard):
            given["capabilities"] = [*(given.get("capabilities") or ()), *capabilities]
        if input.responses:
            given["deferred_tool_results"] = self._answers(input.responses)
        elif self._pending is not None:
            # Something else was said in the place of an answer: what waits is closed without a result.
            self._history, self._pending = repair_messages(self._history), None
        with capture_run_messages() as captured:
            try:
                result = await self._agent.run(
                    prompt, message_history=self._history, deps=self._deps, usage=usage, **given
                )
            except Exception as error:  # noqa: BLE001 - the agent's own code; what it raises is judged
                return self._raised(error, list(captured), self._how(given, usage, heard), ctx)
        self._history = list(result.all_messages())
        output = result.output
        self._pending = output if type(output).__name__ == "DeferredToolRequests" else None
        data = input.output_schema is not None
        turn = converter.collected(result, data=data, **self._how(given, usage, heard)).report(ctx)
        if wraps and isinstance(turn.data, Mapping):
            turn = dataclasses.replace(turn, data=turn.data.get(ANSWER))
        return turn

    def _how(self, given: Mapping[str, Any], usage: object, heard: Heard) -> dict[str, Any]:
        """What the converter is told of a run beside its messages."""
        return {
            "ids": self._ids,
            "usage": usage,
            "subagents": self._subagents,
            "nested": heard.nested,
            "raised": heard.raised,
            "output_tools_named": _named_outputs(given.get("output_type") or self._agent.output_type),
        }

    def _raised(self, error: Exception, captured: list[Any], how: dict[str, Any], ctx: AgentContext) -> Turn:
        """The turn of a run that raised, if that is the agent's doing. Raises the error if it says nothing of it."""
        before = {getattr(message, "run_id", None) for message in self._history} | {None}
        messages = [message for message in captured if getattr(message, "run_id", None) not in before]
        answered = any(message.kind == "response" for message in messages)
        status = getattr(error, "status_code", None)
        if status in _BUSY and not answered and not self._pending:
            raise RetryableSendError(f"{type(error).__name__}: {error}") from error
        if not _is_the_agents(error, messages):
            raise error
        # The conversation goes on from where it broke; the framework mends what is open.
        self._history, self._pending = captured, None
        return converter.collected(messages, error=error, **how).report(ctx)

    def _arguments(self, input: TurnInput, ctx: AgentContext) -> tuple[dict[str, Any], bool]:
        """What the run is given beside the conversation, and whether the answer comes in a field."""
        given = dict(self._run)
        if ctx.model is not None:
            given["model"] = self._models.get(ctx.model, ctx.model)
        if ctx.reasoning_effort is not None:
            settings = given.get("model_settings") or {}
            given["model_settings"] = {**settings, "thinking": _effort(ctx.reasoning_effort)}
            if not self._history and not _thinks(given.get("model") or self._agent.model):
                message = f"the model does not take reasoning_effort={ctx.reasoning_effort!r}; it runs without"
                ctx.diagnostic("reasoning-effort-unused", "warning", message)
        if input.output_schema is None:
            return given, False
        own = given.get("output_type") or self._agent.output_type
        forms = _forms(own)
        if any(_is_structured(form) for form in forms):
            # The agent has a form of its own; whether it is the one that is wanted, the eval sees.
            return given, False
        wanted, wraps = _output_type(input.output_schema)
        given["output_type"] = [wanted, *(form for form in forms if _name(form) == "DeferredToolRequests")]
        return given, wraps

    def _answers(self, responses: Sequence[InputResponse]) -> Any:
        from pydantic_ai import DeferredToolResults, ToolApproved, ToolDenied

        pending = self._pending
        if pending is None:
            raise AdapterError("agent-invalid", problem="the agent waits for no answer", fix="send a text")
        waiting = {part.tool_call_id for part in pending.approvals}
        approvals: dict[str, Any] = {}
        calls: dict[str, Any] = {}
        for response in responses:
            id = self._ids.original(response.request_id)
            if id not in waiting:
                calls[id] = response.text
            elif response.option_id == converter.APPROVE:
                approvals[id] = ToolApproved()
            else:
                approvals[id] = ToolDenied(response.text) if response.text else ToolDenied()
        return DeferredToolResults(approvals=approvals, calls=calls)


def _prompt(input: TurnInput) -> Any:
    from pydantic_ai import BinaryContent

    if not input.files:
        return input.text
    files = [BinaryContent(data=file.data, media_type=file.mime_type) for file in input.files]
    return [*([input.text] if input.text else []), *files]


def _effort(effort: str) -> str | bool:
    if effort == "none":
        return False
    if effort not in EFFORTS:
        raise AdapterError(
            "agent-invalid",
            problem=f"reasoning_effort={effort!r} is nothing that Pydantic AI takes",
            fix=f"one of none, {', '.join(EFFORTS)}",
        )
    return effort


def _thinks(model: Any) -> bool:
    """Whether a model takes an effort, as far as it says; the framework leaves it out without a word where not."""
    try:
        profile = getattr(model, "profile", None)
    except NotImplementedError:
        # A model that falls back on others has none of its own.
        return True
    if not isinstance(profile, Mapping):
        return True
    return bool(profile.get("supports_thinking") or profile.get("thinking_always_enabled"))


def _output_type(schema: Mapping[str, Any]) -> tuple[Any, bool]:
    """The framework's form of a JSON Schema, and whether the answer is wrapped in a field."""
    from pydantic_ai import StructuredDict, UserError

    try:
        return StructuredDict(dict(schema)), False
    except UserError:
        inner = {key: value for key, value in schema.items() if key != "$defs"}
        outer = {"type": "object", "properties": {ANSWER: inner}, "required": [ANSWER]}
        if "$defs" in schema:
            outer["$defs"] = schema["$defs"]
        return StructuredDict(outer, name="Answer"), True


def _forms(output_type: Any) -> list[Any]:
    """The single forms that an agent may answer in."""
    if isinstance(output_type, (list, tuple)):
        return [form for given in output_type for form in _forms(given)]
    return [output_type]


def _name(form: Any) -> str:
    return form.__name__ if isinstance(form, type) else type(form).__name__


def _is_structured(form: Any) -> bool:
    return form is not str and _name(form) not in ("DeferredToolRequests", "TextOutput", "BinaryImage")


def _named_outputs(output_type: Any) -> list[str]:
    names = [getattr(form, "name", None) for form in _forms(output_type) if _name(form) == "ToolOutput"]
    return [name for name in names if isinstance(name, str)]


def _is_the_agents(error: Exception, messages: Sequence[Any]) -> bool:
    """Whether the error is one of the agent, which then did badly, rather than of what it runs on."""
    names = {cls.__name__ for cls in type(error).__mro__ if cls.__module__.startswith("pydantic_ai")}
    if "ModelContextWindowExceededError" in names:
        return True
    if names & set(_NO_VERDICT):
        return False
    if "AgentRunError" in names:
        return True
    # Whatever else is raised while tools run comes from one of them.
    return bool(messages) and _ran_tools(messages[-1])


def _ran_tools(last: Any) -> bool:
    if last.kind == "request":
        return bool(last.state == "interrupted")
    return any(part.part_kind == "tool-call" for part in last.parts)
