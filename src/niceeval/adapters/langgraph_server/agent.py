"""A graph behind the API of a LangGraph server: `langgraph dev`, or a deployment."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    AdapterError,
    Agent,
    AgentContext,
    Coverage,
    EvidenceCoverage,
    InputFile,
    InputResponse,
    SessionSlot,
    Turn,
    TurnInput,
    define_agent,
)
from niceeval.converters.langgraph import CallIds, Pause, Reading, Resume, coverage, resume_values
from niceeval.http_service import Answer, HttpService

if TYPE_CHECKING:
    import httpx2

MAX_STREAM_CHARS: Final = 256_000_000
"""The most of one run's stream that is read, in characters: it repeats the whole state at every step."""
STRUCTURED: Final = "structured_response"
"""Where LangChain's agents keep their structured answer."""
_KINDS: Final = ("image", "audio", "video")

MakeInput = Callable[[TurnInput, AgentContext], Any]


class _Thread:
    """One conversation: the server's thread, what it has shown, and what it waits for."""

    def __init__(self) -> None:
        self.id = str(uuid.uuid4())
        self.ids = CallIds()
        self.seen: frozenset[str] = frozenset()
        self.pauses: list[Pause] = []
        self.open: list[ActionCalled] = []

    def refused(self, responses: Sequence[InputResponse]) -> frozenset[str]:
        """Ids of the calls that the answers refuse. A request names its call by nothing but tool and arguments."""
        asked = {pause.request.id: pause.request for pause in self.pauses}
        left = list(self.open)
        found = set()
        for id, request in asked.items():
            call = next((one for one in left if (one.name, one.input) == (request.action, request.input)), None)
            if call is None:
                continue
            left.remove(call)
            if any(answer.request_id == id and answer.option_id != "approve" for answer in responses):
                found.add(self.ids.original(call.call_id))
        return frozenset(found)


_THREAD: SessionSlot[_Thread] = SessionSlot("langgraph-server-thread", default=_Thread)


def langgraph_server_agent(
    url: str,
    graph: str,
    *,
    name: str | None = None,
    headers: Mapping[str, str] | None = None,
    config: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    make_input: MakeInput | None = None,
    messages_key: str = "messages",
    resume: Resume | None = None,
    subagents: Mapping[str, str] | None = None,
    structured: bool = False,
    timeout: float = 600.0,
    version: str | Callable[[], str] | None = None,
    secret_env: Sequence[str] = (),
    transport: httpx2.AsyncBaseTransport | None = None,
) -> Agent:
    """A graph of a LangGraph server: `langgraph_server_agent("http://127.0.0.1:2024", "support")`.

    `graph` is the name of a graph, or the id of an assistant. Each conversation is a thread of its own. `headers` go
    with each request (`x-api-key` belongs here; name its variable in `secret_env`). `config` is added to each run's
    (`recursion_limit`, `tags`); an experiment's model, effort and flags are put into its `configurable`, or into the
    `context`, where one is given: a server takes only one of the two. `make_input(input, ctx)` makes the graph's input,
    where that is no message. `resume(value, response)` makes what `interrupt(value)` returns, where that is not the
    answer's text. `subagents` maps tools that run another agent to that agent's name ({}: none does). `structured`: the
    graph keeps a structured answer in its state, as `create_agent(response_format=...)` does. `timeout`: seconds of
    silence that end a request. `transport` replaces the network, for tests.

    Raises AdapterError `extra-missing` without the extra `http`.
    """
    named = name or graph
    service = HttpService(url.rstrip("/"), name=named, headers=headers, timeout=timeout, transport=transport)
    driver = _Driver(
        name=named,
        service=service,
        graph=graph,
        config=config or {},
        context=context,
        make_input=make_input,
        messages_key=messages_key,
        resume=resume,
        subagents=subagents,
        structured=structured,
    )
    nothing = Coverage.unavailable("the graph keeps no structured answer; structured= says otherwise")
    declared = EvidenceCoverage(
        **{channel: found for channel, found in coverage.items() if channel != "data"},
        data=coverage["data"] if structured else nothing,
    )
    return define_agent(
        name=named, evidence_coverage=declared, send=driver.send, version=version, secret_env=secret_env
    )


