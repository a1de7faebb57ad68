"""A whole run, or what is left of one that raised, as a turn."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from niceeval.adapter import Coverage, EvidenceCoverage, Turn
from niceeval.converters._attributes import field, items, text_field
from niceeval.converters._call_ids import CallIds
from niceeval.converters.openai_agents._calls import call_id
from niceeval.converters.openai_agents._items import ItemReader
from niceeval.converters.openai_agents._usage import add_run_usage
from niceeval.turn_building import FROM_EVENTS, Collected, TurnBuilder

coverage: Final = EvidenceCoverage.complete_except(
    actions=Coverage.partial("a tool that answers for its own failures looks like one that did well"),
)
"""A run's items are all that its agents did, but a result does not say whether the tool failed."""

MAX_NAMES: Final = 5
"""Tools that are named in a reason."""

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
"""What can happen in a run -> "tested", or why the SDK does not show it."""


def to_turn(run: object, **how: Any) -> Turn:
    """The turn of a run; arguments as `collected`, whose diagnostics it leaves out."""
    return collected(run, **how).turn


def collected(
    run: object,
    *,
    after: object = None,
    error: BaseException | None = None,
    failed: Collection[str] = (),
    rejected: Collection[str] = (),
    untold: Collection[str] = (),
    data: bool = True,
    ids: CallIds | None = None,
) -> Collected:
    """The turn of a run, and what has to be said about it.

    `run` is a run's result, a list of its items, or None with the `error` that ended it, which carries what the turns
    before had done. `after` is the result of the run that paused and that this one goes on from: the SDK says its items
    and counts its tokens again, and they are cut. `failed` and `rejected` are the ids of calls of which you know that,
    from a `tool_error_formatter` and from what you answered; `untold` names the tools that ran and whose failures you
    are not told of. `data=False` where no structured answer was asked for. `ids` are a conversation's, so that a call
    id that comes again in a later turn is told apart.
    """
    builder = TurnBuilder(coverage)
    if run is None:
        run = field(error, "run_data")
    reader = ItemReader(builder, ids or CallIds(), failed, rejected)
    before = items(field(after, "new_items"))
    all_items = items(run) if field(run, "new_items") is None else items(field(run, "new_items"))
    reader.recall(before)
    reader.items(_new(builder, all_items, before))
    reader.rejected_inside()
    if error is not None:
        _ended_badly(reader, error)
    else:
        _ended(reader, run, data)
    _unclear(builder, run, untold)
    usage = field(field(run, "context_wrapper"), "usage")
    if usage is not None:
        add_run_usage(builder, usage, field(field(after, "context_wrapper"), "usage"))
    return builder.build()


def _new(builder: TurnBuilder, all_items: list[Any], before: list[Any]) -> list[Any]:
    """The items that the run before had not: it comes first. Where it does not, what is known of it is left out."""
    marks = [_mark(item) for item in before]
    if [_mark(item) for item in all_items[: len(before)]] == marks:
        return all_items[len(before) :]
    builder.incomplete("the run does not begin with the one that paused", FROM_EVENTS)
    return [item for item in all_items if _mark(item) not in marks]


def _mark(item: object) -> tuple[str | None, str | None]:
    return text_field(item, "type"), call_id(field(item, "raw_item"))


def _ended(reader: ItemReader, run: object, data: bool) -> None:
    approvals = items(field(run, "interruptions"))
    if approvals:
        reader.interruptions(approvals)
        return
    output = field(run, "final_output")
    if isinstance(output, str) and output and not reader.spoke:
        # The app took a tool's result for the answer; that is what the user reads.
        reader.builder.message(output)
    if data and output is not None and not isinstance(output, str):
        reader.builder.data(output)
    reader.ended(output, True)


def _unclear(builder: TurnBuilder, run: object, untold: Collection[str]) -> None:
    if untold:
        names = ", ".join(sorted(untold)[:MAX_NAMES])
        builder.partial("actions", f"tools that answer for their own failures ran: {names}")
    for name in ("tool_input_guardrail_results", "tool_output_guardrail_results"):
        for result in items(field(run, name)):
            if text_field(field(field(result, "output"), "behavior"), "type") != "allow":
                builder.partial("actions", "a guardrail answered in the place of a tool")


def _ended_badly(reader: ItemReader, error: BaseException) -> None:
    builder = reader.builder
    if type(error).__name__ != "MaxTurnsExceeded":
        builder.incomplete(
            f"{type(error).__name__} ended the run: what was done since the turn before is not there",
            (*FROM_EVENTS, "usage"),
        )
    reader.ended(None, False)
    refusal = field(error, "refusal")
    if isinstance(refusal, str):
        builder.message(refusal)
    builder.failed(f"{type(error).__name__}: {error}")
