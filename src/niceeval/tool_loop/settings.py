"""How an endpoint of a model is asked: address, key, and what is added to each request."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from niceeval._base.errors import AdapterError
from niceeval._model.coverage import Coverage, EvidenceCoverage
from niceeval.http_service import HttpService
from niceeval.tool_loop.tools import ClientTools, ToolDefinition

if TYPE_CHECKING:
    import httpx2

    from niceeval.adapter import AgentContext


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """What the factories of such adapters are given; the meaning of each is in docs/protocols.md.

    Raises AdapterError: `agent-invalid` for what cannot be meant, `extra-missing` without the extra `http`.
    """

    name: str
    url: str | Callable[[], str]
    path: str
    reserved: frozenset[str]
    model: str | None = None
    api_key_env: str | None = None
    system: str | None = None
    tools: Sequence[Callable[..., Any] | ToolDefinition] = ()
    approve: Sequence[str] = ()
    max_steps: int = 20
    stream: bool = True
    extra_body: Mapping[str, Any] | None = None
    flags: Sequence[str] = ()
    headers: Mapping[str, str] | None = None
    timeout: float = 600.0
    transport: httpx2.AsyncBaseTransport | None = None
    client_tools: ClientTools = field(init=False)
    service: HttpService = field(init=False)

    def __post_init__(self) -> None:
        if isinstance(self.flags, str):
            raise self._invalid(f"flags is {self.flags!r}", "give the names of flags: flags=('temperature',)")
        taken = [name for name in (*(self.extra_body or ()), *self.flags) if name in self.reserved]
        if taken:
            raise self._invalid(f"{taken[0]!r} is what the adapter says itself", "leave it out of extra_body and flags")
        if self.max_steps < 1:
            raise self._invalid(f"max_steps is {self.max_steps}", "give 1 or more")
        object.__setattr__(self, "client_tools", ClientTools(self.tools, self.approve, self.name))
        service = HttpService(
            self.url if isinstance(self.url, str) else "",
            name=self.name,
            headers=self.headers,
            timeout=self.timeout,
            transport=self.transport,
        )
        object.__setattr__(self, "service", service)

    @property
    def secret_env(self) -> tuple[str, ...]:
        """The variables whose values are secrets."""
        return () if self.api_key_env is None else (self.api_key_env,)

    def declared(
        self, protocol: EvidenceCoverage, given: EvidenceCoverage | Mapping[str, Coverage] | None
    ) -> EvidenceCoverage | Mapping[str, Coverage]:
        """What the agent promises: what its author says, or the protocol. Where the adapter runs the tools, events and
        actions are complete: it sees each call and what it came to, and calls are made after the answer that has them.
        """
        if given is not None:
            return given
        if not self.client_tools:
            return protocol
        channels: dict[str, Coverage] = dict(protocol.items())
        return EvidenceCoverage(**{**channels, "events": Coverage.complete, "actions": Coverage.complete})

    def address(self) -> str:
        """Where requests go, now: the address that was given, with the protocol's own path where it lacks it."""
        return _joined(self.url if isinstance(self.url, str) else self.url(), self.path)

    def key_headers(self) -> dict[str, str]:
        """The header with the key, read now. Raises AdapterError `agent-invalid` where the variable is not set."""
        if self.api_key_env is None:
            return {}
        key = os.environ.get(self.api_key_env)
        if not key:
            raise self._invalid(
                f"it needs {self.api_key_env}, which is not set",
                f"set {self.api_key_env} in the environment or in .env; api_key_env=None where no key is wanted",
            )
        return {"authorization": f"Bearer {key}"}

    def body(self, said: Mapping[str, Any], ctx: AgentContext) -> dict[str, Any]:
        """A request: what the adapter says, what the author adds, and the flags that were allowed; objects are merged
        one level deep. Flags that nothing reads become a diagnostic."""
        unread = sorted(set(ctx.flags) - set(self.flags))
        if unread:
            ctx.diagnostic(
                "input-not-passed",
                "warning",
                f"flags that the endpoint is not given: {', '.join(unread)}; flags=(...) names those that are",
            )
        body = dict(said)
        given = {name: ctx.flags[name] for name in self.flags if name in ctx.flags}
        for added in (self.extra_body or {}, given):
            for name, value in added.items():
                held = body.get(name)
                both = isinstance(held, Mapping) and isinstance(value, Mapping)
                body[name] = {**held, **value} if both else value  # type: ignore[dict-item]
        return body

    def _invalid(self, problem: str, fix: str) -> AdapterError:
        return AdapterError("agent-invalid", problem=f"agent {self.name}: {problem}", fix=fix)


def _joined(url: str, path: str) -> str:
    parts = urlsplit(url)
    begun = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=begun if begun.endswith(path) else begun + path))
