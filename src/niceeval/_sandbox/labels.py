"""What a sandbox says of itself: labels that every backend puts on what it makes, bounded and clean.

A label is for finding things again, never for secrets: whoever may look at the engine reads them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

from niceeval._model.sandbox import StandingSandbox
from niceeval._sandbox.owner import Owner, parse_owner, this_owner

OURS = "niceeval"
RUN = "niceeval.run"
ATTEMPT = "niceeval.attempt"
EXPERIMENT = "niceeval.experiment"
OWNER = "niceeval.owner"
CREATED = "niceeval.created"
EXPIRES = "niceeval.expires"
KEPT = "niceeval.kept"

MAX_LABEL = 120
"""Characters of a label's value; more would not fit some backends."""
_OTHER = re.compile(r"[^A-Za-z0-9_.@/#-]+")


def label_text(text: str) -> str:
    """Text as a label may hold it; what is too long loses its middle."""
    clean = _OTHER.sub("_", text)
    half = (MAX_LABEL - 1) // 2
    return clean if len(clean) <= MAX_LABEL else f"{clean[:half]}_{clean[-half:]}"


def labels_of(
    *, run: str, lifetime: float, experiment: str | None = None, attempt: str | None = None, kept: bool = False
) -> dict[str, str]:
    """The labels of a sandbox that this process makes now, and that is needed for `lifetime` seconds at most.

    One that is started ahead, or handed on, has no `attempt`. `kept`: it may be looked at after this process has ended.
    """
    now = time.time()
    labels = {
        OURS: "1",
        RUN: label_text(run),
        OWNER: str(this_owner()),
        CREATED: str(int(now)),
        EXPIRES: str(int(now + lifetime) + 1),
    }
    labels |= {EXPERIMENT: label_text(experiment)} if experiment else {}
    labels |= {ATTEMPT: label_text(attempt)} if attempt else {}
    return labels | ({KEPT: "1"} if kept else {})


@dataclass(frozen=True, slots=True)
class Label:
    """What the labels of a standing sandbox say. Instants are seconds since the epoch; None where they do not say."""

    ours: bool
    run: str
    owner: Owner | None
    created: float | None
    expires: float | None
    kept: bool


def read_labels(standing: StandingSandbox) -> Label:
    """The labels as values; what somebody else has written there is nothing."""
    labels = standing.labels
    return Label(
        ours=labels.get(OURS) == "1",
        run=labels.get(RUN, ""),
        owner=parse_owner(labels.get(OWNER, "")),
        created=standing.created_at if standing.created_at is not None else _instant(labels, CREATED),
        expires=standing.expires_at if standing.expires_at is not None else _instant(labels, EXPIRES),
        kept=labels.get(KEPT) == "1",
    )


def _instant(labels: Mapping[str, str], name: str) -> float | None:
    text = labels.get(name, "")
    return float(text) if text.isascii() and text.isdecimal() and len(text) <= 12 else None
