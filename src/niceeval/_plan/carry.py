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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from niceeval._plan.identity import Identities, Identity, changes
from niceeval._plan.plan import AttemptPlan, RunPlan
from niceeval._plan.versions import Versions, agent_versions
from niceeval._record.attempt import Attempt
from niceeval._record.reader import runs_newest_first
from niceeval._record.runs import Run


def with_carry(plan: RunPlan, results_dir: Path, *, force: bool) -> RunPlan:
    """The plan with identities, and a decision for every attempt; `force` decides that everything is run."""
    versions = agent_versions(plan.experiments)
    identities = _identities(plan, versions)
    if force:
        decisions = {attempt.index: Decision(reason="--force", forced=True) for attempt in plan.attempts}
    else:
        carriable = {pair: one for pair, one in identities.items() if pair[0] not in versions.unknown}
        decisions = decide(plan.attempts, carriable, runs_newest_first(results_dir))
    return replace(
        plan,
        versions=versions.known,
        identities=identities,
        decisions=decisions,
        warnings=(*plan.warnings, *versions.unknown.values()),
    )


def _identities(plan: RunPlan, versions: Versions) -> dict[Pair, Identity]:
    made = Identities(plan.root, strict=plan.strict)
    found: dict[Pair, Identity] = {}
    for attempt in plan.attempts:
        pair = (attempt.experiment.id, attempt.eval.id)
        if pair not in found:
            found[pair] = made.of(attempt.eval, attempt.experiment, versions.known.get(attempt.experiment.id))
    return found


Pair: TypeAlias = tuple[str, str]
"""Experiment id and eval id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of one planned attempt, and why.

    `carried` is the stored result that stands for it; `needed` is false where early exit makes it unnecessary; `forced`
    says that nothing stored may stand for it.
    """

    reason: str
    carried: Attempt | None = None
    needed: bool = True
    forced: bool = False


def decide(
    attempts: Sequence[AttemptPlan], identities: Mapping[Pair, Identity], runs: Iterable[Run]
) -> dict[int, Decision]:
    """A decision per attempt index. `runs` newest first; they are read only as far as needed.

    What has no identity (its agent could not say its version) is run.
    """
    history = _History({pair: identity.fingerprint for pair, identity in identities.items()}, runs)
    pairs: dict[Pair, list[AttemptPlan]] = defaultdict(list)
    for attempt in attempts:
        pairs[attempt.experiment.id, attempt.eval.id].append(attempt)
    decisions: dict[int, Decision] = {}
    for pair, planned in pairs.items():
        sample = history.sample(pair)
        if pair not in identities:
            decisions |= {attempt.index: Decision(reason="changed: agent version (unknown)") for attempt in planned}
        elif sample is None:
            reason = history.why_not(pair, identities[pair].parts)
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
    early_exit = planned[0].experiment.early_exit
    if sample.resumed:
        return _resumed(planned, sample, early_exit)
    return _one_pass(planned, sample) if early_exit else _all_or_nothing(planned, sample)


def _resumed(planned: Sequence[AttemptPlan], sample: _Sample, early_exit: bool) -> dict[int, Decision]:
    """All that a killed run recorded, whatever came out; what it would have gone on with is run."""
    decided = any(stored.outcome in ("passed", "errored") for stored in sample.attempts.values())
    return {
        attempt.index: Decision(
            reason="killed run",
            carried=sample.attempts.get(attempt.attempt),
            needed=attempt.attempt in sample.attempts or not (early_exit and decided),
        )
        for attempt in planned
    }


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
