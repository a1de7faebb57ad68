"""What happens during a run, as typed values: all that reporters and the board see of the runner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from niceeval._base.errors import NiceevalError
from niceeval._model.result import AttemptResult, Phase
from niceeval._model.usage import Usage


@dataclass(frozen=True, slots=True)
class AttemptKey:
    """One planned attempt; `attempt` counts from 0."""

    experiment_id: str
    eval_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentOutline:
    """What a reporter needs to know of an experiment before it runs."""

    id: str
    agent: str
    model: str | None
    evals: int
    runs: int
    early_exit: bool
    timeout: float
    attempts: int
    budget: float | None = None
    agent_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    """`run:start`: the plan is frozen. `problems` are files that did not load; the rest runs.

    `carried` of the `planned` attempts are taken over from earlier runs. `budget` is the whole run's, in US dollars.
    `root` is the project's folder and `folder` the run's, both absolute; empty where nothing is stored.
    """

    run: str
    title: str
    planned: int
    concurrency: int
    experiments: tuple[ExperimentOutline, ...]
    problems: tuple[NiceevalError, ...] = ()
    carried: int = 0
    budget: float | None = None
    root: str = ""
    folder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalStart:
    """`eval:start`: an attempt left the queue."""

    key: AttemptKey
    started_at: str
    timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalComplete:
    """`eval:complete`: an attempt is sealed and stored (`stored` is false where writing it failed).

    One that was taken over from another run has `result.carried_from`, and no `eval:start` came before.
    """

    key: AttemptKey
    result: AttemptResult
    stored: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyExit:
    """`run:earlyExit`: an outcome made the eval's other attempts unnecessary."""

    experiment_id: str
    eval_id: str
    after: Literal["passed", "errored"]
    cancelled: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentFailed:
    """`run:experimentFailed`: an experiment's setup or teardown failed; `not_started` attempts were not dispatched."""

    experiment_id: str
    error: NiceevalError
    not_started: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetExceeded:
    """`run:budgetExceeded`: a budget lets no further attempt start. Amounts in US dollars.

    `experiment_id` is None for the whole run's budget. `spent` + `reserved`, what one more attempt would have reserved,
    pass the budget; or `error` (`budget-unenforceable`) says why the limit cannot be kept: the first attempt that sent
    anything has no cost. `by_experiment` says where the `not_started` attempts are: experiment id and count.
    """

    experiment_id: str | None
    budget: float
    spent: float
    reserved: float
    not_started: int
    error: NiceevalError | None = None
    by_experiment: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStarted:
    """`run:notStarted`: attempts that would die of the same cause as one that did; its error's `code` and `message`.

    `eval_id` None: all evals of the experiment; `experiment_id` None: the eval under every experiment. `by_experiment`
    says where the attempts are: experiment id and count.
    """

    experiment_id: str | None
    eval_id: str | None
    count: int
    code: str
    message: str
    by_experiment: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNotice:
    """`run:notice`: something about the run itself (a blocked loop, an abandoned guest, a reporter that raised)."""

    code: str
    level: Literal["info", "warning", "error"]
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """`run:interrupted`: the first Ctrl-C or SIGTERM; `cancelled` attempts are being torn down."""

    cancelled: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSaved:
    """`run:saved`: `summary.json` is written."""

    run: str
    output_dir: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
    """`run:summary`: the last event. `finished + not_started + cancelled == planned`; attempts are counted apart.

    Carried attempts are finished ones; `carried` says how many. `not_started_why` sums up `not_started` by reason.
    `usage` and `estimated_cost_usd` are of what this run itself sent; the cost is None where some of it is not known.
    `judge_usage` and `judge_cost_usd` are judging's own, likewise.
    """

    status: Literal["passed", "failed", "errored", "incomplete", "interrupted"]
    exit_code: int
    planned: int
    passed: int
    failed: int
    errored: int
    skipped: int
    not_started: int
    cancelled: int
    duration_ms: int
    carried: int = 0
    not_started_why: tuple[tuple[str, int], ...] = ()
    usage: Usage | None = None
    estimated_cost_usd: float | None = None
    judge_usage: Usage | None = None
    judge_cost_usd: float | None = None
    problems: tuple[NiceevalError, ...] = ()


RunEvent: TypeAlias = (
    RunStart
    | EvalStart
    | EvalComplete
    | EarlyExit
    | ExperimentFailed
    | BudgetExceeded
    | NotStarted
    | RunNotice
    | Interrupted
    | RunSaved
    | RunFinished
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Live display only, never stored: what a running attempt is doing now. `turn` counts from 1."""

    key: AttemptKey
    phase: Phase
    turn: int | None = None
    text: str | None = None
    current: float | None = None
    total: float | None = None


LiveEvent: TypeAlias = RunEvent | Progress
