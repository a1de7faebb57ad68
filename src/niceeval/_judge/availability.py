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
from niceeval._model.coverage import Channel

NO_TURN = UnavailableReason(code="no-turn", message="nothing was sent in this scope")


def incomplete(scope: Scope, *channels: Channel) -> UnavailableReason | None:
    """Why the scope cannot prove an absence, a bound or a state on these channels; None where it can."""
    if not scope.turns:
        return NO_TURN
    for channel in channels:
        level, reasons = scope.coverage[channel]
        if level != "complete":
            return UnavailableReason(
                code=f"coverage-{level}",
                channel=channel,
                message=f"{channel} is {level}: " + "; ".join(reasons[:3]),
            )
    return None


def unmatched(scope: Scope, *channels: Channel) -> UnavailableReason | None:
    """Why "no match" is no answer; None where the channels are complete, so that it is a failure."""
    return incomplete(scope, *channels)


def is_complete(scope: Scope, *channels: Channel) -> bool:
    """Whether absence can be proved on these channels."""
    return incomplete(scope, *channels) is None
