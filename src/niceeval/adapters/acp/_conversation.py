"""One conversation with an agent: its process, its session, and what it waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from niceeval.adapter import InputResponse
from niceeval.adapters.acp._updates import Calls, Updates, objects, rejects, request_of, usage_of
from niceeval.cli_agent import LiveProcess
from niceeval.turn_building import Collected

PROTOCOL = 1
"""The version of the protocol that is spoken."""
MORE_REQUESTS = 0.5
"""Seconds that more permission requests are waited for after one: agents ask for calls that they make at once."""
START_LIMIT = 180.0
"""Seconds that an agent may take to be ready."""
CANCEL_LIMIT = 30.0
"""Seconds that an agent may take to end a turn that it was told to end."""
_NOT_OFFERED = -32601


class Conversation:
    """The client's side of the protocol. `open` are permission requests without an answer, by the request's id."""

    def __init__(self, process: LiveProcess, permissions: str) -> None:
        self._process = process
        self._permissions = permissions
        self._next = 0
        self._session = ""
        self._prompt: int | None = None
        self._calls = Calls()
        self._open: dict[str, tuple[object, Mapping[str, Any], str | None]] = {}
        self.about: Mapping[str, Any] = {}

    async def begin(self, cwd: str, servers: Sequence[Mapping[str, Any]], mode: str | None, model: str | None) -> str:
        """Start a session; its id. Raises AdapterError where the agent does not."""
        capabilities = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        info = {"name": "niceeval", "version": "1"}
        said = await self._ask(
            "initialize",
            {"protocolVersion": PROTOCOL, "clientCapabilities": capabilities, "clientInfo": info},
        )
        self.about = said.get("agentInfo") or {}
        made = await self._ask("session/new", {"cwd": cwd, "mcpServers": list(servers)})
        self._session = str(made.get("sessionId") or "")
        if not self._session:
            raise self._process.ended("it gave no session")
        if mode is not None:
            await self._ask("session/set_mode", {"sessionId": self._session, "modeId": mode})
        if model is not None:
            await self._ask("session/set_model", {"sessionId": self._session, "modelId": model})
        return self._session

    async def prompt(self, text: str) -> Collected:
        """Send a prompt, and read until the turn ends or waits. Requests that wait still are dropped first."""
        if self._prompt is not None:
            await self._cancel()
        self._prompt = await self._request(
            "session/prompt", {"sessionId": self._session, "prompt": [{"type": "text", "text": text}]}
        )
        return await self._turn()

    async def answer(self, responses: Sequence[InputResponse]) -> Collected:
        """Answer the requests that wait, and read on."""
        for response in responses:
            rpc_id, params, call_id = self._open.pop(response.request_id)
            # The protocol has no free text: a request without options is one that can only be cancelled.
            chosen = response.option_id
            if chosen is None or rejects(params, chosen):
                self._reject(call_id)
            await self._reply(rpc_id, _outcome(chosen))
        return await self._turn()

    async def end(self) -> None:
        """Kill the agent, with everything that it runs."""
        await self._process.stop()

    async def _turn(self) -> Collected:
        updates = Updates(self._calls)
        while True:
            try:
                message = await self._process.receive(MORE_REQUESTS if self._open else None)
            except TimeoutError:
                return self._waiting(updates)
            if message is None:
                return self._lost(updates)
            if message.get("id") == self._prompt and "method" not in message:
                return self._ended(updates, message)
            await self._take(message, updates)

    async def _take(self, message: Mapping[str, Any], updates: Updates) -> None:
        method, params = message.get("method"), message.get("params")
        params = params if isinstance(params, dict) else {}
        if method == "session/update":
            updates.take(params)
        elif method == "session/request_permission":
            await self._permission(message.get("id"), params, updates)
        else:
            await self._refuse(message)

    async def _refuse(self, message: Mapping[str, Any]) -> None:
        """Answer a request of the agent that belongs to no turn, or asks for what is not offered."""
        method = message.get("method")
        if method == "session/request_permission":
            await self._reply(message.get("id"), _outcome(None))
        elif method is not None and "id" in message:
            error = {"code": _NOT_OFFERED, "message": f"{method} is not offered"}
            await self._process.send({"jsonrpc": "2.0", "id": message["id"], "error": error})

    async def _permission(self, rpc_id: object, params: Mapping[str, Any], updates: Updates) -> None:
        request, call_id = request_of(rpc_id, params)
        call = params.get("toolCall")
        if isinstance(call, dict):
            updates.take({"update": {**call, "sessionUpdate": "tool_call_update"}})
            if call_id is not None:
                updates.called(call_id)
        if self._permissions == "ask":
            self._open[request.id] = (rpc_id, params, call_id)
            updates.builder.requested(request)
            return
        wanted = ("allow_once", "allow_always") if self._permissions == "allow" else ("reject_once", "reject_always")
        options = objects(params.get("options"))
        found = [option for kind in wanted for option in options if option.get("kind") == kind]
        chosen = str(found[0].get("optionId")) if found else None
        if self._permissions == "deny" or chosen is None:
            self._reject(call_id)
        await self._reply(rpc_id, _outcome(chosen))

    def _waiting(self, updates: Updates) -> Collected:
        updates.builder.waiting()
        return updates.builder.build()

    def _lost(self, updates: Updates) -> Collected:
        self._prompt = None
        self._open.clear()
        builder = updates.builder
        updates.end()
        builder.incomplete("the agent ended before its turn did", ("events", "actions", "messages", "usage"))
        builder.failed(str(self._process.ended("it ended before its turn did")))
        return builder.build()

    def _ended(self, updates: Updates, message: Mapping[str, Any]) -> Collected:
        self._prompt = None
        self._open.clear()
        builder = updates.builder
        refused = bool(self._calls.rejected)
        updates.end()
        builder.reading(self._process.lines, "what the agent said")
        error, result = message.get("error"), message.get("result")
        if error is not None or not isinstance(result, dict):
            told = error.get("message") if isinstance(error, dict) else error
            builder.failed(f"the agent answered with an error: {str(told)[:500]}")
            return builder.build()
        usage = usage_of(result)
        if usage is not None:
            builder.add_usage(usage)
        reason = str(result.get("stopReason") or "end_turn")
        if reason in ("max_tokens", "max_turn_requests", "refusal"):
            builder.failed(f"the turn ended early: {reason}")
        elif reason == "cancelled" and not refused:
            builder.failed("the agent says that the turn was cancelled")
        return builder.build()

    async def _cancel(self) -> None:
        """End a turn that waits: its requests are answered as cancelled, and what it says then belongs to nobody."""
        waiting, self._open = self._open, {}
        await self._process.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": self._session}})
        for rpc_id, _, _ in waiting.values():
            await self._reply(rpc_id, _outcome(None))
        while True:
            try:
                message = await self._process.receive(CANCEL_LIMIT)
            except TimeoutError:
                raise self._process.ended("it did not end a turn that was cancelled") from None
            if message is None:
                raise self._process.ended("it ended when a turn was cancelled")
            if message.get("id") == self._prompt and "method" not in message:
                break
            await self._refuse(message)
        self._prompt = None
        self._calls.rejected.clear()

    def _reject(self, call_id: str | None) -> None:
        if call_id is not None:
            self._calls.rejected.add(call_id)

    async def _ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """A request whose answer is waited for, before any turn."""
        id = await self._request(method, params)
        while True:
            try:
                message = await self._process.receive(START_LIMIT)
            except TimeoutError:
                raise self._process.ended(f"it did not answer {method} within {START_LIMIT:g}s") from None
            if message is None:
                raise self._process.ended(f"it ended before it answered {method}")
            if message.get("id") == id and "method" not in message:
                break
            await self._refuse(message)
        if isinstance(message.get("error"), dict):
            raise self._process.ended(f"it refused {method}: {str(message['error'].get('message'))[:500]}")
        result = message.get("result")
        return result if isinstance(result, dict) else {}

    async def _request(self, method: str, params: Mapping[str, Any]) -> int:
        self._next += 1
        await self._process.send({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        return self._next

    async def _reply(self, rpc_id: object, outcome: Mapping[str, Any]) -> None:
        await self._process.send({"jsonrpc": "2.0", "id": rpc_id, "result": {"outcome": outcome}})


def _outcome(option_id: str | None) -> Mapping[str, Any]:
    return {"outcome": "cancelled"} if option_id is None else {"outcome": "selected", "optionId": option_id}
