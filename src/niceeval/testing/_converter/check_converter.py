"""Which channels a converter may call complete, found out from what really happened and from changed samples."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final

from niceeval._base.errors import AdapterError
from niceeval._model.coverage import CHANNELS, Channel, EvidenceCoverage
from niceeval._model.events import StreamEvent
from niceeval._model.turn import Turn
from niceeval.testing._agent.report import Finding, Report
from niceeval.testing._converter.evidence import (
    Evidence,
    claims,
    difference,
    evidence_of,
    invented,
    truth_of,
    typed_events,
)
from niceeval.testing._converter.mutations import MAX_VARIANTS, Path, Variant, variants
from niceeval.testing._converter.sample import ConverterSample

MAX_SHOWN: Final = 3
"""The most reasons that one finding names; the rest are counted."""

_FED: Final[tuple[Channel, ...]] = ("events", "actions", "messages")


def check_converter(
    convert: Callable[[Any], Turn],
    samples: Sequence[ConverterSample],
    *,
    coverage: EvidenceCoverage,
    name: str | None = None,
) -> Report:
    """Try a converter, and say what it claims that is not so. `coverage` is what it declares.

    Each sample is converted as it is, and in changed forms: cut where it is a stream; else with an item left out, in
    another order, twice, or of a kind that nobody knows. A channel that the turn calls complete has to show exactly
    what happened; where a change took that away, the turn has to say so. What a turn shows has to have happened.

    Raises AdapterError (`coverage-missing`, `coverage-invalid`) for a declaration that is not valid.
    """
    shown_name = name or str(getattr(convert, "__qualname__", type(convert).__name__))
    coverage.require_valid(shown_name)
    if not samples:
        raise AdapterError("agent-invalid", problem="there is no sample", fix="give check_converter a ConverterSample")
    trial = _Trial(convert, coverage)
    for sample in samples:
        trial.sample(sample)
    return Report(agent=shown_name, findings=tuple(trial.findings()), events=trial.events, kind="converter")


class _Trial:
    """Collects what was seen over all samples."""

    def __init__(self, convert: Callable[[Any], Turn], declared: EvidenceCoverage) -> None:
        self.events: dict[str, tuple[StreamEvent, ...]] = {}
        self._convert = convert
        self._declared = declared
        self._raised: list[str] = []
        self._invented: list[str] = []
        self._upgrades: list[str] = []
        self._overclaims: dict[Channel, list[str]] = {channel: [] for channel in CHANNELS}
        self._claimed: set[Channel] = set()
        self._tried: set[Channel] = set()
        self._true: dict[Channel, bool] = dict.fromkeys(CHANNELS, True)
        self._changed = 0

    def sample(self, sample: ConverterSample) -> None:
        """Try one, as it is and changed."""
        turn = self._turn(sample.value, sample.name)
        if turn is None:
            return
        self.events[sample.name] = typed_events(turn.events)
        truth, shown = truth_of(sample), evidence_of(turn)
        channels = [channel for channel in CHANNELS if _is_told(channel, sample)]
        self._tried.update(channel for channel in channels if truth.of(channel) not in ((), ((), ())))
        for channel in channels:
            wrong = difference(channel, truth, shown)
            self._true[channel] = self._true[channel] and wrong is None
            if wrong is not None and channel in claims(turn, self._declared):
                self._overclaims[channel].append(f"{sample.name}: {wrong}")
        self._claimed |= claims(turn, self._declared)
        self._has_happened(sample.name, truth, shown)
        self._change(sample, channels, truth, shown)

    def findings(self) -> list[Finding]:
        """What came of it."""
        found = [
            _finding(
                "survives", "no sample, changed or not, makes it raise", self._raised, "keep what could be read instead"
            ),
            _finding(
                "invents-nothing",
                "what a turn shows has happened",
                self._invented,
                "read items by what they say they are",
            ),
            _finding(
                "only-lowers", "a turn makes coverage worse, never better", self._upgrades, "lower it, or declare more"
            ),
        ]
        return [*found, *(self._channel(channel) for channel in CHANNELS)]

    # One sample, changed ----------------------------------------------------------------------------------------

    def _change(self, sample: ConverterSample, channels: Sequence[Channel], truth: Evidence, shown: Evidence) -> None:
        fed: dict[Path, set[Channel]] = {}
        unknown: list[tuple[Variant, Turn]] = []
        for variant in islice(variants(sample.value, stream=sample.stream), MAX_VARIANTS):
            where = f"{sample.name}, {variant.what}"
            turn = self._turn(variant.value, where)
            if turn is None:
                continue
            self._changed += 1
            now = evidence_of(turn)
            if variant.change != "cut":
                self._has_happened(where, truth, now, texts=variant.change != "repeat")
            if variant.change == "unknown":
                unknown.append((variant, turn))
            elif variant.change == "cut":
                self._cut(where, channels, truth, turn)
            else:
                self._items(where, variant, shown, turn)
                if variant.change == "drop":
                    fed.setdefault(variant.place, set()).update(c for c in _FED if now.of(c) != shown.of(c))
        for variant, turn in unknown:
            for channel in fed.get(variant.place, set()) & claims(turn, self._declared):
                self._overclaims[channel].append(f"{sample.name}, {variant.what}: it is still called complete")

    def _cut(self, where: str, channels: Sequence[Channel], truth: Evidence, turn: Turn) -> None:
        for channel in channels:
            wrong = difference(channel, truth, evidence_of(turn))
            if wrong is not None and channel in claims(turn, self._declared):
                self._overclaims[channel].append(f"{where}: {wrong}")

    def _items(self, where: str, variant: Variant, before: Evidence, turn: Turn) -> None:
        """An item twice must not be a call twice. A call without a result, and a result without a call, lower the
        actions of every agent's turn where it is taken in: a converter need not say so."""
        twice = variant.change == "repeat" and len(evidence_of(turn).calls) > len(before.calls)
        if twice and "actions" in claims(turn, self._declared):
            self._overclaims["actions"].append(f"{where}: a call was made twice")

    def _turn(self, value: Any, where: str) -> Turn | None:
        try:
            turn: object = self._convert(copy.deepcopy(value))
        except Exception as error:  # noqa: BLE001 - that a converter raises is what is looked for
            self._raised.append(f"{where}: {type(error).__name__}: {str(error)[:160]}")
            return None
        if not isinstance(turn, Turn):
            self._raised.append(f"{where}: it gave no Turn but {type(turn).__name__}")
            return None
        lowered = turn.evidence_coverage or {}
        for channel in CHANNELS:
            said = lowered.get(channel)
            if said is not None and self._declared[channel].worse_than(said):
                self._upgrades.append(f"{where}: {channel} is {said.level}, declared {self._declared[channel].level}")
        return turn

    def _has_happened(self, where: str, truth: Evidence, shown: Evidence, *, texts: bool = True) -> None:
        wrong = invented(truth, shown, texts=texts)
        if wrong is not None:
            self._invented.append(f"{where}: {wrong}")

    # What is said of a channel ----------------------------------------------------------------------------------

    def _channel(self, channel: Channel) -> Finding:
        says = f"where {channel} is called complete, it shows exactly what happened"
        if self._overclaims[channel]:
            return _finding(
                f"complete-{channel}", says, self._overclaims[channel], f"show it, or lower {channel} and say why"
            )
        if channel not in self._claimed:
            might = self._true[channel] and channel in self._tried
            seen = "it is not called complete" + (", and all of it was there in every sample" if might else "")
            return Finding(check=f"complete-{channel}", says=says, outcome="not checked", seen=seen)
        if channel not in self._tried:
            return Finding(
                check=f"complete-{channel}",
                says=says,
                outcome="not checked",
                seen=f"no sample says anything of {channel}",
                next="add a sample that does",
            )
        return Finding(check=f"complete-{channel}", says=says, outcome="passed")


def _is_told(channel: Channel, sample: ConverterSample) -> bool:
    """Whether a sample says what really was on a channel."""
    return not (channel == "usage" and sample.usage is None) and not (channel == "data" and sample.data is None)


def _finding(check: str, says: str, wrong: Sequence[str], next: str) -> Finding:
    if not wrong:
        return Finding(check=check, says=says, outcome="passed")
    more = f"; and {len(wrong) - MAX_SHOWN:,} more" if len(wrong) > MAX_SHOWN else ""
    return Finding(check=check, says=says, outcome="failed", seen="; ".join(wrong[:MAX_SHOWN]) + more, next=next)
