"""When a send may be made again: only where nothing can have been half done.

`RetryableSendError`, or a `classify_failure` that says so, means that the input was certainly not accepted. Then the
same input is sent again after a growing, jittered wait; everything else is never sent twice.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from niceeval._model.failure import EvalFatalError, ExperimentFatalError, FailureClass, RetryableSendError

Classifier: TypeAlias = Callable[[BaseException], FailureClass | None]

_NOTHING_SPECIAL = FailureClass()


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How often and how long: seconds of the first wait, which doubles up to `longest`; tries of one send, retries of
    one attempt."""

    first: float = 1.0
    longest: float = 30.0
    tries_per_send: int = 4
    retries_per_attempt: int = 8

    def wait(self, retry: int, error: BaseException) -> float:
        """Seconds before retry number `retry` (from 1): what the service asked for, else doubling with jitter."""
        asked = getattr(error, "retry_after", None)
        if isinstance(asked, (int, float)) and not isinstance(asked, bool) and asked > 0:
            return min(float(asked), 2 * self.longest)
        longest = min(self.first * 2 ** (retry - 1), self.longest)
        # Full jitter keeps many clients that were refused together from coming back together.
        return random.uniform(longest / 2, longest)


DEFAULT_BACKOFF = Backoff()


def failure_class(error: BaseException, classifiers: Sequence[Classifier]) -> FailureClass:
    """What an error of `send` (or of the eval) means beyond this attempt.

    The error's own type decides first, then the classifiers in order; what a classifier itself raises is raised.
    """
    if isinstance(error, RetryableSendError):
        return FailureClass(retryable=True, reason=str(error) or "not accepted")
    if isinstance(error, ExperimentFatalError):
        return FailureClass(scope="experiment", reason=str(error))
    if isinstance(error, EvalFatalError):
        return FailureClass(scope="eval", reason=str(error))
    for classify in classifiers:
        found = classify(error)
        if isinstance(found, FailureClass):
            return found
    return _NOTHING_SPECIAL
