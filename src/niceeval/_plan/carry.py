"""What of a plan need not be run: attempts that were run before, with the same identity, and may stand.

The rules (early exit means that one pass is enough):

* with early exit, an attempt that passed is carried, and the eval's others are not needed;
* without it a sample is all or nothing: carried whole where every attempt of it passed, else drawn again whole;
* a killed run is resumed once: all that it recorded is carried, whatever came out;
* so is what an invocation has sealed that overlaps with this one;
* what took longer than the present timeout, ran in a reused sandbox, or has read a file that has changed since, is run
  again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from niceeval._base.clock import utc_text
from niceeval._base.errors import NiceevalError, ResultsError
from niceeval._base.file_reads import Digests, watched
from niceeval._plan.identity import Identities, Identity
from niceeval._plan.plan import AttemptPlan, Looked, RunPlan
from niceeval._plan.reads import MAX_NAMED, changes_since, reason_of, why_stale
from niceeval._plan.versions import Versions, agent_versions
from niceeval._record.attempt import Attempt
from niceeval._record.claims import live_runs
from niceeval._record.reader import complete_runs, runs_newest_first
from niceeval._record.runs import Run, Skipped


def with_carry(plan: RunPlan, results_dir: Path, *, force: bool, since: str | None = None) -> RunPlan:
    """The plan with identities, and a decision for every attempt; `force` decides that everything is run.

    `since` is when this invocation began (UTC ISO text; now by default): runs that ended later overlap with it.
    """
    versions = agent_versions(plan.experiments)
    plan = replace(
        plan,
        versions=versions.known,
        identities=_identities(plan, versions),
        warnings=(*plan.warnings, *versions.unknown.values()),
    )
    if force:
        decisions = {attempt.index: Decision(reason="--force", forced=True) for attempt in plan.attempts}
        return replace(plan, decisions=decisions)
    return _decided(plan, results_dir, since or utc_text(), frozenset(versions.unknown))


def looked_again(plan: RunPlan, results_dir: Path) -> RunPlan:
    """The plan, decided anew where runs have ended, or have begun, since it was decided."""
    looked = plan.looked
    if looked is None or (complete_runs(results_dir) == looked.complete and not live_runs(results_dir)):
        return plan
    return _decided(plan, results_dir, looked.since, looked.unknown)


def _decided(plan: RunPlan, results_dir: Path, since: str, unknown: frozenset[str]) -> RunPlan:
    # Before the results are read: what is sealed in between is found by looking again.
    looked = Looked(since=since, complete=complete_runs(results_dir), unknown=unknown)
    carriable = {pair: one for pair, one in plan.identities.items() if pair[0] not in unknown}
    skipped: list[Skipped] = []
    decisions = decide(
        plan.attempts,
        carriable,
        runs_newest_first(results_dir, skipped.append),
        root=plan.root,
        live=live_runs(results_dir),
        since=since,
    )
    warnings = [one for one in plan.warnings if one.code != "unreadable"]
    return replace(plan, decisions=decisions, looked=looked, warnings=(*warnings, *_unreadable(skipped)))


def _unreadable(skipped: Iterable[Skipped]) -> list[NiceevalError]:
    """Results that are there, could not be read, and are therefore run again."""
    found = [one for one in skipped if one.kind == "unreadable"]
    named: list[NiceevalError] = [ResultsError("unreadable", path=one.path, problem=one.problem) for one in found]
    more = len(named) - MAX_NAMED
    if more <= 0:
        return named
    rest = ResultsError("unreadable", path=f"{more} more", problem="results that cannot be read")
    return [*named[:MAX_NAMED], rest]


def _identities(plan: RunPlan, versions: Versions) -> dict[Pair, Identity]:
    made = Identities(
        plan.root,
        strict=plan.strict,
        pricing=plan.config.pricing,
        shared_sandbox=plan.config.sandbox,
        shared_judge=plan.config.judge,
    )
    found: dict[Pair, Identity] = {}
    for attempt in plan.attempts:
        pair = (attempt.experiment.id, attempt.eval.id)
        if pair not in found:
            found[pair] = made.of(attempt.eval, attempt.experiment, versions.known.get(attempt.experiment.id))
    reads = watched(plan.root)
    if reads is not None:
        reads.end_loading()
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
    attempts: Sequence[AttemptPlan],
    identities: Mapping[Pair, Identity],
    runs: Iterable[Run],
    *,
    root: Path,
    live: Collection[str] = (),
    since: str | None = None,
) -> dict[int, Decision]:
    """A decision per attempt index. `runs` newest first; they are read only as far as needed.

    What has no identity (its agent could not say its version) is run. `live` are the names of runs that are under way;
    those that ended after `since` overlap as well.
    """
    fingerprints = {pair: identity.fingerprint for pair, identity in identities.items()}
    history = _History(fingerprints, _Overlap(frozenset(live), since), root)
    history.read(runs)
    pairs: dict[Pair, list[AttemptPlan]] = defaultdict(list)
    for attempt in attempts:
        pairs[attempt.experiment.id, attempt.eval.id].append(attempt)
    decisions: dict[int, Decision] = {}
    for pair, planned in pairs.items():
        sample = history.sample(pair)
        if pair not in identities:
            decisions |= {attempt.index: Decision(reason="changed: agent version (unknown)") for attempt in planned}
        elif sample is None:
            reason = history.why_not(pair, identities[pair])
            decisions |= {attempt.index: Decision(reason=reason) for attempt in planned}
        else:
            decisions |= _from_sample(planned, sample)
    return decisions


@dataclass(frozen=True, slots=True)
class _Overlap:
    """Which runs overlap in time with this invocation."""

    live: frozenset[str]
    since: str | None

    def holds(self, run: Run) -> bool:
        if run.name in self.live:
            return True
        return run.complete and None not in (self.since, run.completed_at) and str(run.completed_at) > str(self.since)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    """Stored attempts of one (experiment, eval) with the same identity, by attempt number.

    They are the newest run's that has any. `adopted`: attempt number -> why it stands whatever came out; such attempts
    may come from several runs, one of which took over what another had recorded when it was killed itself. `stale`:
    attempt number -> why it does not stand: files that it read have changed.
    """

    attempts: dict[int, Attempt]
    stale: dict[int, str] = field(default_factory=dict)
    adopted: dict[int, str] = field(default_factory=dict)

    def took_over_from(self, older: Mapping[int, Attempt]) -> bool:
        """Whether the run that is resumed was taking these attempts over when it ended: then the rest stands too."""
        identities = {stored.identity for stored in older.values()}
        return any(self.attempts[number].identity in identities for number in self.adopted)


class _History:
    """The stored runs, newest first, as far as the plan needs them."""

    def __init__(self, fingerprints: Mapping[Pair, str], overlap: _Overlap, root: Path) -> None:
        self._root = root
        self._digests = Digests(root)
        self._fingerprints = fingerprints
        self._overlap = overlap
        self._samples: dict[Pair, _Sample] = {}
        self._newest: dict[Pair, Attempt] = {}
        self._finished: set[str] = set()
        self._open = set(fingerprints)

    def sample(self, pair: Pair) -> _Sample | None:
        return self._samples.get(pair)

    def why_not(self, pair: Pair, identity: Identity) -> str:
        """Why nothing of the pair stands: no earlier result, or what has changed since the newest one."""
        newest = self._newest.get(pair)
        if newest is None:
            return "no earlier result"
        try:
            old = newest.identity_parts
        except ResultsError:
            old = None
        if old is None:
            return "changed: identity (not recorded before)"
        if newest.fingerprint == identity.fingerprint and _was_reused(newest):
            return "ran in a reused sandbox"
        return reason_of(changes_since(old, identity, self._root) or ["identity version"])

    def read(self, runs: Iterable[Run]) -> None:
        for run in runs:
            if not self._open:
                return
            self._add(run)

    def _add(self, run: Run) -> None:
        experiments = {attempt.experiment_id or "" for attempt in run.attempts}
        for pair, found in self._fitting(run).items():
            why = self._adopts(run, pair[0])
            sample = self._samples.get(pair)
            stale = self._without_stale(found)
            if not found:
                # An older run may have read the files as they are now.
                continue
            if sample is None:
                adopted = dict.fromkeys(found, why) if why else {}
                self._samples[pair] = _Sample(attempts=found, stale=stale, adopted=adopted)
            elif why or sample.took_over_from(found):
                reason = why or next(iter(sample.adopted.values()))
                for number in found.keys() - sample.attempts.keys():
                    sample.attempts[number], sample.adopted[number] = found[number], reason
            if not why:
                self._open.discard(pair)
        if not run.resumable:
            # Whatever was killed before this run was resumed by it, once.
            self._finished |= experiments
            self._open -= {pair for pair in self._samples if pair[0] in self._finished}

    def _fitting(self, run: Run) -> dict[Pair, dict[int, Attempt]]:
        """The run's attempts of open pairs that have the same identity."""
        found: dict[Pair, dict[int, Attempt]] = defaultdict(dict)
        for attempt in run.attempts:
            pair = (attempt.experiment_id or "", attempt.eval_id)
            if pair in self._open:
                self._newest.setdefault(pair, attempt)
                if attempt.fingerprint == self._fingerprints[pair] and not _was_reused(attempt):
                    found[pair][attempt.attempt] = attempt
        return found

    def _without_stale(self, found: dict[int, Attempt]) -> dict[int, str]:
        """Take out the attempts that read what has changed since, and say why."""
        stale = {number: why for number, one in found.items() if (why := why_stale(one, self._digests)) is not None}
        for number in stale:
            del found[number]
        return stale

    def _adopts(self, run: Run, experiment_id: str) -> str | None:
        """Why all that a run recorded of an experiment stands; None where the ordinary rules hold."""
        if self._overlap.holds(run):
            return "sealed by an overlapping run"
        return "killed run" if run.resumable and experiment_id not in self._finished else None


