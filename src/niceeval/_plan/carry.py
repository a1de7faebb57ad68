"""What of a plan need not be run: attempts that were run before, with the same identity, and may stand.

The rules (early exit means that one pass is enough):

* with early exit, an attempt that passed is carried, and the eval's others are not needed;
* without it a sample is all or nothing: carried whole where every attempt of it passed, else drawn again whole;
* a killed run is resumed once: all that it recorded is carried, whatever came out;
* what took longer than the present timeout is run again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from niceeval._plan.identity import changes
from niceeval._plan.plan import AttemptPlan
from niceeval._record.attempt import Attempt
from niceeval._record.runs import Run

Pair: TypeAlias = tuple[str, str]
"""Experiment id and eval id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of one planned attempt: `carried` is the stored result that stands for it, `reason` says why."""

    reason: str
    carried: Attempt | None = None
    needed: bool = True


def decide(
    attempts: Sequence[AttemptPlan],
    fingerprints: Mapping[Pair, str],
    parts: Mapping[Pair, Mapping[str, str]],
    runs: Iterable[Run],
) -> dict[int, Decision]:
    """A decision per attempt index. `runs` newest first; they are read only as far as needed."""
    history = _History(fingerprints, runs)
    pairs: dict[Pair, list[AttemptPlan]] = defaultdict(list)
    for attempt in attempts:
        pairs[attempt.experiment.id, attempt.eval.id].append(attempt)
    decisions: dict[int, Decision] = {}
    for pair, planned in pairs.items():
        sample = history.sample(pair)
        if sample is None:
            reason = history.why_not(pair, parts[pair])
            decisions |= {attempt.index: Decision(reason=reason) for attempt in planned}
        else:
            decisions |= _from_sample(planned, sample)
    return decisions


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    """The newest stored attempts of one (experiment, eval) with the same identity, by attempt number."""

    attempts: Mapping[int, Attempt]
    resumed: bool


class _History:
    """The stored runs, newest first, as far as the plan needs them."""

    def __init__(self, fingerprints: Mapping[Pair, str], runs: Iterable[Run]) -> None:
        self._fingerprints = fingerprints
        self._samples: dict[Pair, _Sample] = {}
        self._newest: dict[Pair, Attempt] = {}
        self._read(runs)

    def sample(self, pair: Pair) -> _Sample | None:
        return self._samples.get(pair)

    def why_not(self, pair: Pair, parts: Mapping[str, str]) -> str:
        """Why nothing of the pair stands: no earlier result, or what has changed since the newest one."""
        newest = self._newest.get(pair)
        if newest is None:
            return "no earlier result"
        old = newest.identity_parts
        if old is None:
            return "changed: identity (not recorded before)"
        changed = changes(old.parts, parts)
        return "changed: " + ("; ".join(changed[:3]) or "identity version")

    def _read(self, runs: Iterable[Run]) -> None:
        missing = set(self._fingerprints)
        finished: set[str] = set()
        for run in runs:
            by_pair: dict[Pair, dict[int, Attempt]] = defaultdict(dict)
            experiments: set[str] = set()
            for attempt in run.attempts:
                pair = (attempt.experiment_id or "", attempt.eval_id)
                experiments.add(pair[0])
                if pair not in self._fingerprints:
                    continue
                self._newest.setdefault(pair, attempt)
                if pair in missing and attempt.fingerprint == self._fingerprints[pair]:
                    by_pair[pair][attempt.attempt] = attempt
            for pair, found in by_pair.items():
                # Only the newest run of an experiment can be one that was killed and not resumed yet.
                resumed = not run.complete and pair[0] not in finished
                self._samples[pair] = _Sample(attempts=found, resumed=resumed)
                missing.discard(pair)
            finished |= experiments
            if not missing:
                return


def _from_sample(planned: Sequence[AttemptPlan], sample: _Sample) -> dict[int, Decision]:
    if sample.resumed:
        return {attempt.index: _resumed(attempt, sample) for attempt in planned}
    early_exit = planned[0].experiment.early_exit
    return _one_pass(planned, sample) if early_exit else _all_or_nothing(planned, sample)


def _resumed(attempt: AttemptPlan, sample: _Sample) -> Decision:
    stored = sample.attempts.get(attempt.attempt)
    return Decision(reason="killed run", carried=stored)


def _one_pass(planned: Sequence[AttemptPlan], sample: _Sample) -> dict[int, Decision]:
    decisions = {attempt.index: _passed_before(attempt, sample) for attempt in planned}
    if any(decision.carried is not None for decision in decisions.values()):
        return {
            index: decision if decision.carried else Decision(reason="passed before", needed=False)
            for index, decision in decisions.items()
        }
    return decisions


def _passed_before(attempt: AttemptPlan, sample: _Sample) -> Decision:
    stored = sample.attempts.get(attempt.attempt)
    if stored is None:
        return Decision(reason="no earlier result")
    if stored.outcome != "passed":
        return Decision(reason=f"{stored.outcome} before")
    late = _too_slow(stored, attempt)
    return Decision(reason=late) if late else Decision(reason="passed before", carried=stored)


def _all_or_nothing(planned: Sequence[AttemptPlan], sample: _Sample) -> dict[int, Decision]:
    own = {attempt.index: _passed_before(attempt, sample) for attempt in planned}
    whole = all(stored.outcome == "passed" for stored in sample.attempts.values())
    slow = any(_too_slow(stored, planned[0]) for stored in sample.attempts.values())
    if whole and not slow:
        return own
    return {
        index: Decision(reason="sample drawn again whole" if decision.carried else decision.reason)
        for index, decision in own.items()
    }


def _too_slow(stored: Attempt, attempt: AttemptPlan) -> str | None:
    if stored.duration_ms <= attempt.timeout * 1000:
        return None
    return f"took {stored.duration_ms / 1000:.0f}s, over timeout {attempt.timeout:g}s"
