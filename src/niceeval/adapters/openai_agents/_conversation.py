"""One conversation with an agent: its history, and what it waits for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from niceeval.adapter import AdapterError, AgentContext, InputResponse, RetryableSendError, Turn, TurnInput
from niceeval.adapters.openai_agents._listening import Heard, formatter, hooks
from niceeval.adapters.openai_agents._schemas import ANSWER, output_type
from niceeval.converters import openai_agents as converter

_BUSY: Final = frozenset({429, 503})
_NO_VERDICT: Final = frozenset({"ModelTimeoutError", "MCPToolCancellationError"})
"""The SDK's errors that say nothing of the agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How runs are made; see `openai_agents_agent`."""

    models: Mapping[str, Any]
    run_config: Any
    max_turns: int | None
    start: str
    tracing: bool


class Conversation:
    """The history of one conversation line. `paused` is the run that the last turn waits in."""

    def __init__(self, agent: Any, context: Any, session: Any, how: Settings) -> None:
        self._agent = agent
        self._context = context
        self._session = session
        self._how = how
        self._history: list[Any] = []
        self._paused: Any = None
        self._paused_agent: Any = None
        self._ids = converter.CallIds()

    async def turn(self, input: TurnInput, ctx: AgentContext) -> Turn:
        """Run the agent once, on what came before."""
        from agents import Runner

        heard = Heard()
        config = self._config(ctx, heard)
        agent, given, after, wraps = self._begin(input, heard)
        options: dict[str, Any] = {} if self._how.max_turns is None else {"max_turns": self._how.max_turns}
        if after is None:
            options["context"] = self._context
        if self._session is not None:
            options["session"] = self._session
        try:
            result = await Runner.run(agent, given, run_config=config, hooks=hooks(heard), **options)
        except Exception as error:  # noqa: BLE001 - the agent's own code; what it raises is judged
            return self._raised(error, heard, after, ctx)
        self._keep(result, agent)
        turn = converter.collected(
            result,
            after=after,
            failed=heard.failed,
            rejected=heard.rejected,
            untold=heard.untold,
            data=input.output_schema is not None,
            ids=self._ids,
        ).report(ctx)
        if wraps and isinstance(turn.data, Mapping):
            turn = dataclasses.replace(turn, data=turn.data.get(ANSWER))
        return turn

    def _begin(self, input: TurnInput, heard: Heard) -> tuple[Any, Any, Any, bool]:
        """The agent, what it is given, the run that it goes on from, and whether its answer comes in a field."""
        if input.responses:
            state = self._answered(input.responses, heard)
            after, self._paused = self._paused, None
            return self._paused_agent, state, after, False
        # Something else in the place of an answer: what waits is dropped.
        self._paused = None
        prompt = [{"role": "user", "content": _content(input)}]
        given = prompt if self._session is not None else [*self._history, *prompt]
        if input.output_schema is None or self._agent.output_type not in (None, str):
            # An agent with a form of its own keeps it; whether it is the one that is wanted, the eval sees.
            return self._agent, given, None, False
        form, wraps = output_type(input.output_schema)
        return self._agent.clone(output_type=form), given, None, wraps

    def _answered(self, responses: Sequence[InputResponse], heard: Heard) -> Any:
        if self._paused is None:
            raise AdapterError("agent-invalid", problem="the agent waits for no answer", fix="send a text")
        state = self._paused.to_state()
        waiting = {item.call_id: item for item in self._paused.interruptions}
        for response in responses:
            id = self._ids.original(response.request_id)
            item = waiting.get(id)
            if item is None:
                raise AdapterError(
                    "agent-invalid", problem=f"nothing waits under {response.request_id}", fix="answer what waits"
                )
            if response.option_id == converter.APPROVE:
                state.approve(item)
            else:
                state.reject(item, rejection_message=response.text)
                heard.rejected.add(id)
        return state

    def _keep(self, result: Any, agent: Any) -> None:
        self._history = _closed(result.to_input_list())
        waits = bool(result.interruptions)
        self._paused, self._paused_agent = (result, agent) if waits else (None, None)
        if not waits and self._how.start == "last" and result.last_agent is not agent:
            self._agent = result.last_agent

    def _raised(self, error: Exception, heard: Heard, after: Any, ctx: AgentContext) -> Turn:
        """The turn of a run that raised, if that is the agent's doing. Raises the error if it says nothing of it."""
        status = getattr(error, "status_code", None)
        if status in _BUSY and not heard.answered and after is None:
            raise RetryableSendError(f"{type(error).__name__}: {error}", retry_after=_retry_after(error)) from error
        data = getattr(error, "run_data", None)
        if data is None or not _is_the_agents(error):
            raise error
        # The conversation goes on with what had finished.
        asked = [{"role": "user", "content": data.input}] if isinstance(data.input, str) else list(data.input)
        done = [item.to_input_item() for item in data.new_items if item.type != "tool_approval_item"]
        self._history = _closed([*asked, *done])
        return converter.collected(
            None,
            after=after,
            error=error,
            failed=heard.failed,
            rejected=heard.rejected,
            untold=heard.untold,
            ids=self._ids,
        ).report(ctx)

    def _config(self, ctx: AgentContext, heard: Heard) -> Any:
        from agents import ModelSettings, RunConfig

        config = self._how.run_config
        base = RunConfig() if config is None else RunConfig(**config) if isinstance(config, Mapping) else config
        changes: dict[str, Any] = {} if self._how.tracing else {"tracing_disabled": True}
        if ctx.model is not None:
            changes["model"] = self._how.models.get(ctx.model, ctx.model)
        if ctx.reasoning_effort is not None:
            effort = ModelSettings(reasoning=_reasoning(ctx.reasoning_effort))
            changes["model_settings"] = effort if base.model_settings is None else base.model_settings.resolve(effort)
        if hasattr(base, "tool_error_formatter"):
            changes["tool_error_formatter"] = formatter(base.tool_error_formatter, heard)
        return dataclasses.replace(base, **changes)


