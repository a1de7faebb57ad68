"""A model, or an agent, behind an OpenAI Responses endpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from niceeval.adapter import Agent, AgentContext, Coverage, EvidenceCoverage, TurnInput, define_agent
from niceeval.adapters.responses._conversation import Conversation, History, JsonObject, call_output, user_message
from niceeval.adapters.responses._reading import read_answer
from niceeval.converters import openai_responses
from niceeval.http_service import Answer
from niceeval.tool_loop import Answered, EndpointSettings, Settled, ToolDefinition, ToolLoop

if TYPE_CHECKING:
    import httpx2

    from niceeval.adapter import InputRequest

_RESERVED: Final = frozenset({"input", "instructions", "model", "previous_response_id", "store", "stream", "tools"})


def responses_agent(
    url: str | Callable[[], str],
    *,
    name: str = "responses",
    model: str | None = None,
    api_key_env: str | None = "OPENAI_API_KEY",
    system: str | None = None,
    history: History = "server",
    tools: Sequence[Callable[..., Any] | ToolDefinition] = (),
    hosted_tools: Sequence[Mapping[str, Any]] = (),
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
    """An OpenAI Responses endpoint: `responses_agent("https://api.openai.com/v1", model="...")`.

    `history="server"`: the endpoint keeps the conversation, and each request names the response before it. `"client"`:
    nothing is stored there, and each request has all that was said. `hosted_tools` are tools of the endpoint's own, in
    its own words, such as an MCP server, whose requests for approval a human answers.

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
        path="/responses",
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
    declared = settings.declared(openai_responses.coverage, evidence_coverage)
    loop = ToolLoop(settings, _Responses(settings, history, hosted_tools), declared)
    return define_agent(
        name=name, evidence_coverage=declared, send=loop.send, version=version, secret_env=settings.secret_env
    )


class _Responses:
    """The dialect."""

    def __init__(self, settings: EndpointSettings, history: History, hosted_tools: Sequence[Mapping[str, Any]]) -> None:
        self._settings = settings
        self._history: History = history
        functions = [
            {"type": "function", **each.told(), "strict": False} for each in settings.client_tools.definitions()
        ]
        self._tools: list[JsonObject] = [*functions, *(dict(tool) for tool in hosted_tools)]

    def begin(self) -> Conversation:
        return Conversation()

    def say(self, state: Conversation, given: TurnInput) -> None:
        state.add(user_message(given))

    def tell(self, state: Conversation, settled: Sequence[Settled]) -> None:
        state.add(*(call_output(each) for each in settled))

    def answer_request(self, state: Conversation, request_id: str, *, approved: bool, reason: str | None) -> bool:
        return state.approve(request_id, approved, reason)

    def open_requests(self, state: Conversation) -> Sequence[InputRequest]:
        return list(state.requests.values())

    def lapse(self, state: Conversation) -> None:
        for request_id in state.requests:
            state.approve(request_id, approved=False, reason=None)

    def request(self, state: Conversation, given: TurnInput, ctx: AgentContext) -> JsonObject:
        body: JsonObject = {"input": state.items, "store": self._history == "server"}
        if (model := ctx.model or self._settings.model) is not None:
            body["model"] = model
        if self._settings.system is not None:
            body["instructions"] = self._settings.system
        if state.previous_id is not None:
            body["previous_response_id"] = state.previous_id
        if self._history == "client":
            body["include"] = ["reasoning.encrypted_content"]
        if ctx.reasoning_effort is not None:
            body["reasoning"] = {"effort": ctx.reasoning_effort}
        if self._settings.stream:
            body["stream"] = True
        if self._tools:
            body["tools"] = self._tools
        if given.output_schema is not None:
            form = {"type": "json_schema", "name": "answer", "schema": given.output_schema, "strict": False}
            body["text"] = {"format": form}
        return body

    async def read(self, answer: Answer, state: Conversation, given: TurnInput) -> Answered:
        return await read_answer(answer, state, given, self._history)
