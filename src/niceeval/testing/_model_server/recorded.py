"""What a server was asked, kept for a test to look at; bounded, and without credentials."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from niceeval._base.redaction import REDACTED, looks_like_credential
from niceeval.testing._model_server.model_request import ModelRequest, ProtocolName

MAX_RECORDED = 2000
"""Requests that are kept; the oldest go first."""

MAX_RECORDED_BYTES = 64 * 1024 * 1024
"""Bytes of request bodies that are kept; the oldest requests go first."""

Outcome = Literal["open", "answered", "error", "unscripted", "cut", "abandoned"]

_KEY = re.compile(r"([?&](?:key|api_key|token|access_token)=)[^&]*", re.IGNORECASE)
_SALT = secrets.token_bytes(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """A request that came.

    method, path   as sent; credentials in the query are redacted
    headers        names in lower case; credentials are redacted (`sent_credential` says whether one was right)
    body           the JSON body; None where there was none, or it was no JSON
    protocol       None for what does not ask the model
    model          the request to the model, read; None where it could not be
    scenario       the scenario or side request that answered; `step` is the step's number, from 0
    status         the HTTP status
    outcome        `open` while it is answered, then `answered`, `error` (a scripted one, or a bad request),
                   `unscripted`, `cut` (as scripted) or `abandoned` (the client left, or the server stopped)
    problem        what was told to the client where nothing was scripted
    """

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any = None
    protocol: ProtocolName | None = None
    model: ModelRequest | None = None
    scenario: str | None = None
    step: int | None = None
    status: int = 0
    outcome: Outcome = "open"
    problem: str | None = None
    size: int = 0
    digests: frozenset[bytes] = field(default=frozenset(), repr=False)

    def sent_credential(self, credential: str) -> bool:
        """Whether this credential came in a header, by itself or as a bearer token."""
        wanted = _digest(credential)
        return any(hmac.compare_digest(wanted, digest) for digest in self.digests)


def _digest(text: str) -> bytes:
    return hashlib.sha256(_SALT + text.encode("utf-8", "replace")).digest()


def _is_secret(name: str) -> bool:
    return looks_like_credential(name) or name in ("authorization", "proxy-authorization")


def redacted_path(path: str) -> str:
    """The path without the keys that a query may hold."""
    return _KEY.sub(rf"\g<1>{REDACTED}", path)


def redacted_headers(headers: Mapping[str, str]) -> tuple[dict[str, str], frozenset[bytes]]:
    """The headers without credentials, and what credentials are compared by."""
    shown: dict[str, str] = {}
    digests: set[bytes] = set()
    for name, value in headers.items():
        shown[name] = REDACTED if _is_secret(name) else value
        if _is_secret(name):
            digests.update((_digest(value), _digest(value.rpartition(" ")[2])))
    return shown, frozenset(digests)


class Recorder:
    """Keeps the latest requests. Threads may share it; `changed` is notified whenever one is added or changes."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.dropped = 0
        self._kept: deque[RecordedRequest] = deque()
        self._bytes = 0
        self._next = 0

    def add(self, request: RecordedRequest) -> RecordedRequest:
        """Keep a request; it gets its number."""
        with self.changed:
            request = replace(request, number=self._next)
            self._next += 1
            self._kept.append(request)
            self._bytes += request.size
            while len(self._kept) > MAX_RECORDED or (self._bytes > MAX_RECORDED_BYTES and len(self._kept) > 1):
                self._bytes -= self._kept.popleft().size
                self.dropped += 1
            self.changed.notify_all()
            return request

    def update(self, request: RecordedRequest, **changes: Any) -> RecordedRequest:
        """Keep what is known of it now."""
        changed = replace(request, **changes)
        with self.changed:
            if self._kept and (place := request.number - self._kept[0].number) >= 0:
                self._kept[place] = changed
            self.changed.notify_all()
        return changed

    def requests(self) -> tuple[RecordedRequest, ...]:
        """What is kept, in the order in which it came."""
        with self.changed:
            return tuple(self._kept)