class _Driver:
    def __init__(
        self,
        *,
        name: str,
        service: HttpService,
        graph: str,
        config: Mapping[str, Any],
        context: Mapping[str, Any] | None,
        make_input: MakeInput | None,
        messages_key: str,
        resume: Resume | None,
        subagents: Mapping[str, str] | None,
        structured: bool,
    ) -> None:
        self._name = name
        self._service = service
        self._graph = graph
        self._config = config
        self._context = context
        self._make_input = make_input
        self._messages_key = messages_key
        self._resume = resume
        self._subagents = subagents
        self._structured = structured

    async def send(self, input: TurnInput, ctx: AgentContext) -> Turn:
        """One turn: an input, or the answers to what the graph waits for."""
        if input.output_schema is not None and not self._structured:
            raise self._cannot("there is no place for an output schema", "set structured=True, or check t.reply")
        thread = ctx.session.get(_THREAD)
        reading = Reading(
            before=thread.seen,
            subagents=self._subagents,
            rejected=thread.refused(input.responses),
            ids=thread.ids,
            data=input.output_schema is not None,
            messages_key=self._messages_key,
        )
        payload = {
            "assistant_id": self._graph,
            **self._given(thread, input, ctx),
            **self._settings(ctx),
            "stream_mode": ["updates", "values"],
            "stream_subgraphs": True,
            "if_not_exists": "create",
            "on_disconnect": "cancel",
        }
        async with self._service.post(
            payload, ctx, url=f"{self._service.url}/threads/{thread.id}/runs/stream"
        ) as answer:
            ctx.session.capture(thread.id)
            error = await self._read(answer, reading)
        thread.seen = reading.seen
        thread.pauses = [] if error is not None else reading.pauses
        turn = reading.finish(error=error).report(ctx)
        done = {event.call_id for event in turn.events if isinstance(event, ActionResult)}
        calls = [event for event in turn.events if isinstance(event, ActionCalled)]
        thread.open = [call for call in [*thread.open, *calls] if call.call_id not in done] if thread.pauses else []
        return turn

    def _given(self, thread: _Thread, given: TurnInput, ctx: AgentContext) -> dict[str, Any]:
        if given.responses:
            values, wrong = resume_values(thread.pauses, given.responses, self._resume)
            if wrong:
                raise self._cannot(wrong[0], "answer all of them: t.respond_all(...)")
            return {"command": {"resume": values}}
        if self._make_input is not None:
            return {"input": self._make_input(given, ctx)}
        content: Any = given.text
        if given.files:
            text = [{"type": "text", "text": given.text}] if given.text else []
            content = [*text, *map(_block, given.files)]
        return {"input": {self._messages_key: [{"type": "human", "content": content}]}}

    def _settings(self, ctx: AgentContext) -> dict[str, Any]:
        """The run's config and context, with what the experiment says."""
        asked = {"model": ctx.model, "reasoning_effort": ctx.reasoning_effort}
        settings = {**ctx.flags, **{name: value for name, value in asked.items() if value is not None}}
        config = dict(self._config)
        if self._context is not None:
            return {"config": config, "context": {**self._context, **settings}}
        if settings:
            config["configurable"] = {**config.get("configurable", {}), **settings}
        return {"config": config}

    async def _read(self, answer: Answer, reading: Reading) -> Exception | None:
        """Read the run; what ended it badly."""
        read = 0
        async for event in answer.events():
            read += len(event.data)
            if read > MAX_STREAM_CHARS:
                return _error("StreamTooLong", f"the run sent more than {MAX_STREAM_CHARS:,} characters")
            mode, *namespace = event.event.split("|")
            data = _decoded(event.data)
            if mode == "error":
                found = data if isinstance(data, dict) else {}
                return _error(found.get("error"), found.get("message") or event.data)
            if mode in ("updates", "values"):
                reading.add((tuple(namespace), mode, data))
        if answer.cut is not None:
            return _error("ConnectionError", answer.cut)
        return None

    def _cannot(self, problem: str, fix: str) -> AdapterError:
        return AdapterError("agent-input", agent=self._name, problem=problem, fix=fix)


def _error(kind: object, message: object) -> Exception:
    """What the server names by its class, as an exception of that name."""
    name = kind if isinstance(kind, str) and kind.isidentifier() and len(kind) < 80 else "ServerError"
    made: Exception = type(name, (Exception,), {})(str(message)[:2_000])
    return made


def _decoded(data: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _block(file: InputFile) -> dict[str, Any]:
    kind = file.mime_type.partition("/")[0]
    block = {"type": kind if kind in _KINDS else "file", "base64": file.base64(), "mime_type": file.mime_type}
    return {**block, "extras": {"filename": file.filename}}
