"""A run so far, folded from its events: counts, a row per (experiment, eval), and what is running now.

Results are let go as soon as they are counted; what stays is a small row per (experiment, eval).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from niceeval._base.plain_text import shorten
from niceeval._model.result import AttemptResult, Phase, Verdict
from niceeval._model.run_events import (
    AttemptKey,
    BudgetExceeded,
    EarlyExit,
    EvalComplete,
    EvalStart,
    ExperimentFailed,
    ExperimentOutline,
    Interrupted,
    LiveEvent,
    NotStarted,
    Progress,
    RunFinished,
    RunSaved,
    RunStart,
)
from niceeval._reporters.deciding import IndexEntry, index_entry, signature
from niceeval._reporters.figures import Figures

_SIGNATURES_KEPT = 8


@dataclass(slots=True)
class Counts:
    """Finished things by verdict. They are never added up into one word."""

    passed: int = 0
    failed: int = 0
    errored: int = 0
    skipped: int = 0

    def add(self, verdict: Verdict, by: int = 1) -> None:
        """Count one (or `by`) of this verdict."""
        setattr(self, verdict, getattr(self, verdict) + by)

    @property
    def finished(self) -> int:
        """How many there are of any verdict."""
        return self.passed + self.failed + self.errored + self.skipped

    @property
    def judged(self) -> int:
        """The denominator of a pass rate: skipped ones are outside it."""
        return self.passed + self.failed + self.errored

    def fold(self) -> Verdict | None:
        """An eval's verdict from its attempts: any passed, else failed, errored, skipped; None where none finished."""
        verdicts: tuple[Verdict, ...] = ("passed", "failed", "errored", "skipped")
        return next((verdict for verdict in verdicts if getattr(self, verdict)), None)


@dataclass(slots=True)
class Running:
    """An attempt that has left the queue. `started` is this process's clock; `turn` counts from 1."""

    key: AttemptKey
    started: float
    timeout: float
    phase: Phase = "queued"
    turn: int | None = None
    text: str | None = None
    current: float | None = None
    total: float | None = None


@dataclass(slots=True)
class Pair:
    """One eval under one experiment; `said` once its own line was printed. `carried` of its attempts ran earlier."""

    eval_id: str
    order: int
    counts: Counts = field(default_factory=Counts)
    figures: Figures = field(default_factory=Figures)
    cancelled: int = 0
    carried: int = 0
    early_exit: bool = False
    said: bool = False
    failed: IndexEntry | None = None
    errored: IndexEntry | None = None
    skip_reason: str | None = None
    signatures: dict[int, str] = field(default_factory=dict)

    @property
    def entry(self) -> IndexEntry | None:
        """What stands for this eval among those that did not pass."""
        verdict = self.counts.fold()
        return self.failed if verdict == "failed" else self.errored if verdict == "errored" else None

    def complete(self, runs: int) -> bool:
        """Whether nothing more will come of it."""
        return self.counts.finished + self.cancelled >= runs


@dataclass(slots=True)
class Experiment:
    """One experiment of the run; `wall` is the time its attempts took by this process's clock, in seconds.

    `carried` of the finished attempts are results of earlier runs; `figures` are of the others.
    """

    outline: ExperimentOutline
    counts: Counts = field(default_factory=Counts)
    figures: Figures = field(default_factory=Figures)
    pairs: dict[str, Pair] = field(default_factory=dict)
    running: int = 0
    cancelled: int = 0
    not_started: int = 0
    carried: int = 0
    wall: float = 0.0

    def pair(self, eval_id: str) -> Pair:
        """The eval's row, made at its first mention."""
        found = self.pairs.get(eval_id)
        if found is None:
            found = self.pairs[eval_id] = Pair(eval_id, len(self.pairs))
        return found

    @property
    def expected(self) -> int:
        """Attempts that have finished or still can."""
        return self.outline.attempts - self.cancelled - self.not_started

    @property
    def left(self) -> int:
        """Attempts that have not finished and still can."""
        return max(self.expected - self.counts.finished, 0)

    @property
    def ran(self) -> int:
        """Attempts that finished in this run."""
        return self.counts.finished - self.carried

    def evals(self) -> Counts:
        """Evals by folded verdict."""
        counts = Counts()
        for pair in self.pairs.values():
            if verdict := pair.counts.fold():
                counts.add(verdict)
        return counts


@dataclass(frozen=True, slots=True)
class Finished:
    """What an `EvalComplete` or `EarlyExit` changed; `same_as` is an earlier attempt that ended the very same way."""

    experiment: Experiment
    pair: Pair
    same_as: str | None


