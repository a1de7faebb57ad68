"""Failures that say more than "this attempt broke": safe to retry, or fatal to more than this attempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

FailureScope: TypeAlias = Literal["attempt", "eval", "experiment"]
_SCOPES = ("attempt", "eval", "experiment")


class RetryableSendError(Exception):
    """Raised by an adapter's `send`: the input was certainly not accepted (a rate limit, a refused connection).

    Only then is it sent again, after a wait. `retry_after`: seconds that the service asked for.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class EvalFatalError(Exception):
    """Raised by an eval or an adapter: every other attempt of this eval would die of the same cause."""


class ExperimentFatalError(Exception):
    """Raised by an eval or an adapter: every other attempt of this experiment would die of the same cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureClass:
    """What `classify_failure(error)` says of an error that `send` raised.

    `retryable`: the input was certainly not accepted, sending it again is safe. `scope`: what is doomed with it.
    `reason`: a few words for people. Raises ValueError or TypeError for what is none of these.
    """

    retryable: bool = False
    scope: FailureScope = "attempt"
    reason: str = ""

    def __post_init__(self) -> None:
        if self.scope not in _SCOPES:
            raise ValueError(f"scope is {self.scope!r}; it is one of {', '.join(_SCOPES)}")
        if not isinstance(self.retryable, bool):
            raise TypeError(f"retryable is {self.retryable!r}, not True or False")
        if not isinstance(self.reason, str):
            raise TypeError(f"reason is {self.reason!r}, not text")
