"""The errors of Modal's SDK, in our words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from niceeval.sandbox import SandboxError, SandboxGoneError, SandboxUnavailableError

LONGEST = 1_000
"""Characters of what the service said that are kept."""
STATUS = "https://status.modal.com"


def unavailable(problem: str, fix: str) -> SandboxUnavailableError:
    return SandboxUnavailableError("sandbox-unavailable", backend="modal", problem=problem, fix=fix)


def failed(problem: str, fix: str) -> SandboxError:
    return SandboxError("sandbox-failed", backend="modal", problem=problem, fix=fix)


def gone(problem: str) -> SandboxGoneError:
    fix = "make a new one; Modal ends a sandbox after 24 hours at the latest"
    return SandboxGoneError("sandbox-gone", backend="modal", problem=problem, fix=fix)


@contextlib.contextmanager
def translated(not_found: str | None = None) -> Iterator[None]:
    """All errors of the SDK as a SandboxError; a FileNotFoundError stays one.

    What Modal does not find is the sandbox, which is gone; or, where `not_found` says what to do, something that a
    sandbox needs.
    """
    import grpclib.exceptions
    from modal import exception as modal

    try:
        yield
    except FileNotFoundError:
        raise
    except modal.NotFoundError as error:
        raise (gone(_said(error)) if not_found is None else failed(_said(error), not_found)) from None
    except (modal.ClientClosed, modal.SandboxTerminatedError, modal.SandboxTimeoutError) as error:
        raise gone(_said(error)) from None
    except (modal.AuthError, modal.PermissionDeniedError) as error:
        raise unavailable(_said(error), "correct MODAL_TOKEN_ID and MODAL_TOKEN_SECRET") from None
    except modal.ResourceExhaustedError as error:
        raise failed(_said(error), "lower max_concurrency, or raise the limits of your Modal plan") from None
    except modal.RemoteError as error:
        raise failed(_said(error), "see the log of the image's build in Modal's dashboard") from None
    except (modal.Error, grpclib.GRPCError, grpclib.exceptions.StreamTerminatedError, OSError) as error:
        raise failed(_said(error), f"see what Modal says, and {STATUS}") from None


def _said(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:LONGEST]
