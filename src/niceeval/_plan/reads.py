"""What has changed since a result was stored: parts of its identity, and files that its attempt read by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from niceeval._base.errors import ResultsError
from niceeval._base.file_reads import MAX_READS, Digests, read_changes
from niceeval._model.result import StoredIdentity
from niceeval._plan.identity import Identity, changes
from niceeval._record.attempt import Attempt

MAX_NAMED = 3
"""Changes that are named in a reason; the others are counted."""


def changes_since(stored: StoredIdentity, identity: Identity, root: Path) -> list[str]:
    """What has changed since a result, by name; empty where it may be carried as far as niceeval can see."""
    found = [*changes(stored.parts, identity.parts), *changed_reads(stored, Digests(root))]
    return list(dict.fromkeys(found))


def changed_reads(stored: StoredIdentity, digests: Digests) -> list[str]:
    """Why the files that an attempt read keep its result from being carried; empty where they do not."""
    if stored.reads is None:
        return ["files read by hand (not recorded before)"]
    if stored.reads_cut:
        return [f"files read by hand (more than {MAX_READS}, which are too many to compare)"]
    return read_changes(stored.reads, digests)


def reason_of(changed: Sequence[str]) -> str:
    """`changed: file: prompts/system.txt; 2 more`."""
    more = [f"{len(changed) - MAX_NAMED} more"] if len(changed) > MAX_NAMED else []
    return "changed: " + "; ".join([*changed[:MAX_NAMED], *more])


def why_stale(attempt: Attempt, digests: Digests) -> str | None:
    """Why a stored attempt does not stand although its fingerprint is the planned one's; None where it does."""
    try:
        stored = attempt.identity_parts
    except ResultsError:
        stored = None
    changed = ["identity (not recorded before)"] if stored is None else changed_reads(stored, digests)
    return reason_of(changed) if changed else None
