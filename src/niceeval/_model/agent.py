"""The connection to the system under test, as the runner sees it."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from niceeval._model.coverage import EvidenceCoverage
from niceeval._model.failure import FailureClass
from niceeval._model.json_types import JsonValue
from niceeval._model.sandbox import Sandbox
from niceeval._model.turn import Turn
from niceeval._model.turn_input import TurnInput

T = TypeVar("T")


class SessionSlot(Generic[T]):
    """A typed place on a session that only its holder can reach.

    Make it at module level: `history = SessionSlot[list[Msg]]("history", default=list)`. `default` makes the first
    value of each session.
    """

    __slots__ = ("default", "name")

    def __init__(self, name: str, default: Callable[[], T] | None = None) -> None:
        self.name = name
        self.default = default

    def __repr__(self) -> str:
        return f"SessionSlot({self.name!r})"


class AgentSession:
    """One conversation line's state: every `send` on the line gets the same object, a new line a fresh one."""

    __slots__ = ("_slots", "id")

    def __init__(self) -> None:
        self.id: str | None = None
        self._slots: dict[SessionSlot[Any], Any] = {}

    def capture(self, id: str) -> str:
        """Keep the server's conversation id; the first one given stays. Returns the id that holds."""
        if self.id is None:
            self.id = id
        return self.id

    def get(self, slot: SessionSlot[T]) -> T:
        """The slot's value, made by its `default` at the first read. Raises LookupError where neither exists."""
        if slot not in self._slots:
            if slot.default is None:
                raise LookupError(f"{slot!r} was never set on this session and has no default")
            self._slots[slot] = slot.default()
        value: T = self._slots[slot]
        return value

    def set(self, slot: SessionSlot[T], value: T) -> None:
        """Put a value in the slot."""
        self._slots[slot] = value

    def take(self, slot: SessionSlot[T]) -> T | None:
        """Read the slot's value once: it is gone afterwards. None where it was never set."""
        value: T | None = self._slots.pop(slot, None)
        return value


class _Log(Protocol):
    def __call__(self, message: str) -> None: ...


class _Progress(Protocol):
    def __call__(self, message: str, *, current: float | None = None, total: float | None = None) -> None: ...


class _Diagnose(Protocol):
    def __call__(
        self,
        code: str,
        level: Literal["info", "warning", "error"],
        message: str,
        data: JsonValue = None,
    ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentContext:
    """What an adapter's `send`, `setup` and `teardown` know of the attempt.

    `log` lines are kept with the turn; `progress` is shown live and not kept; `diagnostic` is kept in the result.
    Cancellation is ordinary task cancellation; a plain-function `send` watches `cancelled` instead.
    `telemetry_headers` is always a mapping: empty where no telemetry is configured.
    """

    session: AgentSession
    model: str | None
    reasoning_effort: str | None
    flags: Mapping[str, JsonValue]
    experiment_id: str
    eval_id: str
    attempt: int
    log: _Log
    progress: _Progress
    diagnostic: _Diagnose
    cancelled: threading.Event = field(default_factory=threading.Event)
    telemetry_headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxAgentContext(AgentContext):
    """An AgentContext with the attempt's sandbox."""

    sandbox: Sandbox


Send: TypeAlias = Callable[[TurnInput, AgentContext], Awaitable[Turn] | Turn]
Hook: TypeAlias = Callable[[AgentContext], Awaitable[None] | None]
SandboxSend: TypeAlias = Callable[[TurnInput, SandboxAgentContext], Awaitable[Turn] | Turn]
SandboxHook: TypeAlias = Callable[[SandboxAgentContext], Awaitable[None] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent under test; made by `define_agent` or `define_sandbox_agent`, which set `kind`.

    `version` (text, or a callable giving it) says what niceeval cannot see: a service's build, an image digest.
    `classify_failure(error)` names failures of `send` that are safe to retry, or that doom more than one attempt.
    `secret_env` names variables of this machine that the agent is given: their values never reach results or terminal.
    """

    name: str
    kind: Literal["direct", "sandbox"]
    evidence_coverage: EvidenceCoverage
    send: Callable[[TurnInput, Any], Awaitable[Turn] | Turn]
    setup: Callable[[Any], Awaitable[None] | None] | None = None
    teardown: Callable[[Any], Awaitable[None] | None] | None = None
    version: str | Callable[[], str] | None = None
    classify_failure: Callable[[BaseException], FailureClass | None] | None = None
    secret_env: tuple[str, ...] = ()
