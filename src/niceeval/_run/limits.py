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
    is made again. Of sandboxes: `sandbox_open`, until a backend is ready, its image fetched; `sandbox_create`, one
    sandbox, within the attempt's timeout; `sandbox_stop`, ending one; `sandbox_reset`, making one ready for the next
    attempt; `sandbox_diff`, what an attempt changed; `sandbox_leftovers`, removing what killed runs have left.
    """

    grace: float = GRACE
    evaluation: float = 60.0
    teardown: float = 30.0
    experiment_setup: float = 600.0
    experiment_teardown: float = 60.0
    sandbox_open: float = 1_800.0
    sandbox_create: float = 300.0
    sandbox_stop: float = 30.0
    sandbox_reset: float = 60.0
    sandbox_diff: float = 60.0
    sandbox_leftovers: float = 120.0
    backoff: Backoff = DEFAULT_BACKOFF


DEFAULT_LIMITS = Limits()
