"""What a scripted model answers: steps, and the operations that a step asks the agent's tools for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from niceeval._base.errors import AuthorError
from niceeval._model.usage import Usage

if TYPE_CHECKING:
    from niceeval.testing._model_server.model_request import ModelRequest

OperationKind = Literal["shell", "write", "edit", "read", "task", "mcp", "tool"]

DEFAULT_USAGE = Usage(input_tokens=100, output_tokens=20)
"""What a step without `usage=` reports to have cost."""

MAX_DELAY = 600.0
"""Seconds between two chunks; a longer wait is a mistake in the script."""


@dataclass(frozen=True, slots=True)
class Operation:
    """Something to do with a tool, whatever the tool is called where the request comes from.

    `kind` says what; `arguments` are neutral ones that are translated into the offered tool's own. For `tool`, the name
    and the arguments are used as they are.
    """

    kind: OperationKind
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One answer of the model, in the order thinking, text, operations.

    data          a structured answer: JSON text, or a call of the tool that the client offers for it
    usage         what the answer reports to have cost; None reports nothing
    delay         seconds between two chunks of a stream (before the answer, where it is not streamed)
    cut_after     the connection is closed in the middle of the event that follows this many chunks
    status        an HTTP error instead of an answer, with `error` as its message and `headers`
    error_type    the error's type in the protocol's own words; found from the status where it is None
    times         the error is given this many times in a conversation, then `then` is answered; None: always
    """

    thinking: str | None = None
    text: str | None = None
    operations: tuple[Operation, ...] = ()
    data: Any = None
    has_data: bool = False
    usage: Usage | None = DEFAULT_USAGE
    delay: float = 0.0
    cut_after: int | None = None
    status: int | None = None
    error: str = ""
    error_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int | None = None
    then: StepLike | None = None


StepLike: TypeAlias = "Step | Operation | str | Callable[[ModelRequest], Step | Operation | str]"
"""A step; an operation or a text alone; or a function of the request that returns one of them."""


def say(text: str, *, thinking: str | None = None, usage: Usage | None = DEFAULT_USAGE) -> Step:
    """A text, with what the model thought before it."""
    return Step(text=_text("say", "text", text), thinking=thinking, usage=usage)


def call(
    *operations: Operation, text: str | None = None, thinking: str | None = None, usage: Usage | None = DEFAULT_USAGE
) -> Step:
    """Tool calls, all of them in one answer; a text and a thought may come before them."""
    if not operations or not all(isinstance(operation, Operation) for operation in operations):
        raise argument_error("call", "operations", "is no operation", 'call(shell("echo hi"))')
    return Step(operations=operations, text=text, thinking=thinking, usage=usage)


def structured(data: Any, *, thinking: str | None = None, usage: Usage | None = DEFAULT_USAGE) -> Step:
    """A structured answer, in the way that the request asks for it: as JSON text, or through a tool."""
    return Step(data=data, has_data=True, thinking=thinking, usage=usage)


def empty(*, usage: Usage | None = DEFAULT_USAGE) -> Step:
    """An answer without any content."""
    return Step(usage=usage)


def fail(status: int, message: str = "scripted error", *, type: str | None = None) -> Step:
    """An HTTP error, each time; its body has the protocol's own shape."""
    if not is_whole(status, 400, 599):
        raise argument_error("fail", "status", f"is {status!r}; it is 400 to 599", "fail(500)")
    return Step(status=status, error=_text("fail", "message", message), error_type=type)


def rate_limited(times: int, then: StepLike, *, retry_after: float = 0.0) -> Step:
    """HTTP 429 with `Retry-After` (seconds), `times` times in a conversation; then `then` is answered."""
    if not is_whole(times, 1):
        raise argument_error("rate_limited", "times", f"is {times!r}; it is a whole number from 1", "times=1")
    headers = {"retry-after": f"{_seconds('rate_limited', 'retry_after', retry_after):g}"}
    return Step(status=429, error="scripted rate limit", headers=headers, times=times, then=then)


def slow(step: Step | Operation | str, delay: float) -> Step:
    """The same answer with `delay` seconds between its chunks; it ends when the client leaves or the server stops."""
    return replace(as_step(step), delay=_seconds("slow", "delay", delay))


def cut(step: Step | Operation | str, after: int = 2) -> Step:
    """The same answer, but the connection is closed in the middle of the event that follows `after` events.

    An answer that is not streamed is closed in the middle of its body.
    """
    if not is_whole(after, 0):
        raise argument_error("cut", "after", f"is {after!r}; it is a whole number from 0", "after=2")
    return replace(as_step(step), cut_after=after)


def shell(command: str) -> Operation:
    """Run a command line in the agent's shell."""
    return Operation("shell", {"command": _text("shell", "command", command)})


def write(path: str, content: str) -> Operation:
    """Write a file; through the shell where no tool for it is offered."""
    return Operation("write", {"path": _text("write", "path", path), "content": _text("write", "content", content)})


def edit(path: str, old: str, new: str) -> Operation:
    """Replace a text of a file by another."""
    return Operation("edit", {"path": _text("edit", "path", path), "old": old, "new": new})


def read(path: str) -> Operation:
    """Read a file; through the shell where no tool for it is offered."""
    return Operation("read", {"path": _text("read", "path", path)})


def task(prompt: str, description: str = "scripted task") -> Operation:
    """Give a task to a subagent. The prompt can hold the marker of the subagent's own scenario."""
    return Operation("task", {"prompt": _text("task", "prompt", prompt), "description": description})


def mcp(server: str, tool_name: str, /, **arguments: Any) -> Operation:
    """Call a tool of an MCP server, whatever the client makes of its name."""
    return Operation("mcp", {"server": server, "tool": tool_name, "arguments": arguments})


def tool(name: str, /, **arguments: Any) -> Operation:
    """Call the tool of exactly this name with exactly these arguments, offered or not."""
    return Operation("tool", {"name": _text("tool", "name", name), "arguments": arguments})


def as_step(value: object) -> Step:
    """A step of what can stand for one. Raises AuthorError (`bad-argument`)."""
    if isinstance(value, Step):
        return value
    if isinstance(value, Operation):
        return Step(operations=(value,))
    if isinstance(value, str):
        return say(value)
    raise argument_error(
        "scenario", "step", f"is {type(value).__name__}", 'say("..."), call(...), an operation or a text'
    )


def checked_steps(steps: Sequence[object]) -> None:
    """Raises AuthorError (`bad-argument`) for what can be no step."""
    for step in steps:
        if not callable(step):
            as_step(step)


def argument_error(call_name: str, argument: str, problem: str, fix: str) -> AuthorError:
    """`bad-argument`: what a script says cannot be meant."""
    return AuthorError("bad-argument", call=call_name, argument=argument, problem=problem, fix=fix)


def is_whole(value: object, least: int, most: float = math.inf) -> bool:
    """Whether it is a whole number within the bounds."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _text(call_name: str, argument: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise argument_error(call_name, argument, f"is {type(value).__name__}; it is text", f'{argument}="..."')


def _seconds(call_name: str, argument: str, value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MAX_DELAY:
        return float(value)
    shown = value if isinstance(value, (int, float)) and math.isfinite(value) else type(value).__name__
    raise argument_error(call_name, argument, f"is {shown}; it is 0 to {MAX_DELAY:g} seconds", f"{argument}=1.0")
