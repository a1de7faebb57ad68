"""What a run says once at its end of what happened in several attempts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from niceeval._model.run_events import RunNotice

MAX_NAMED = 5
"""Sandboxes that are named one by one."""


def unasserted(evals: Collection[str]) -> Iterator[RunNotice]:
    """An eval without an assertion passes whatever its agent does: a green that says nothing."""
    if not evals:
        return
    names = sorted(evals)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    many = "evals" if len(names) > 1 else "eval"
    message = f"{len(names)} {many} recorded no assertion and passed whatever the agent did: {', '.join(names[:3])}"
    yield RunNotice(code="no-assertions", level="warning", message=message + more)


def kept_sandboxes(locators: Sequence[str]) -> Iterator[RunNotice]:
    """The attempts whose sandboxes were left standing, and how each is entered."""
    for locator in locators[:MAX_NAMED]:
        message = f"the sandbox of {locator} was kept: niceeval sandbox enter {locator}"
        yield RunNotice(code="sandbox-kept", level="info", message=message)
    more = len(locators) - MAX_NAMED
    if more > 0:
        message = f"{more} more were kept; niceeval sandbox prune --all removes them"
        yield RunNotice(code="sandbox-kept", level="info", message=message)
