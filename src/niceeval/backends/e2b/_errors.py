"""The errors of E2B's SDK, in our words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from niceeval.sandbox import SandboxError, SandboxGoneError, SandboxUnavailableError

LONGEST = 1_000
"""Characters of what the service said that are kept."""


def unavailable(problem: str, fix: str) -> SandboxUnavailableError:
    return SandboxUnavailableError("sandbox-unavailable", backend="e2b", problem=problem, fix=fix)


def failed(problem: str, fix: str) -> SandboxError:
    return SandboxError("sandbox-failed", backend="e2b", problem=problem, fix=fix)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """A file that is not there becomes FileNotFoundError, all else of the SDK a SandboxError."""
    import httpx
    from e2b import exceptions as e2b

    try:
        yield
    except e2b.FileNotFoundException as error:
        raise FileNotFoundError(str(error)) from None
    except (e2b.SandboxNotFoundException, e2b.SandboxNotRunningException) as error:
        fix = "make a new one; if its time was over, see the limits of your E2B plan"
        raise SandboxGoneError("sandbox-gone", backend="e2b", problem=_said(error), fix=fix) from None
    except e2b.AuthenticationException as error:
        raise unavailable(_said(error), "correct E2B_API_KEY") from None
    except (e2b.RateLimitException, e2b.ServiceBusyException) as error:
        raise failed(_said(error), "lower max_concurrency, or raise the limit of your E2B plan") from None
    except e2b.TimeoutException as error:
        raise failed(_said(error), "try again; see https://status.e2b.dev") from None
    except e2b.NotEnoughSpaceException as error:
        raise failed(_said(error), "use a template with a larger disk") from None
    except (e2b.SandboxException, httpx.HTTPError, OSError, ValueError) as error:
        # A ValueError is an answer that is no JSON, such as a proxy's.
        raise failed(_said(error), "see what E2B says, and https://status.e2b.dev") from None
    except Exception as error:
        # The SDK has no class of its own for a stream or an answer that is cut.
        if type(error) is not Exception:
            raise
        raise failed(_said(error), "try again; see https://status.e2b.dev") from None


def _said(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:LONGEST]
