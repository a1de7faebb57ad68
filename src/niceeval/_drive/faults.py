"""What made an attempt errored, or failed by a plain `assert`: named, placed, with the user's own frames."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from niceeval._base import errors
from niceeval._base.callsite import CallSite, is_ours, traceback_sites
from niceeval._base.errors import NiceevalError, SkipEval, StopEval
from niceeval._base.guest import GuestCancelledItself
from niceeval._base.plain_text import clean_text
from niceeval._base.watchdog import LoopBlocked
from niceeval._model.failure import FailureScope
from niceeval._model.result import Phase

MAX_MESSAGE = 4_000
MAX_FRAMES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why no trustworthy conclusion can be drawn. `trace` holds the user's frames, `next_step` what to do.

    `scope` says what else would die of the same cause.
    """

    code: str
    phase: Phase
    message: str
    site: CallSite | None = None
    trace: str | None = None
    next_step: str | None = None
    scope: FailureScope = "attempt"


def fault_of_error(error: NiceevalError, phase: Phase, site: CallSite | None) -> Fault:
    """A fault that niceeval named itself."""
    return Fault(
        code=error.code,
        phase=phase,
        message=bounded_text(error.message()),
        site=site,
        trace=error.frames,
        next_step=error.next_step() or None,
    )


def fault_of_guest(
    error: BaseException, phase: Phase, site: CallSite | None, root: Path, scope: FailureScope = "attempt"
) -> Fault:
    """What an adapter, a hook or an eval raised, and what it dooms."""
    if isinstance(error, LoopBlocked):
        return Fault(
            code="timeout",
            phase=phase,
            message="it blocked the event loop beyond the attempt's timeout and was interrupted",
            site=site,
            trace=user_frames(error, root),
            next_step="use async calls there, or make it a plain function: those run in a thread",
        )
    code = {"eval": "author-error", "setup": "setup-failed"}.get(phase, "adapter-error")
    if scope != "attempt":
        code = f"{scope}-fatal"
    trace = user_frames(error, root)
    return Fault(code=code, phase=phase, message=error_text(error), site=site, trace=trace, scope=scope)


def error_text(error: BaseException) -> str:
    """`ValueError: the message`, bounded; a guest that cancelled itself says it in its own words."""
    return str(error) if isinstance(error, GuestCancelledItself) else bounded_text(errors.error_text(error))


def bounded_text(text: str) -> str:
    """At most `MAX_MESSAGE` characters that can be stored."""
    return clean_text(text, MAX_MESSAGE)[0]


def user_frames(error: BaseException, root: Path) -> str | None:
    """The traceback without niceeval's own frames, innermost last; None where nothing is left."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not is_ours(frame.filename) and os.sep + "asyncio" + os.sep not in frame.filename
    ]
    if not frames:
        return None
    lines: list[str] = []
    for frame in frames[-MAX_FRAMES:]:
        lines.append(f"{shown_file(frame.filename, root)}:{frame.lineno} in {frame.name}")
        if frame.line:
            lines.append(f"    {frame.line}")
    return bounded_text("\n".join(lines))


def shown_file(filename: str, root: Path) -> str:
    """A file below the root by its relative path, another one by its last parts, after `…/`."""
    if filename.startswith(str(root) + os.sep):
        return os.path.relpath(filename, root).replace(os.sep, "/")
    parts = filename.replace(os.sep, "/").split("/")
    return "/".join(parts[-3:]) if len(parts) <= 3 else "…/" + "/".join(parts[-3:])


def last_project_site(error: BaseException, root: Path) -> CallSite | None:
    """The innermost frame of the traceback that lies in the project."""
    for site in reversed(traceback_sites(error.__traceback__)):
        if in_project(site.file, root):
            return site
    return None


def in_project(filename: str, root: Path) -> bool:
    """Whether a code file belongs to the user's project, environments below it excluded."""
    if not filename.startswith(str(root) + os.sep):
        return False
    inside = filename[len(str(root)) :]
    return "site-packages" not in inside and f"{os.sep}.venv{os.sep}" not in inside


def asserted_site(error: AssertionError, root: Path) -> CallSite | None:
    """Where a plain `assert` of the project failed; None where the error came from a library's own frames."""
    sites = traceback_sites(error.__traceback__)
    return sites[-1] if sites and in_project(sites[-1].file, root) else None


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The exceptions of a (nested) group; the exception itself where it is none."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def control_flow(error: BaseException) -> StopEval | None:
    """The stop that an eval ended with, also from within a task group; a skip only where nothing else went wrong."""
    found = list(leaves(error))
    stops = [inner for inner in found if isinstance(inner, StopEval)]
    if not stops or len(stops) < len(found):
        return None
    return next((stop for stop in stops if not isinstance(stop, SkipEval)), stops[0])


def foreign_stop(error: BaseException, owner: object) -> StopEval | None:
    """A stop of another attempt's eval: it has recorded nothing in this one."""
    return next((leaf for leaf in leaves(error) if isinstance(leaf, StopEval) and leaf.owner is not owner), None)
