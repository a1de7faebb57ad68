"""The errors of Vercel's SDK, in our words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from niceeval.sandbox import SandboxError, SandboxGoneError, SandboxUnavailableError

LONGEST = 1_000
"""Characters of what the service said that are kept."""
_ENDED = {"sandbox_stopped", "sandbox_stopping", "sandbox_snapshotting"}
_LIMITS = {402, 429}
_REFUSED = {401, 403}
_GONE = {404, 410}


def unavailable(problem: str, fix: str) -> SandboxUnavailableError:
    return SandboxUnavailableError("sandbox-unavailable", backend="vercel", problem=problem, fix=fix)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """A file that is not there becomes FileNotFoundError, all else of the SDK a SandboxError."""
    import httpx2
    from vercel import sandbox as vercel

    try:
        yield
    except vercel.SandboxPathNotFoundError as error:
        raise FileNotFoundError(str(error)) from None
    except vercel.SandboxCredentialsError as error:
        raise unavailable(_said(error), "correct VERCEL_API_TOKEN") from None
    except vercel.SandboxError as error:
        cause = getattr(error, "cause", None)
        raise _in_our_words(cause if isinstance(cause, vercel.SandboxApiError) else error) from None
    except (httpx2.HTTPError, OSError) as error:
        raise _failed(error, "try again; see https://www.vercel-status.com") from None


def _in_our_words(error: Exception) -> SandboxError:
    status = getattr(error, "status_code", None)
    if status in _REFUSED:
        return unavailable(_said(error), "correct VERCEL_API_TOKEN, VERCEL_TEAM_ID and VERCEL_PROJECT_ID")
    if status in _GONE or getattr(error, "code", None) in _ENDED:
        fix = "make a new one; if its time was over, see the limits of your Vercel plan"
        return SandboxGoneError("sandbox-gone", backend="vercel", problem=_said(error), fix=fix)
    if status in _LIMITS:
        return _failed(error, "lower max_concurrency, or raise the limit of your Vercel plan")
    return _failed(error, "see what Vercel says, and https://www.vercel-status.com")


def _failed(error: Exception, fix: str) -> SandboxError:
    return SandboxError("sandbox-failed", backend="vercel", problem=_said(error), fix=fix)


def _said(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:LONGEST]
