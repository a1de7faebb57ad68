"""How long the runner waits for guests in places where no experiment or eval sets a limit."""

from __future__ import annotations

from dataclasses import dataclass

from niceeval._base.guest import GRACE
from niceeval._drive.retrying import DEFAULT_BACKOFF, Backoff


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """All in seconds.

    `grace`: a cancelled guest's time to come to an end. `evaluation`: the deferred assertions of one attempt, whose
    predicates are an author's code. `teardown`: an agent's teardown, which runs after the attempt's own timeout has
    passed too. `experiment_setup` and `experiment_teardown`: an experiment's hooks. `backoff`: the waits before a send
    is made again.
    """

    grace: float = GRACE
    evaluation: float = 60.0
    teardown: float = 30.0
    experiment_setup: float = 600.0
    experiment_teardown: float = 60.0
    backoff: Backoff = DEFAULT_BACKOFF


DEFAULT_LIMITS = Limits()
