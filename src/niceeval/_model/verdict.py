"""What attempts come to: the fold of an eval's attempts into one verdict."""

from __future__ import annotations

from collections.abc import Iterable

from niceeval._model.result import Verdict

_BEST_FIRST: tuple[Verdict, ...] = ("passed", "failed", "errored", "skipped")


def fold_attempts(verdicts: Iterable[Verdict]) -> Verdict | None:
    """An eval's verdict: any passed -> passed; else failed > errored > skipped. None for no attempts."""
    seen = set(verdicts)
    return next((verdict for verdict in _BEST_FIRST if verdict in seen), None)
