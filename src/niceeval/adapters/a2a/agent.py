"""An agent behind A2A, asked by the protocol's own SDK."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from niceeval.adapter import (
    AdapterError,
    Agent,
    AgentContext,
    RetryableSendError,
    SessionSlot,
    Turn,
    TurnInput,
    define_agent,
    require_extra,
)
from niceeval.converters.a2a import Reading, coverage

if TYPE_CHECKING:
    import httpx
    from a2a.client import Client
    from a2a.types import AgentCard, SendMessageRequest

CONNECT_LIMIT: Final = 10.0
"""Seconds that a connection may take to be made."""
MAX_SAID: Final = 500
"""Characters of an error that are repeated."""
_BINDINGS: Final = ["JSONRPC", "HTTP+JSON"]
_NOT_ACCEPTED: Final = frozenset({429, 503})

Metadata = Mapping[str, Any] | Callable[[TurnInput, AgentContext], Mapping[str, Any]]
"""The metadata of each request: fixed ones, or made for each turn."""


class _Talk:
    """One conversation: whose card was read, which task waits, and what has been said."""

    def __init__(self) -> None:
        self.card: AgentCard | None = None
        self.waiting_task: str | None = None
        self.known: frozenset[str] = frozenset()


_TALK: SessionSlot[_Talk] = SessionSlot("a2a-talk", default=_Talk)


def a2a_agent(
    url: str,
    *,
    name: str = "a2a",
    headers: Mapping[str, str] | None = None,
    metadata: Metadata | None = None,
    card_path: str | None = None,
    streaming: bool = True,
    timeout: float = 600.0,
    version: str | Callable[[], str] | None = None,
    secret_env: Sequence[str] = (),
    transport: httpx.AsyncBaseTransport | None = None,
) -> Agent:
    """An agent that speaks A2A: `a2a_agent("http://127.0.0.1:9999")`, which is where its card is.

    `headers` go with each request (a key belongs here; name its variable in `secret_env`). `metadata` is that of each
    request, also as a callable `(input, ctx) -> mapping`, which is where a model or an effort can be put. `card_path`
    is the card's place, where it is not the usual one. `streaming=False` asks for the last state only. `timeout`:
    seconds of silence that end a request. `transport` replaces the network, for tests.

    Raises AdapterError `extra-missing` without the extra `a2a`.
    """
    require_extra("a2a", extra="a2a", wanted_by=name)
    driver = _Driver(
        name=name,
        url=url,
        headers=dict(headers or {}),
        metadata=metadata,
        card_path=card_path,
        streaming=streaming,
        timeout=timeout,
        transport=transport,
    )
    return define_agent(name=name, evidence_coverage=coverage, send=driver.send, version=version, secret_env=secret_env)


class _Driver:
    def __init__(
        self,
        *,
        name: str,
        url: str,
        headers: Mapping[str, str],
        metadata: Metadata | None,
        card_path: str | None,
        streaming: bool,
        timeout: float,
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        self._name = name
        self._url = url
        self._headers = headers
        self._metadata = metadata
        self._card_path = card_path
        self._streaming = streaming
        self._timeout = timeout
        self._transport = transport

    async def send(self, input: TurnInput, ctx: AgentContext) -> Turn:
        """One turn: a message that begins a task, or one that a waiting task is answered by."""
        import httpx

        talk = ctx.session.get(_TALK)
        if input.responses and [response.request_id for response in input.responses] != [talk.waiting_task]:
            problem = "an answer to a task that does not wait"
            raise AdapterError("agent-input", agent=self._name, problem=problem, fix="answer the last turn's request")
        request = self._request(talk, input, ctx)
        reading = Reading(known=talk.known, wants_data=input.output_schema is not None)
        limits = httpx.Timeout(self._timeout, connect=CONNECT_LIMIT)
        headers = {**self._headers, **ctx.telemetry_headers}
        async with httpx.AsyncClient(headers=headers, timeout=limits, transport=self._transport) as http:
            client = await self._client(talk, http)
            cut = await self._read(client, request, reading)
        if reading.context_id is not None:
            ctx.session.capture(reading.context_id)
        talk.known = reading.ids
        talk.waiting_task = reading.task_id if reading.asks else None
        return reading.finish(cut).report(ctx)

    def _request(self, talk: _Talk, given: TurnInput, ctx: AgentContext) -> SendMessageRequest:
        from a2a.helpers import new_message, new_raw_part, new_text_part
        from a2a.types import Role, SendMessageConfiguration, SendMessageRequest

        parts = [new_raw_part(file.data, media_type=file.mime_type, filename=file.filename) for file in given.files]
        if given.text or not parts:
            parts.insert(0, new_text_part(given.text))
        # A task that is done is not gone on with: a new one of the same context is.
        message = new_message(parts, context_id=ctx.session.id, task_id=talk.waiting_task, role=Role.ROLE_USER)
        request = SendMessageRequest(message=message)
        if given.output_schema is not None:
            ctx.diagnostic("input-not-passed", "warning", "the protocol asks for JSON, but has no place for its schema")
            request.configuration.CopyFrom(SendMessageConfiguration(accepted_output_modes=["application/json"]))
        request.metadata.update(self._metadata_of(given, ctx))
        return request

    def _metadata_of(self, given: TurnInput, ctx: AgentContext) -> Mapping[str, Any]:
        if callable(self._metadata):
            return self._metadata(given, ctx)
        for what, value in (("model", ctx.model), ("reasoning effort", ctx.reasoning_effort), ("flags", ctx.flags)):
            if value:
                ctx.diagnostic(
                    "input-not-passed", "warning", f"the protocol has no place for the {what}: pass it with `metadata=`"
                )
        return self._metadata or {}

    async def _client(self, talk: _Talk, http: httpx.AsyncClient) -> Client:
        from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
        from a2a.utils.errors import A2AError

        try:
            config = ClientConfig(httpx_client=http, streaming=self._streaming, supported_protocol_bindings=_BINDINGS)
            factory = ClientFactory(config)
            if talk.card is None:
                talk.card = await A2ACardResolver(http, self._url).get_agent_card(relative_card_path=self._card_path)
            return factory.create(talk.card)
        except (A2AError, ValueError) as error:
            raise self._refused(f"its card: {_told(error)}", error) from None

    async def _read(self, client: Client, request: SendMessageRequest, reading: Reading) -> str | None:
        """The answer; why it is not whole, where it is not."""
        from a2a.client import A2AClientError
        from a2a.utils.errors import A2AError, InternalError

        begun = False
        try:
            async for response in client.send_message(request):
                begun = True
                reading.add(response)
        except InternalError as error:
            reading.failed(_told(error))
        except A2AClientError as error:
            if not begun:
                raise self._refused(_told(error), error) from None
            return f"the connection broke: {_told(error)}"
        except (A2AError, ValueError) as error:
            raise self._refused(_told(error), error) from None
        return None

    def _refused(self, problem: str, error: BaseException) -> Exception:
        """An error that says whether the input may be sent again."""
        import httpx

        cause = error.__cause__
        status = cause.response.status_code if isinstance(cause, httpx.HTTPStatusError) else None
        if status in _NOT_ACCEPTED or isinstance(cause, (httpx.ConnectError, httpx.ConnectTimeout)):
            return RetryableSendError(f"{self._name}: {problem}")
        return AdapterError("service-failed", service=self._name, problem=problem)


def _told(error: BaseException) -> str:
    said = str(error).strip()
    return (f"{type(error).__name__}: {said}" if said else type(error).__name__)[:MAX_SAID]
