"""From a request that came over HTTP to the reply: which protocol it is in, and what the script says."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from niceeval._base.errors import NiceevalError
from niceeval._base.plain_text import safe_repr
from niceeval.testing._model_server.answer import Answer
from niceeval.testing._model_server.anthropic_messages import ANTHROPIC
from niceeval.testing._model_server.gemini import GEMINI, PATH
from niceeval.testing._model_server.model_request import ModelRequest
from niceeval.testing._model_server.openai_chat import OPENAI_CHAT
from niceeval.testing._model_server.openai_responses import OPENAI_RESPONSES, input_items, kept_items, response_id
from niceeval.testing._model_server.reading import Body, Protocol
from niceeval.testing._model_server.replies import EVENTS, Reply, json_bytes, json_reply
from niceeval.testing._model_server.scenario import NotScripted
from niceeval.testing._model_server.script import Chosen, Script, answer_of

MAX_RESPONSES = 200
"""Answers that a later request can go on from by `previous_response_id`; the oldest are forgotten."""

UNSCRIPTED_STATUS = 400
"""What a request gets that no script answers: clients give up on it instead of trying again."""

CHARACTERS_PER_TOKEN = 4
"""How tokens are counted where a client asks for their number."""

_ENDPOINTS: Mapping[str, Protocol] = {
    "/messages": ANTHROPIC,
    "/responses": OPENAI_RESPONSES,
    "/chat/completions": OPENAI_CHAT,
}

_IGNORED = ("/analytics/", "/event_logging/", "/telemetry", "/api/hello", "/metrics", "/traces", "/logs")
"""What clients send home beside the conversation: a 404 does them no harm, and it is nothing unscripted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request as it came over HTTP. `target` holds path and query, `body` is decoded JSON or None."""

    method: str
    target: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def path(self) -> str:
        """The path alone, without a slash at its end."""
        return unquote(urlsplit(self.target).path).rstrip("/") or "/"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request turned out to be: its JSON body, its protocol, and the request to the model."""

    body: Any = None
    protocol: Protocol | None = None
    model: ModelRequest | None = None


