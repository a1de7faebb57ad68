"""Everything an adapter author imports: the agent's construction, a turn's parts, the event stream, coverage.

def web_agent(base_url: str) -> Agent:
    async def send(input: TurnInput, ctx: AgentContext) -> Turn:
        ...
        return Turn(events=[...], status="completed", usage=Usage(...))

    return define_agent(name="web-agent", evidence_coverage=complete_evidence_coverage, send=send)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from niceeval._base.errors import AdapterError, NiceevalError
from niceeval._base.extras import require_extra
from niceeval._base.places import author_place
from niceeval._evidence.facts import DerivedFacts, SubagentCall, ToolCall, derive_facts
from niceeval._model.agent import (
    Agent,
    AgentContext,
    AgentSession,
    Hook,
    SandboxAgentContext,
    SandboxHook,
    SandboxSend,
    Send,
    SessionSlot,
)
from niceeval._model.coverage import (
    Coverage,
    EvidenceCoverage,
    complete_evidence_coverage,
    coverage_from_mapping,
)
from niceeval._model.events import (
    ActionCalled,
    ActionResult,
    Compaction,
    ErrorEvent,
    InputOption,
    InputRequest,
    InputRequested,
    Message,
    StreamEvent,
    SubagentCalled,
    SubagentCompleted,
    Thinking,
    UnknownEvent,
)
from niceeval._model.failure import FailureClass, RetryableSendError
from niceeval._model.turn import Turn
from niceeval._model.turn_input import InputFile, InputResponse, TurnInput
from niceeval._model.usage import Usage

__all__ = [
    "ActionCalled",
    "ActionResult",
    "AdapterError",
    "Agent",
    "AgentContext",
    "AgentSession",
    "Compaction",
    "Coverage",
    "DerivedFacts",
    "ErrorEvent",
    "EvidenceCoverage",
    "FailureClass",
    "InputFile",
    "InputOption",
    "InputRequest",
    "InputRequested",
    "InputResponse",
    "Message",
    "RetryableSendError",
    "SandboxAgentContext",
    "SessionSlot",
    "StreamEvent",
    "SubagentCall",
    "SubagentCalled",
    "SubagentCompleted",
    "Thinking",
    "ToolCall",
    "Turn",
    "TurnInput",
    "UnknownEvent",
    "Usage",
    "complete_evidence_coverage",
    "define_agent",
    "define_sandbox_agent",
    "derive_facts",
    "require_extra",
]

_PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "send": ("input", "ctx"),
    "setup": ("ctx",),
    "teardown": ("ctx",),
    "classify_failure": ("error",),
}
"""What each callback is given, in their order."""


def define_agent(
    *,
    name: str,
    evidence_coverage: EvidenceCoverage | Mapping[str, Coverage],
    send: Send,
    setup: Hook | None = None,
    teardown: Hook | None = None,
    version: str | Callable[[], str] | None = None,
    classify_failure: Callable[[BaseException], FailureClass | None] | None = None,
    secret_env: Sequence[str] = (),
) -> Agent:
    """An agent that the adapter calls directly: an HTTP service, an SDK, a function.

    `send(input, ctx)` drives one turn and returns a Turn; it may be async or plain (then it runs in a worker thread).
    `setup(ctx)` and `teardown(ctx)` run once per attempt; teardown runs whenever setup was entered. `version` says
    what niceeval cannot see of the agent, such as a service's build. `classify_failure(error)` says of an exception
    that `send` raised whether the input was certainly not accepted, so that it is sent again, or what it dooms.
    `secret_env` names the environment variables whose values are secrets, whatever they are called: they are replaced
    in everything that is stored or shown.

    Raises AdapterError (`coverage-missing`, `coverage-invalid`, `agent-invalid`), naming the agent and the channel.
    """
    return _define("direct", name, evidence_coverage, send, setup, teardown, version, classify_failure, secret_env)


def define_sandbox_agent(
    *,
    name: str,
    evidence_coverage: EvidenceCoverage | Mapping[str, Coverage],
    send: SandboxSend,
    setup: SandboxHook | None = None,
    teardown: SandboxHook | None = None,
    version: str | Callable[[], str] | None = None,
    classify_failure: Callable[[BaseException], FailureClass | None] | None = None,
    secret_env: Sequence[str] = (),
) -> Agent:
    """An agent whose commands run in a sandbox: as `define_agent`, but every callback's context has `ctx.sandbox`.

    Raises as `define_agent`. The experiment or the config says which sandbox (`niceeval.sandbox`); without one nothing
    runs (`sandbox-not-set`).
    """
    return _define("sandbox", name, evidence_coverage, send, setup, teardown, version, classify_failure, secret_env)


def _define(
    kind: Literal["direct", "sandbox"],
    name: object,
    coverage: object,
    send: Any,
    setup: Any,
    teardown: Any,
    version: Any,
    classify_failure: Any,
    secret_env: object,
) -> Agent:
    try:
        agent_name = _valid_name(name)
        _require_callables(agent_name, send=send, setup=setup, teardown=teardown, classify_failure=classify_failure)
        if not (version is None or isinstance(version, str) or callable(version)):
            raise _invalid(f"agent {agent_name}: version is {type(version).__name__}", "give text, or a callable")
        checked = _valid_coverage(agent_name, coverage)
        variables = _valid_variables(agent_name, secret_env)
    except NiceevalError as error:
        raise error.at(author_place()) from None
    return Agent(
        name=agent_name,
        kind=kind,
        evidence_coverage=checked,
        send=send,
        setup=setup,
        teardown=teardown,
        version=version,
        classify_failure=classify_failure,
        secret_env=variables,
    )


def _valid_name(name: object) -> str:
    if not isinstance(name, str) or not name.strip():
        raise _invalid(f"an agent's name is {name!r}", 'give it a name: define_agent(name="support-bot", ...)')
    return name


def _valid_variables(agent: str, names: object) -> tuple[str, ...]:
    if isinstance(names, Sequence) and not isinstance(names, str) and all(isinstance(name, str) for name in names):
        return tuple(names)
    raise _invalid(f"agent {agent}: secret_env is {names!r}", 'name the variables: secret_env=["SERVICE_KEY"]')


def _require_callables(agent: str, **callbacks: Any) -> None:
    for role, callback in callbacks.items():
        if not callable(callback) and not (callback is None and role != "send"):
            raise _invalid(f"agent {agent}: {role} is {type(callback).__name__}", f"{role} is a function")
        if inspect.isfunction(callback) or inspect.ismethod(callback):
            _require_parameters(agent, role, callback)


def _require_parameters(agent: str, role: str, callback: Callable[..., object]) -> None:
    """A function that cannot be called with what its role is given would fail in every attempt."""
    # Not what it wraps: what is called is the wrapper.
    signature = inspect.signature(callback, follow_wrapped=False)
    try:
        signature.bind(*_PARAMETERS[role])
    except TypeError as error:
        wanted = f"{role}({', '.join(_PARAMETERS[role])})"
        raise _invalid(f"agent {agent}: {role} is called as {wanted}: {error}", f"write `def {wanted}`") from None


def _valid_coverage(agent: str, coverage: object) -> EvidenceCoverage:
    if isinstance(coverage, Mapping):
        coverage = coverage_from_mapping(coverage, agent)
    if not isinstance(coverage, EvidenceCoverage):
        raise _invalid(
            f"agent {agent}: evidence_coverage is {type(coverage).__name__}",
            "give an EvidenceCoverage, or complete_evidence_coverage where the adapter sees everything",
        )
    coverage.require_valid(agent)
    return coverage


def _invalid(problem: str, fix: str) -> AdapterError:
    return AdapterError("agent-invalid", problem=problem, fix=fix)
