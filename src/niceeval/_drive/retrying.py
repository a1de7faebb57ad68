"""When a send may be made again: only where nothing can have been half done.

`RetryableSendError`, or a `classify_failure` that says so, means that the input was certainly not accepted. Then the
same input is sent again after a growing, jittered wait; everything else is never sent twice.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from niceeval._drive.faults import error_text
from niceeval._model.failure import EvalFatalError, ExperimentFatalError, FailureClass, RetryableSendError

Classifier: TypeAlias = Callable[[BaseException], object]
"""`classify_failure`; what it returns is looked at before it is believed."""

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
        # Jitter keeps clients that were refused together from coming back together.
        return random.uniform(longest / 2, longest)


DEFAULT_BACKOFF = Backoff()


def failure_class(
    error: BaseException, classifiers: Sequence[Classifier] = (), on_problem: Callable[[str], None] = lambda _: None
) -> FailureClass:
    """What an error of `send` (or of the eval, or of a setup) means beyond this attempt.

    The error's own type decides first, then the first classifier that says anything. One that raises, or returns what
    is no FailureClass, says nothing; `on_problem` is told.
    """
    own = _own_class(error)
    if own is not None:
        return own
    for classify in classifiers:
        try:
            found = classify(error)
        except Exception as broken:  # noqa: BLE001 - a classifier is a guest too
            on_problem(f"classify_failure raised {error_text(broken)}")
            continue
        if isinstance(found, FailureClass):
            return found
        if found is not None:
            on_problem(f"classify_failure returned {type(found).__name__}, not a FailureClass or None")
    return _NOTHING_SPECIAL


def _own_class(error: BaseException) -> FailureClass | None:
    if isinstance(error, RetryableSendError):
        return FailureClass(retryable=True, reason=str(error) or "not accepted")
    if isinstance(error, ExperimentFatalError):
        return FailureClass(scope="experiment", reason=str(error))
    if isinstance(error, EvalFatalError):
        return FailureClass(scope="eval", reason=str(error))
    return None
