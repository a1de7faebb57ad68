"""A whole run, or what is left of one that raised, as a turn."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from niceeval.adapter import EvidenceCoverage, Turn
from niceeval.converters._attributes import field, items, text_field
from niceeval.converters._call_ids import CallIds
from niceeval.converters.pydantic_ai._names import output_tools
from niceeval.converters.pydantic_ai._parts import PartReader, attempts_of, count_of_requests, is_deferred
from niceeval.converters.pydantic_ai._usage import add_run_usage
from niceeval.turn_building import Collected, TurnBuilder

coverage: Final = EvidenceCoverage.complete_except()
"""A run's messages are all that its agent did; a turn says where they are not."""

situations: Final[Mapping[str, str]] = {
    "success": "tested",
    "tool failure": "tested",
    "refusal by a human": "tested",
    "parallel tools": "tested",
    "nested agent": "tested",
    "empty answer": "tested",
    "multi-part content": "tested",
    "structured output": "tested",
    "cached and reasoning tokens": "tested",
    "error mid-stream": "tested",
}
"""What can happen in a run -> "tested", or why the framework does not show it."""

MAX_NAMES: Final = 5
"""Tools that are named in a reason."""
_IN_A_TOOL: Final = "requests were made to a model inside a tool: what was done there is not shown"


def to_turn(run: object, **how: Any) -> Turn:
    """The turn of a run; arguments as `collected`, whose diagnostics it leaves out."""
    return collected(run, **how).turn


def collected(
    run: object,
    *,
    error: BaseException | None = None,
    usage: object = None,
    data: bool = True,
    ids: CallIds | None = None,
    output_tools_named: Collection[str] = (),
    subagents: Mapping[str, str] | None = None,
    nested: Collection[str] = (),
    raised: Mapping[str, BaseException] | None = None,
) -> Collected:
    """The turn of a run, and what has to be said about it.

    `run` is a run's result, or a list of messages: those of `capture_run_messages()` with the `error` that ended the
    run, which make a failed turn. `usage` is the run's where it is known otherwise than by its result. `data=False`
    where no structured answer was asked for. `ids` are a conversation's, so that a call id that comes again in a later
    turn is told apart. `output_tools_named` are the names of output tools that have no default name. `subagents` maps
    a tool's name to that of the agent that it runs; `nested` names tools in which some agent is known to have run.
    `raised` are errors of tools by call id, where it is known which raised what.
    """
    builder = TurnBuilder(coverage)
    messages, output, own_usage = _parts_of(run)
    names = [*output_tools_named, *_own_output_tool(run)]
    reader = PartReader(builder, ids or CallIds(), output_tools(messages, names), subagents or {})
    reader.messages(messages)
    used = own_usage if usage is None else usage
    if error is not None:
        _ended_badly(reader, messages, error, raised or {})
    else:
        _output(reader, output, data)
        _inner_requests(builder, used, len(_responses(messages)) + attempts_of(messages))
    if nested:
        tools = ", ".join(sorted(nested)[:MAX_NAMES])
        builder.incomplete(f"another agent ran in a tool ({tools}): what it did is not shown", ("events", "actions"))
    _usage(builder, used, messages)
    return builder.build()


def _parts_of(run: object) -> tuple[list[Any], Any, object]:
    new_messages = getattr(run, "new_messages", None)
    if callable(new_messages):
        return list(new_messages()), field(run, "output"), field(run, "usage")
    if isinstance(run, Mapping):
        start = field(run, "new_message_index")
        messages = items(field(run, "messages"))
        return messages[start if isinstance(start, int) else 0 :], field(run, "output"), field(run, "usage")
    return items(run), None, None


def _own_output_tool(run: object) -> list[str]:
    # Nothing public says it; where it is not said this way either, the default name is what is looked for.
    name = text_field(run, "output_tool_name") or text_field(run, "_output_tool_name")
    return [name] if name else []


def _responses(messages: Sequence[object]) -> list[object]:
    return [message for message in messages if text_field(message, "kind") == "response"]


def _output(reader: PartReader, output: object, data: bool) -> None:
    if is_deferred(output):
        reader.deferred(output)
        return
    if reader.answered is not None:
        # Whichever way an agent gives its structured answer, it has said it.
        reader.builder.message(output if isinstance(output, str) else reader.answered)
    if data and output is not None and not isinstance(output, str):
        reader.builder.data(output)  # type: ignore[arg-type]


def _inner_requests(builder: TurnBuilder, usage: object, own: int) -> None:
    if count_of_requests(usage) > own:
        builder.incomplete(_IN_A_TOOL, ("events", "actions"))


def _usage(builder: TurnBuilder, usage: object, messages: Sequence[object]) -> None:
    if usage is not None:
        add_run_usage(builder, usage)
        return
    for response in _responses(messages):
        add_run_usage(builder, field(response, "usage"), requests=1)


def _ended_badly(
    reader: PartReader, messages: Sequence[object], error: BaseException, raised: Mapping[str, BaseException]
) -> None:
    builder = reader.builder
    text = f"{type(error).__name__}: {error}"
    last = messages[-1] if messages else None
    if text_field(last, "kind") == "request" and text_field(last, "state") != "interrupted":
        builder.partial("usage", "the last request to the model failed: what it used is not known")
    known = [id for id, what in raised.items() if what is error]
    if known or _is_a_tools(error):
        reader.raised(text, known)
    if reader.open_calls:
        builder.incomplete(f"the run ended with {type(error).__name__} while tools ran", ("events", "actions"))
    builder.failed(text)


def _is_a_tools(error: BaseException) -> bool:
    """Whether an error that ended the run while tools ran may be one of a tool. The framework's own have a module."""
    if type(error).__name__ == "UnexpectedModelBehavior":
        return str(error).startswith("Tool ")
    return not type(error).__module__.startswith("pydantic_ai.")