def _reasoning(effort: str) -> Any:
    from openai.types.shared import Reasoning

    try:
        return Reasoning(effort=effort)  # type: ignore[arg-type]
    except ValueError:
        raise AdapterError(
            "agent-invalid",
            problem=f"reasoning_effort={effort!r} is nothing that the OpenAI Agents SDK takes",
            fix="one of none, minimal, low, medium, high, xhigh",
        ) from None


def _content(input: TurnInput) -> Any:
    if not input.files:
        return input.text
    parts: list[dict[str, Any]] = [{"type": "input_text", "text": input.text}] if input.text else []
    for file in input.files:
        data = f"data:{file.mime_type};base64,{file.base64()}"
        if file.mime_type.startswith("image/"):
            parts.append({"type": "input_image", "image_url": data, "detail": "auto"})
        else:
            parts.append({"type": "input_file", "filename": file.filename, "file_data": data})
    return parts


def _closed(items: Sequence[Any]) -> list[Any]:
    """The history without calls that have no result: a service refuses such a history."""
    answered = {item.get("call_id") for item in items if str(item.get("type")).endswith("_output")}
    return [item for item in items if not (item.get("type") == "function_call" and item["call_id"] not in answered)]


def _is_the_agents(error: Exception) -> bool:
    """Whether the error is one of the agent, which then did badly, rather than of what it runs on."""
    from agents import AgentsException, UserError

    if not isinstance(error, AgentsException) or type(error).__name__ in _NO_VERDICT:
        return False
    if isinstance(error, UserError):
        # What a tool raised that nobody answers for comes as its cause; otherwise the agent is set up wrongly.
        return error.__cause__ is not None and not isinstance(error.__cause__, AgentsException)
    return True


def _retry_after(error: Exception) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        return max(float(headers.get("retry-after", "")), 0.0)
    except ValueError:
        return None