class Answering:
    """Answers requests. Threads may share it."""

    def __init__(self, script: Script, models: Sequence[str]) -> None:
        self._script = script
        self._models = tuple(models)
        self._lock = threading.Lock()
        self._responses: OrderedDict[str, list[Body]] = OrderedDict()

    def asked(self, call: Call) -> Asked:
        """What a request is."""
        try:
            body = json.loads(call.raw) if call.raw else None
        except (ValueError, RecursionError):
            body = None
        protocol = protocol_of(call.path) if call.method == "POST" else None
        if protocol is None or not isinstance(body, dict):
            return Asked(body, protocol)
        whole = self._continued(body) if protocol is OPENAI_RESPONSES else body
        return Asked(body, protocol, None if whole is None else protocol.read(whole, call.path, call.headers))

    def reply(self, call: Call, asked: Asked) -> Reply:
        """What it gets."""
        if asked.protocol is None:
            return self._beside(call, asked)
        if asked.model is None:
            return _bad_request(asked)
        try:
            chosen = self._script.choose(asked.model)
            if chosen.step.status is not None:
                return _error(asked.protocol, chosen)
            return self._answered(call, asked, asked.protocol, chosen, answer_of(chosen.step, asked.model))
        except NotScripted as error:
            return _unscripted(asked.protocol, str(error))
        except NiceevalError as error:
            return _unscripted(asked.protocol, f"{error}; {error.next_step()}")
        except Exception as error:  # noqa: BLE001 - a step's function is the user's code; what it raises is told
            return _unscripted(asked.protocol, f"the step raised {safe_repr(error, 300)}")

    def _answered(self, call: Call, asked: Asked, protocol: Protocol, chosen: Chosen, answer: Answer) -> Reply:
        assert asked.model is not None
        if protocol is OPENAI_RESPONSES:
            self._keep(asked.model.body, answer)
        step = chosen.step
        common: dict[str, Any] = {"delay": step.delay, "cut_after": step.cut_after}
        common |= {"scenario": chosen.scenario, "step": chosen.place}
        if not asked.model.stream:
            return json_reply(protocol.plain(answer, asked.model), **common)
        events = protocol.events(answer, asked.model)
        if protocol is GEMINI and parse_qs(urlsplit(call.target).query).get("alt") != ["sse"]:
            listed = b",\n".join(event.removeprefix(b"data: ").strip() for event in events)
            return Reply(status=200, chunks=(b"[" + listed + b"]",), outcome="answered", **common)
        return Reply(status=200, chunks=events, outcome="answered", content_type=EVENTS, streamed=True, **common)

    # Responses that go on from others ----------------------------------------------------------------------------

    def _continued(self, body: Body) -> Body | None:
        previous = body.get("previous_response_id")
        if not isinstance(previous, str):
            return body
        with self._lock:
            earlier = self._responses.get(previous)
        return None if earlier is None else {**body, "input": [*earlier, *input_items(body)]}

    def _keep(self, body: Body, answer: Answer) -> None:
        if body.get("store") is False:
            return
        with self._lock:
            self._responses[response_id(answer)] = kept_items(body, answer)
            while len(self._responses) > MAX_RESPONSES:
                self._responses.popitem(last=False)

    # Beside the model --------------------------------------------------------------------------------------------

    def _beside(self, call: Call, asked: Asked) -> Reply:
        path = call.path
        if path.endswith("/messages/count_tokens"):
            return json_reply({"input_tokens": _tokens(call)})
        if path.endswith(":countTokens"):
            return json_reply({"totalTokens": _tokens(call)})
        if call.method in ("GET", "HEAD"):
            return self._got(path)
        message = f"{call.method} {path} is no endpoint of a scripted model server"
        if any(part in f"{path}/" for part in _IGNORED):
            return json_reply({"error": {"message": message}}, 404, "answered")
        return json_reply({"error": {"message": message}}, 404, "unscripted", problem=message)

    def _got(self, path: str) -> Reply:
        if path.endswith("/models"):
            gemini = [{"name": f"models/{name}", "displayName": name} for name in self._models]
            if "v1beta" in path:
                return json_reply({"models": gemini})
            listed = [_model(name) for name in self._models]
            ends = {"first_id": self._models[0], "last_id": self._models[-1]} if self._models else {}
            return json_reply({"object": "list", "data": listed, "has_more": False, **ends})
        name = path.rpartition("/models/")[2]
        if name in self._models:
            return json_reply(_model(name))
        if path in ("/", "/api/hello"):
            return json_reply({"ok": True})
        return json_reply({"error": {"message": f"nothing at {path}"}}, 404, "answered")


def protocol_of(path: str) -> Protocol | None:
    """The protocol that a path belongs to, with or without `/v1` or another prefix."""
    for ending, protocol in _ENDPOINTS.items():
        if path.endswith(ending):
            return protocol
    found = PATH.search(path)
    return GEMINI if found and found["method"] in ("generateContent", "streamGenerateContent") else None


def _model(name: str) -> dict[str, Any]:
    day = "2026-01-01T00:00:00Z"
    openai = {"id": name, "object": "model", "created": 1767225600, "owned_by": "niceeval"}
    return {**openai, "type": "model", "display_name": name, "created_at": day}


def _tokens(call: Call) -> int:
    return max(1, len(call.raw) // CHARACTERS_PER_TOKEN)


def _bad_request(asked: Asked) -> Reply:
    assert asked.protocol is not None
    if isinstance(asked.body, dict):
        problem = "previous_response_id names no response that this server keeps"
        return json_reply(asked.protocol.error(404, problem, None), 404, "error", problem=problem)
    problem = "the body is no JSON object"
    return json_reply(asked.protocol.error(400, problem, None), 400, "error", problem=problem)


def _error(protocol: Protocol, chosen: Chosen) -> Reply:
    step = chosen.step
    assert step.status is not None
    body = json_bytes(protocol.error(step.status, step.error, step.error_type))
    reply = Reply(status=step.status, chunks=(body,), outcome="error", headers=step.headers)
    return replace(reply, delay=step.delay, scenario=chosen.scenario, step=chosen.place)


def _unscripted(protocol: Protocol, problem: str) -> Reply:
    body = protocol.error(UNSCRIPTED_STATUS, f"unscripted request: {problem}", None)
    return json_reply(body, UNSCRIPTED_STATUS, "unscripted", problem=problem)
