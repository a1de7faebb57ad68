"""A model, or an agent, behind an OpenAI-compatible Chat Completions endpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from niceeval.adapter import Agent, AgentContext, Coverage, EvidenceCoverage, TurnInput, define_agent
from niceeval.adapters.chat_completions._messages import JsonObject, tool_message, user_message
from niceeval.adapters.chat_completions._reading import read_answer
from niceeval.converters import openai_chat
from niceeval.http_service import Answer
from niceeval.tool_loop import Answered, EndpointSettings, Settled, ToolDefinition, ToolLoop

if TYPE_CHECKING:
    import httpx2

    from niceeval.adapter import InputRequest

_RESERVED: Final = frozenset({"messages", "model", "stream", "tools", "response_format"})


def chat_completions_agent(
    url: str | Callable[[], str],
    *,
    name: str = "chat-completions",
    model: str | None = None,
    api_key_env: str | None = "OPENAI_API_KEY",
    system: str | None = None,
    tools: Sequence[Callable[..., Any] | ToolDefinition] = (),
    approve: Sequence[str] = (),
    max_steps: int = 20,
    stream: bool = True,
    flags: Sequence[str] = (),
    extra_body: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    evidence_coverage: EvidenceCoverage | Mapping[str, Coverage] | None = None,
    timeout: float = 600.0,
    version: str | Callable[[], str] | None = None,
    transport: httpx2.AsyncBaseTransport | None = None,
) -> Agent:
    """An OpenAI-compatible endpoint: `chat_completions_agent("https://api.openai.com/v1", model="...")`.

    A callable as address is asked before each request. `tools` are functions that the adapter runs when the model calls
    them, until it answers or `max_steps` answers have come; those that `approve` names wait for a human. `flags` names
    the flags that become fields of each request, and `extra_body` are more of them. `model` holds where the experiment
    names none. `evidence_coverage` is for an endpoint that shows more, or less, than the protocol promises. `timeout`:
    seconds of silence that end a request. `transport` replaces the network, for tests.

    Raises AdapterError: `agent-invalid` for a tool that cannot be described, `extra-missing` without the extra `http`.
    """
    settings = EndpointSettings(
        name=name,
        url=url,
        path="/chat/completions",
        reserved=_RESERVED,
        model=model,
        api_key_env=api_key_env,
        system=system,
        tools=tools,
        approve=approve,
        max_steps=max_steps,
        stream=stream,
        extra_body=extra_body,
        flags=flags,
        headers=headers,
        timeout=timeout,
        transport=transport,
    )
    declared = settings.declared(openai_chat.coverage, evidence_coverage)
    loop = ToolLoop(settings, _ChatCompletions(settings), declared)
    return define_agent(
        name=name, evidence_coverage=declared, send=loop.send, version=version, secret_env=settings.secret_env
    )


class _ChatCompletions:
    """The dialect: a conversation is its messages."""

    def __init__(self, settings: EndpointSettings) -> None:
        self._settings = settings

    def begin(self) -> list[JsonObject]:
        system = self._settings.system
        return [] if system is None else [{"role": "system", "content": system}]

    def say(self, state: list[JsonObject], given: TurnInput) -> None:
        state.append(user_message(given))

    def tell(self, state: list[JsonObject], settled: Sequence[Settled]) -> None:
        state.extend(tool_message(each) for each in settled)

    def answer_request(self, state: list[JsonObject], request_id: str, *, approved: bool, reason: str | None) -> bool:
        return False

    def open_requests(self, state: list[JsonObject]) -> Sequence[InputRequest]:
        return ()

    def lapse(self, state: list[JsonObject]) -> None:
        return None

    def request(self, state: list[JsonObject], given: TurnInput, ctx: AgentContext) -> JsonObject:
        body: JsonObject = {"messages": state}
        if (model := ctx.model or self._settings.model) is not None:
            body["model"] = model
        if ctx.reasoning_effort is not None:
            body["reasoning_effort"] = ctx.reasoning_effort
        if self._settings.stream:
            body.update(stream=True, stream_options={"include_usage": True})
        if definitions := self._settings.client_tools.definitions():
            body["tools"] = [{"type": "function", "function": each.told()} for each in definitions]
        if given.output_schema is not None:
            schema = {"name": "answer", "schema": given.output_schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    async def read(self, answer: Answer, state: list[JsonObject], given: TurnInput) -> Answered:
        return await read_answer(answer, state, given)
