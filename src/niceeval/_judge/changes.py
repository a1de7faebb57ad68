"""Assertions on what the agent changed in the workdir, and the values that checks on it are given.

The diff is evidence like a channel: a change that was seen is seen, whatever may be missing; that there was none needs
the whole diff. On a path that the ledger does not look at nothing can be said at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from niceeval._base.plain_text import shorten
from niceeval._judge.availability import NO_TURN
from niceeval._judge.evaluation import Evaluation, plural
from niceeval._model.assertion import UnavailableReason
from niceeval._model.changes import Changes
from niceeval._model.ignoring import ignore_patterns, ignored_by

SHOWN_PATHS: Final = 10
"""Changed paths that an assertion names."""

T = TypeVar("T", covariant=True)


@dataclass(frozen=True, slots=True)
class Settled(Generic[T]):
    """What a deferred value came to; with a `reason` it is not known, and `value` is None."""

    value: T | None
    reason: UnavailableReason | None = None


def file_changed(changes: Changes | None, path: str) -> Evaluation:
    """The path was created or changed, and is there at the end."""
    known = changes if changes is not None and path in changes.present() else None
    reason = None if known is not None else _path_gap(changes, path)
    deleted = changes is not None and path in changes.stored.deleted_files
    return Evaluation(
        score=0.0 if known is None else 1.0,
        expected=f"{path} created or changed",
        received=_received(changes),
        detail="it was deleted" if deleted else None,
        evidence=None if known is None else _excerpt(known, path),
        reason=None if deleted else reason,
    )


def file_deleted(changes: Changes | None, path: str) -> Evaluation:
    """The path was there, and is not at the end; also where it was renamed."""
    deleted = changes is not None and path in changes.stored.deleted_files
    changed = changes is not None and path in changes.present()
    return Evaluation(
        score=1.0 if deleted else 0.0,
        expected=f"{path} deleted",
        received=_received(changes),
        detail="it was changed, and is still there" if changed else None,
        reason=None if deleted or changed else _path_gap(changes, path),
    )


def not_in_diff(changes: Changes | None, pattern: str | re.Pattern[str]) -> Evaluation:
    """No changed path and no added line contains the text, or matches the pattern."""
    found = [] if changes is None else _found(changes, pattern)
    reason = _absence_gap(changes)
    return Evaluation(
        score=0.0 if found or reason is not None else 1.0,
        expected=f"nothing with {_shown(pattern)} in changed paths and added lines",
        received=plural(len(found), "place") if found else _received(changes),
        evidence=" · ".join(found[:SHOWN_PATHS]) or None,
        reason=reason,
    )


def diff_text(changes: Changes | None, path: str) -> Settled[str]:
    """The text of a created or changed file; None where it was not changed, or deleted."""
    if changes is not None and path in changes.stored.generated_files:
        return Settled(changes.stored.generated_files[path])
    if changes is not None and path in changes.stored.deleted_files:
        return Settled(None)
    other = None if changes is None else changes.stored.other_files.get(path)
    if other is not None:
        return Settled(None, _not_collected(f"{path} is {_KINDS.get(other.kind, other.kind)}: its text is not kept"))
    return Settled(None, _path_gap(changes, path))


def diff_is_empty(changes: Changes | None) -> Settled[bool]:
    """Whether nothing was changed."""
    if changes is not None and changes.paths():
        return Settled(False)
    reason = _whole_gap(changes)
    return Settled(None, reason) if reason is not None else Settled(True)


def diff_matches(changes: Changes | None, pattern: str | re.Pattern[str]) -> Settled[bool]:
    """Whether some changed path or added line contains the text, or matches the pattern."""
    if changes is not None and _found(changes, pattern):
        return Settled(True)
    reason = _absence_gap(changes)
    return Settled(None, reason) if reason is not None else Settled(False)


_KINDS: Final = {
    "binary": "no UTF-8 text",
    "oversized": "too large",
    "mode": "changed in its mode only",
    "symlink": "a symbolic link",
    "special": "no ordinary file",
    "repository": "a repository",
}


def _not_collected(message: str) -> UnavailableReason:
    return UnavailableReason(code="diff-not-collected", message=message)


def _whole_gap(changes: Changes | None) -> UnavailableReason | None:
    """Why it cannot be said that something was not changed; None where it can."""
    if changes is None:
        return _not_collected("what the agent changed was not collected")
    if not changes.windows:
        return NO_TURN
    if changes.problem is not None:
        return _not_collected(f"what the agent changed was not collected: {changes.problem}")
    return None if changes.gap is None else _not_collected(f"the diff is not whole: {changes.gap}")


def _path_gap(changes: Changes | None, path: str) -> UnavailableReason | None:
    """As `_whole_gap`, for one path."""
    if changes is not None:
        pattern = ignored_by(path, ignore_patterns(changes.rules))
        if pattern is not None:
            shown = ("/" if pattern.anchored else "") + pattern.text + ("/" if pattern.folder else "")
            message = f"{path} is not looked at: it matches {shown}; DiffRules(include=...) changes what is left out"
            return UnavailableReason(code="path-ignored", message=message)
    return _whole_gap(changes)


def _absence_gap(changes: Changes | None) -> UnavailableReason | None:
    """Why it cannot be said that no added line has something in it."""
    reason = _whole_gap(changes)
    if reason is not None or changes is None or not changes.unread:
        return reason
    path, why = next(iter(sorted(changes.unread.items())))
    more = f", and {plural(len(changes.unread) - 1, 'more file')}" if len(changes.unread) > 1 else ""
    return _not_collected(f"the lines of {path} are not known: {why}{more}")


def _found(changes: Changes, pattern: str | re.Pattern[str]) -> list[str]:
    """The places where the pattern occurs: `path`, or `path: the line`."""
    found = [path for path in changes.paths() if _contains(path, pattern)]
    for path, added in sorted(changes.added.items()):
        if isinstance(pattern, str) and "\n" not in pattern and pattern not in added:
            continue
        lines = [line for line in added.split("\n") if _contains(line, pattern)]
        if lines:
            found.append(f"{path}: {shorten(lines[0].strip(), 200)}")
        elif _contains(added, pattern):
            found.append(path)
    return found


def _contains(text: str, pattern: str | re.Pattern[str]) -> bool:
    return pattern in text if isinstance(pattern, str) else pattern.search(text) is not None


def _shown(pattern: str | re.Pattern[str]) -> str:
    return f"/{pattern.pattern}/" if isinstance(pattern, re.Pattern) else repr(pattern)


def _received(changes: Changes | None) -> str:
    if changes is None or changes.problem is not None:
        return "the diff is not known"
    deleted = set(changes.stored.deleted_files)
    paths = changes.paths()
    shown = [f"{path} (deleted)" if path in deleted else path for path in paths[:SHOWN_PATHS]]
    more = [f"and {len(paths) - SHOWN_PATHS:,} more"] if len(paths) > SHOWN_PATHS else []
    return ", ".join(shown + more) or "no change"


def _excerpt(changes: Changes, path: str) -> str | None:
    text = changes.stored.patches.get(path)
    return None if text is None else shorten(text, 1_000)
