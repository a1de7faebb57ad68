"""The sandboxes of a run: a backend is opened once for each spec, and every attempt gets one and gives it back.

What a run has made is ended whatever happens: by the attempt that had it, at the end of the experiment, or at the end
of the run. What a killed run leaves behind is found by its labels (`_sandbox/leftovers.py`).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import Any, Literal, TypeAlias

from niceeval._base.arguments import argument_place
from niceeval._base.errors import NiceevalError, ProjectError, SandboxError, SandboxUnavailableError
from niceeval._base.guest import GuestHost, GuestScope, GuestTimeout
from niceeval._base.plain_text import clean_text
from niceeval._discover.specs import ExperimentSpec
from niceeval._drive.faults import error_text
from niceeval._model.result import Verdict
from niceeval._model.run_events import LiveEvent, RunNotice
from niceeval._model.sandbox import SandboxRequest, SandboxSpec
from niceeval._plan.plan import AttemptPlan
from niceeval._run.leases import Lease, Maker, Standing
from niceeval._run.limits import Limits
from niceeval._run.warm import WarmPool
from niceeval._sandbox.labels import labels_of
from niceeval._sandbox.leftovers import remove_leftovers
from niceeval._sandbox.opening import open_spec, spec_key

SPARE = 300.0
"""Seconds that a sandbox may be needed beyond its attempt's timeout: judging, the diff, the teardown, its own end."""
KEPT_FOR = 24 * 3600.0
"""Seconds for which a sandbox that was kept is left alone by other runs."""
REUSES = 8
"""Attempts for which the time of a sandbox that is handed on is measured."""
SAY_AFTER = 2.0
"""Seconds of opening a backend after which it is said."""
MAX_NAMED = 5

Keep: TypeAlias = Literal["failed", "all"]


class _Opened:
    """A spec's backend, and what of it is ready."""

    def __init__(self, maker: Maker, pool: WarmPool) -> None:
        self.maker = maker
        self.pool = pool