class RunState:
    """The fold. `apply` takes each event once, with this process's monotonic time."""

    def __init__(self) -> None:
        self.start: RunStart | None = None
        self.began = 0.0
        self.experiments: dict[str, Experiment] = {}
        self.running: dict[AttemptKey, Running] = {}
        self.peak = 0
        self.carried_from: Counter[str] = Counter()
        self.counts = Counts()
        self.figures = Figures()
        self.interrupted = False
        self.saved: RunSaved | None = None
        self.finished: RunFinished | None = None

    def apply(self, event: LiveEvent, now: float) -> Finished | None:
        """Fold one event in; what an attempt's end, or its cancelling, changed is returned."""
        match event:
            case Progress():
                self._progress(event)
            case EvalStart():
                self._eval_start(event, now)
            case EvalComplete():
                return self._eval_complete(event, now)
            case RunStart():
                self._run_start(event, now)
            case EarlyExit():
                return self._early_exit(event)
            case ExperimentFailed():
                self._drop([(event.experiment_id, event.not_started)])
            case BudgetExceeded() | NotStarted():
                self._drop(event.by_experiment)
            case Interrupted():
                self.interrupted = True
            case RunSaved():
                self.saved = event
            case RunFinished():
                self.finished = event
            case _:
                pass
        return None

    def _drop(self, counts: Iterable[tuple[str, int]]) -> None:
        for experiment_id, count in counts:
            self.experiments[experiment_id].not_started += count

    @property
    def carried(self) -> int:
        """Attempts that were taken over from other runs."""
        return self.carried_from.total()

    @property
    def ran(self) -> int:
        """Attempts that finished in this run."""
        return self.counts.finished - self.carried

    @property
    def planned(self) -> int:
        """Attempts of the plan."""
        return 0 if self.start is None else self.start.planned

    @property
    def cancelled(self) -> int:
        """Attempts that early exit made unnecessary."""
        return sum(experiment.cancelled for experiment in self.experiments.values())

    @property
    def not_started(self) -> int:
        """Attempts that will not be started any more."""
        return sum(experiment.not_started for experiment in self.experiments.values())

    @property
    def expected(self) -> int:
        """Attempts that have finished or still can."""
        return self.planned - self.cancelled - self.not_started

    @property
    def queued(self) -> int:
        """Attempts that still wait for their turn."""
        return max(self.expected - self.counts.finished - len(self.running), 0)

    def longest_first(self) -> list[Running]:
        """What is running, the longest on top."""
        return sorted(self.running.values(), key=lambda running: running.started)

    def pairs(self) -> Iterator[tuple[Experiment, Pair]]:
        """Every (experiment, eval) that finished an attempt, in plan order where that is known."""
        for experiment in self.experiments.values():
            for pair in experiment.pairs.values():
                if pair.counts.finished:
                    yield experiment, pair

    def evals(self) -> Counts:
        """Evals by folded verdict, over all experiments."""
        counts = Counts()
        for _, pair in self.pairs():
            if verdict := pair.counts.fold():
                counts.add(verdict)
        return counts

    def _run_start(self, event: RunStart, now: float) -> None:
        self.start, self.began = event, now
        self.experiments = {outline.id: Experiment(outline) for outline in event.experiments}

    def _eval_start(self, event: EvalStart, now: float) -> None:
        experiment = self.experiments[event.key.experiment_id]
        experiment.pair(event.key.eval_id)
        experiment.running += 1
        self.running[event.key] = Running(event.key, now, event.timeout)
        self.peak = max(self.peak, len(self.running))

    def _progress(self, event: Progress) -> None:
        running = self.running.get(event.key)
        if running is None:
            return
        if event.phase != running.phase or event.turn != running.turn:
            running.phase, running.turn, running.text = event.phase, event.turn, None
        if event.text is not None:
            running.text, running.current, running.total = event.text, event.current, event.total

    def _eval_complete(self, event: EvalComplete, now: float) -> Finished:
        result = event.result
        experiment = self.experiments[event.key.experiment_id]
        pair = experiment.pair(event.key.eval_id)
        running = self.running.pop(event.key, None)
        if running is not None:
            experiment.running -= 1
            experiment.wall += now - running.started
        for counts in (self.counts, experiment.counts, pair.counts):
            counts.add(result.outcome)
        pair.figures.add(result)
        if result.carried_from is None:
            self.figures.add(result)
            experiment.figures.add(result)
        else:
            self.carried_from[result.carried_from.run] += 1
            experiment.carried += 1
            pair.carried += 1
        return Finished(experiment, pair, _remember(pair, experiment.outline.id, result))

    def _early_exit(self, event: EarlyExit) -> Finished:
        experiment = self.experiments[event.experiment_id]
        pair = experiment.pair(event.eval_id)
        pair.early_exit = bool(event.cancelled)
        for attempt in event.cancelled:
            running = self.running.pop(AttemptKey(event.experiment_id, event.eval_id, attempt), None)
            experiment.running -= running is not None
        pair.cancelled += len(event.cancelled)
        experiment.cancelled += len(event.cancelled)
        return Finished(experiment, pair, None)


def _remember(pair: Pair, experiment_id: str, result: AttemptResult) -> str | None:
    """Note what is needed of it at the end. Returns the locator of an attempt that ended the very same way."""
    if result.outcome == "passed":
        return None
    if result.outcome == "skipped":
        pair.skip_reason = pair.skip_reason or shorten(result.skip_reason or "", 200)
        return None
    if getattr(pair, result.outcome) is None:
        setattr(pair, result.outcome, index_entry(experiment_id, result))
    return _same_as(pair, result)


def _same_as(pair: Pair, result: AttemptResult) -> str | None:
    key = signature(result)
    earlier = pair.signatures.get(key)
    if earlier is None and result.locator and len(pair.signatures) < _SIGNATURES_KEPT:
        pair.signatures[key] = result.locator
    return earlier
