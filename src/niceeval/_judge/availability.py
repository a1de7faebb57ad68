"""How evidence coverage decides whether an assertion can be answered at all.

This is the one rule that keeps "not seen" from counting as "did not happen":

* a positive assertion that found a match is answered by it, whatever the channel says;
* everything else (no match, a negative assertion, a bound, a state, an exact count not yet exceeded) needs the
  channel to be complete, and is `unavailable` where it is not;
* a scope without any turn answers nothing.
"""

from __future__ import annotations

from niceeval._evidence.scope import Scope
from niceeval._model.assertion import UnavailableReason
from niceeval._model.coverage import Channel, MergedCoverage

NO_TURN = UnavailableReason(code="no-turn", message="nothing was sent in this scope")


def incomplete(scope: Scope, *channels: Channel) -> UnavailableReason | None:
    """Why the scope cannot prove an absence, a bound or a state on these channels; None where it can."""
    if not scope.turns:
        return NO_TURN
    gaps = (channel_gap(scope.coverage, channel) for channel in channels)
    return next((gap for gap in gaps if gap is not None), None)


def channel_gap(coverage: MergedCoverage, channel: Channel) -> UnavailableReason | None:
    """Why one channel is not complete, with its reasons; None where it is."""
    level, reasons = coverage[channel]
    if level == "complete":
        return None
    return UnavailableReason(
        code=f"coverage-{level}",
        channel=channel,
        message=f"{channel} is {level}: " + "; ".join(reasons[:3]),
    )


def is_complete(scope: Scope, *channels: Channel) -> bool:
    """Whether absence can be proved on these channels."""
    return incomplete(scope, *channels) is None