def _was_reused(attempt: Attempt) -> bool:
    """Whether its sandbox had been another attempt's, which may have left something in it. In doubt it was."""
    try:
        return attempt.sandbox is not None and attempt.sandbox.reused
    except ResultsError:
        return True


def _from_sample(planned: Sequence[AttemptPlan], sample: _Sample) -> dict[int, Decision]:
    early_exit = planned[0].experiment.early_exit
    if sample.adopted:
        return _adopted(planned, sample, early_exit)
    return _one_pass(planned, sample) if early_exit else _all_or_nothing(planned, sample)


def _adopted(planned: Sequence[AttemptPlan], sample: _Sample, early_exit: bool) -> dict[int, Decision]:
    """All that was recorded, whatever came out; what the other run would have gone on with is run."""
    decisions: dict[int, Decision] = {}
    for attempt in planned:
        stored = sample.attempts.get(attempt.attempt)
        late = None if stored is None else _too_slow(stored, attempt)
        if stored is None or late:
            decisions[attempt.index] = Decision(reason=late or sample.stale.get(attempt.attempt, "no earlier result"))
        else:
            decisions[attempt.index] = Decision(reason=sample.adopted[attempt.attempt], carried=stored)
    return _without_unneeded(decisions) if early_exit else decisions


def _one_pass(planned: Sequence[AttemptPlan], sample: _Sample) -> dict[int, Decision]:
    return _without_unneeded({attempt.index: _passed_before(attempt, sample) for attempt in planned})