class Sandboxes:
    """Sandboxes for attempts. `waiting(ids)` says how many attempts of these experiments are still to start."""

    def __init__(
        self,
        experiments: Iterable[ExperimentSpec],
        timeouts: Iterable[AttemptPlan],
        *,
        run: str,
        host: GuestHost,
        limits: Limits,
        emit: Callable[[LiveEvent], None],
        waiting: Callable[[frozenset[str]], int],
        keep: Keep | None = None,
    ) -> None:
        self._run = run
        self._host = host
        self._limits = limits
        self._emit = emit
        self._waiting = waiting
        self._keep = keep
        self._users: defaultdict[str, set[str]] = defaultdict(set)
        self._ahead: dict[str, int] = {}
        self._timeouts: defaultdict[str, float] = defaultdict(float)
        self._keys: dict[str, str] = {}
        for experiment in experiments:
            if experiment.sandbox is not None:
                key = self._keys[experiment.id] = spec_key(experiment.sandbox)
                self._users[key].add(experiment.id)
                self._ahead[key] = max(self._ahead.get(key, 0), experiment.sandbox.warm_pool)
        for attempt in timeouts:
            timed = self._keys.get(attempt.experiment.id, "")
            self._timeouts[timed] = max(self._timeouts[timed], attempt.timeout)
        self._opening: dict[str, asyncio.Task[_Opened]] = {}
        self._opened: dict[str, _Opened] = {}
        self._idle: defaultdict[str, list[Lease]] = defaultdict(list)
        self._looking: set[asyncio.Task[None]] = set()
        self._closed = False
        self._interrupted = False

    # Opening ----------------------------------------------------------------------------------------------------

    async def open(self, experiment: ExperimentSpec) -> NiceevalError | None:
        """Open the experiment's backend, where it has one; the error where it cannot be."""
        spec = experiment.sandbox
        if spec is None:
            return None
        key = self._keys[experiment.id]
        task = self._opening.get(key)
        if task is None:
            task = self._opening[key] = asyncio.create_task(self._open(spec, key), name=f"niceeval-open-{spec.name}")
        try:
            await asyncio.wait({task})
            self._opened[key] = task.result()
        except asyncio.CancelledError:
            return ProjectError("experiment-setup-failed", experiment=experiment.id, error="interrupted")
        except SandboxError as error:
            return _at(error, experiment)
        self._fill(self._opened[key])
        return None

    async def _open(self, spec: SandboxSpec, key: str) -> _Opened:
        said = asyncio.get_running_loop().call_later(SAY_AFTER, self._say_opening, spec)
        scope = GuestScope(self._host, f"opening {spec.shown}")
        try:
            backend = await scope.call("open", self._limits.sandbox_open, open_spec, spec)
        except (asyncio.CancelledError, SandboxError):
            raise
        except GuestTimeout as timeout:
            raise _unavailable(spec, f"it was not ready within {timeout.limit:g}s") from None
        except BaseException as error:  # noqa: BLE001 - a backend is a guest
            raise _unavailable(spec, error_text(error)) from None
        finally:
            said.cancel()
        maker = Maker(spec, backend, self._host, self._limits)
        warning = maker.description.get("warning")
        if isinstance(warning, str) and warning:
            message = f"{spec.shown}: {clean_text(warning, 500)[0]}"
            self._emit(RunNotice(code="sandbox-warning", level="warning", message=message))
        looking = asyncio.create_task(self._remove_leftovers(maker), name=f"niceeval-leftovers-{spec.name}")
        self._looking.add(looking)
        looking.add_done_callback(self._looking.discard)
        users = frozenset(self._users[key])
        pool = WarmPool(
            maker,
            self._host,
            self._ahead[key],
            wanted=lambda: self._waiting(users) - sum(len(self._idle[user]) for user in users),
            request=lambda: self._request(2 * (self._timeouts[key] + SPARE)),
        )
        return _Opened(maker, pool)

    def _say_opening(self, spec: SandboxSpec) -> None:
        message = f"preparing the sandbox {spec.shown}; its attempts start when it is ready"
        self._emit(RunNotice(code="sandbox-opening", level="info", message=message))

    async def _remove_leftovers(self, maker: Maker) -> None:
        """What killed runs have left on this backend. It holds nothing up, and what goes wrong changes no result."""
        if getattr(maker.backend, "standing", None) is None:
            return
        scope = GuestScope(self._host, f"leftovers of {maker.spec.name}")
        try:
            removed = await scope.call("leftovers", self._limits.sandbox_leftovers, remove_leftovers, maker.backend)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - a backend is a guest
            said = f"not looked through: {error.message() if isinstance(error, NiceevalError) else error_text(error)}"
            self._emit(RunNotice(code="sandbox-leftovers", level="warning", message=f"{maker.spec.name}: {said}"))
            return
        if removed.gone:
            many = "1 sandbox" if len(removed.gone) == 1 else f"{len(removed.gone)} sandboxes"
            message = f"removed {many} that ended runs had left on {maker.spec.name}"
            self._emit(RunNotice(code="sandbox-leftovers", level="info", message=message))
        for standing, why in removed.failed[:MAX_NAMED]:
            message = f"{maker.spec.name} {standing.sandbox_id} is left over and cannot be removed: {why}"
            self._emit(RunNotice(code="sandbox-leftovers", level="warning", message=clean_text(message, 500)[0]))

    # Taking and giving back -------------------------------------------------------------------------------------

    async def take(self, attempt: AttemptPlan, scope: GuestScope) -> Lease:
        """A sandbox for an attempt: one that another has given back, one that was started ahead, or a new one.

        To be called within the attempt's own guest call, whose end it keeps. Raises GuestTimeout, and whatever the
        backend raises.
        """
        experiment = attempt.experiment
        opened = self._opened[self._keys[experiment.id]]
        needed = attempt.timeout + SPARE
        standing = self._idle_one(experiment.id, opened, needed)
        if standing is None:
            standing = await opened.pool.take(needed)
        if standing is None:
            lifetime = needed * (REUSES if experiment.reuse_sandboxes else 1)
            standing = await opened.maker.make(self._request(lifetime, attempt), scope)
        # In a context of its own: this runs within a guest, and what is started ahead is nobody's.
        loop = asyncio.get_running_loop()
        loop.call_soon_threadsafe(self._fill, opened, context=Context())
        lease = opened.maker.lease(standing, attempt.eval.diff, reusable=experiment.reuse_sandboxes)
        standing.used = True
        return lease

    def _idle_one(self, experiment_id: str, opened: _Opened, needed: float) -> Standing | None:
        idle = self._idle[experiment_id]
        while idle:
            standing = idle.pop().standing
            if standing.lasts(needed):
                return standing
            opened.maker.end_later(standing)
        return None

    async def give_back(
        self, lease: Lease, attempt: AttemptPlan, label: str, *, verdict: Verdict | None, clean: bool
    ) -> str | None:
        """The attempt is over. `verdict` is None where it has none; `clean` says that nothing is in doubt.

        Returns why the sandbox may still stand; None where it is gone, kept, or handed on.
        """
        experiment = attempt.experiment
        maker = self._opened[self._keys[experiment.id]].maker
        lease.held.end()
        is_kept = verdict is not None and (
            self._keep == "all" or (self._keep == "failed" and verdict in ("failed", "errored"))
        )
        if is_kept:
            lease.kept = True
            return None
        wanted = clean and experiment.reuse_sandboxes and self._is_wanted(experiment.id)
        if wanted and await maker.ready_again(lease, label):
            self._idle[experiment.id].append(lease)
            return None
        return await maker.end(lease.standing, label)

    def _is_wanted(self, experiment_id: str) -> bool:
        return not self._closed and self._waiting(frozenset({experiment_id})) > len(self._idle[experiment_id])

    def _request(self, lifetime: float, attempt: AttemptPlan | None = None) -> SandboxRequest:
        """`attempt` is None for one that is started ahead."""
        keep = self._keep is not None
        if keep:
            lifetime = max(lifetime, KEPT_FOR)
        handed_on = attempt is None or attempt.experiment.reuse_sandboxes
        labels = labels_of(
            run=self._run,
            lifetime=lifetime,
            experiment=None if attempt is None else attempt.experiment.id,
            attempt=None if attempt is None or handed_on else f"{attempt.eval.id}#{attempt.attempt + 1}",
            kept=keep,
        )
        return SandboxRequest(labels=labels, lifetime=lifetime, keep=keep)

    def _fill(self, opened: _Opened) -> None:
        if not self._closed:
            opened.pool.fill()

    # The end ----------------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Start nothing more, and give up what is being opened or started ahead."""
        self._interrupted = True
        self._stop_starting()

    def _stop_starting(self) -> None:
        self._closed = True
        for task in self._opening.values():
            task.cancel()
        for opened in self._opened.values():
            opened.pool.stop_filling()

    async def experiment_over(self, experiment_id: str) -> None:
        """No attempt of it will start any more: what was to be handed on is ended."""
        idle = self._idle.pop(experiment_id, [])
        if idle:
            maker = self._opened[self._keys[experiment_id]].maker
            await asyncio.gather(*(maker.end(lease.standing, "reused sandbox") for lease in idle))

    async def close(self) -> None:
        """End all that still stands, say what could not be ended and what was kept, and close the backends."""
        self._stop_starting()
        for experiment_id in list(self._idle):
            await self.experiment_over(experiment_id)
        for opened in self._opened.values():
            await opened.pool.drain()
            await opened.maker.ended()
        if self._looking:
            patience = self._limits.grace if self._interrupted else self._limits.sandbox_stop
            await asyncio.wait(set(self._looking), timeout=patience)
        for task in self._looking:
            task.cancel()
        for opened in self._opened.values():
            await self._close_backend(opened.maker)
        self._say_left()

    async def _close_backend(self, maker: Maker) -> None:
        scope = GuestScope(self._host, f"closing {maker.spec.name}")
        try:
            await scope.call("close", self._limits.sandbox_stop, maker.backend.close)
        except BaseException as error:  # noqa: BLE001 - a backend is a guest; the sandboxes were ended before
            message = f"{maker.spec.name}: closing it: {error_text(error)}"
            self._emit(RunNotice(code="sandbox-warning", level="warning", message=message))

    def _say_left(self) -> None:
        for opened in self._opened.values():
            left, name = opened.maker.unremoved, opened.maker.spec.name
            for id, why in left[:MAX_NAMED]:
                message = (
                    f"{name} {id} may still stand: {why}; `niceeval sandbox prune` removes it once this run is over"
                )
                self._emit(RunNotice(code="sandbox-left", level="error", message=message))
            if len(left) > MAX_NAMED:
                message = f"{name}: {len(left) - MAX_NAMED} more may still stand"
                self._emit(RunNotice(code="sandbox-left", level="error", message=message))


def _at(error: SandboxError, experiment: ExperimentSpec) -> SandboxError:
    """The same error at the experiment's own place: several may share one backend."""
    fields: dict[str, Any] = dict(error.fields)
    place = argument_place(experiment.place, "sandbox")
    return type(error)(error.code, place=place, frames=error.frames, next_step=error.next_step(), **fields)


def _unavailable(spec: SandboxSpec, problem: str) -> SandboxUnavailableError:
    return SandboxUnavailableError(
        "sandbox-unavailable",
        backend=spec.name,
        problem=problem,
        fix="look at what it said, and run again when it is ready",
    )