def _without_unneeded(decisions: dict[int, Decision]) -> dict[int, Decision]:
    """Early exit: a pass or an error that is carried makes every attempt unnecessary that is not carried itself."""
    outcomes = {decision.carried.outcome for decision in decisions.values() if decision.carried is not None}
    reason = next((f"{outcome} before" for outcome in ("passed", "errored") if outcome in outcomes), None)
    if reason is None:
        return decisions
    return {
        index: decision if decision.carried is not None else Decision(reason=reason, needed=False)
        for index, decision in decisions.items()
    }


def _passed_before(attempt: AttemptPlan, sample: _Sample) -> Decision:
    stored = sample.attempts.get(attempt.attempt)
    if stored is None:
        return Decision(reason=sample.stale.get(attempt.attempt, "no earlier result"))
    if stored.outcome != "passed":
        return Decision(reason=f"{stored.outcome} before")
    late = _too_slow(stored, attempt)
    return Decision(reason=late) if late else Decision(reason="passed before", carried=stored)


def _all_or_nothing(planned: Sequence[AttemptPlan], sample: _Sample) -> dict[int, Decision]:
    own = {attempt.index: _passed_before(attempt, sample) for attempt in planned}
    whole = not sample.stale and all(stored.outcome == "passed" for stored in sample.attempts.values())
    slow = any(_too_slow(stored, planned[0]) for stored in sample.attempts.values())
    if whole and not slow:
        return own
    return {
        index: Decision(reason="sample drawn again whole" if decision.carried else decision.reason)
        for index, decision in own.items()
    }


def _too_slow(stored: Attempt, attempt: AttemptPlan) -> str | None:
    """Why a pass does not stand; other outcomes say nothing of how long a pass takes."""
    spent = stored.duration_ms - _judged_ms(stored)
    if stored.outcome != "passed" or spent <= attempt.timeout * 1000:
        return None
    return f"took {spent / 1000:.0f}s, over timeout {attempt.timeout:g}s"


def _judged_ms(stored: Attempt) -> int:
    """What judging took, which comes after the timeout and waits for other attempts' judgements."""
    try:
        return stored.phases.get("judge", 0)
    except ResultsError:
        return 0
