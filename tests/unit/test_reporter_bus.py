"""The bus: everybody is told in order, and nobody who is told can hold up the run or its end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from niceeval._model.run_events import EarlyExit, EvalComplete, EvalStart, LiveEvent, Progress, RunNotice
from niceeval._reporters.bus import BEHIND, Limits, ReporterBus, Route, routes
from niceeval._reporters.lane import PROGRESS_KEPT
from tests.unit.result_builders import a_result, a_run, a_start, completed, key_of, saved, started, the_end

QUICK = Limits(event=0.05, last_event=0.05, end=0.3)
RESULTS = [a_result(eval_id=f"sql/{number:04d}") for number in range(3)]


class Recorder:
    """Keeps what it is told; `gate` holds it at its first event."""

    def __init__(self, gate: threading.Event | None = None) -> None:
        self.events: list[LiveEvent] = []
        self.closed = 0
        self._gate = gate

    def handle(self, event: LiveEvent) -> None:
        if self._gate is not None:
            self._gate.wait()
        self.events.append(event)

    def close(self) -> None:
        self.closed += 1


def told(reporters: Sequence[Any], events: Sequence[LiveEvent], **options: Any) -> Recorder:
    """Tell a bus everything and close it; gives what its console was told."""
    console = Recorder()
    bus = ReporterBus(
        console,
        [reporter if isinstance(reporter, Route) else Route(reporter) for reporter in reporters],
        **{"redact": lambda text: text, "limits": QUICK, **options},
    )
    for event in events:
        bus.emit(event)
    bus.close()
    return console


def notices(console: Recorder) -> list[tuple[str, str]]:
    return [(event.code, event.message) for event in console.events if isinstance(event, RunNotice)]


def test_every_reporter_is_told_everything_in_order() -> None:
    """And closed once, after the last event."""
    one, other = Recorder(), Recorder()
    events = list(a_run(a_start(), RESULTS))
    console = told([one, other], events)
    assert one.events == other.events == console.events == events
    assert (one.closed, other.closed) == (1, 1)


def test_handle_and_close_may_be_async_and_share_one_loop() -> None:
    """What a reporter opens at its first event it can still use at its last."""
    loops: list[object] = []

    class Async:
        async def handle(self, event: LiveEvent) -> None:
            await asyncio.sleep(0)
            loops.append(asyncio.get_running_loop())

        async def close(self) -> None:
            loops.append(asyncio.get_running_loop())

    told([Async()], [a_start(), saved()])
    assert len(loops) == 3
    assert len(set(map(id, loops))) == 1


@pytest.mark.parametrize("error", [ValueError("boom"), SystemExit(3), KeyboardInterrupt()])
def test_one_that_raises_is_said_once_and_left_out(error: BaseException) -> None:
    """The others are told all of it, what happened to their neighbour included."""
    seen: list[LiveEvent] = []

    class Raises:
        def handle(self, event: LiveEvent) -> None:
            seen.append(event)
            raise error

    other = Recorder()
    console = told([Raises(), other], [a_start(), saved(), the_end([])])
    ((code, message),) = notices(console)
    assert code == "reporter-failed"
    assert f"reporter Raises raised {type(error).__name__}" in message
    assert __file__ in message
    assert len(seen) == 1
    assert [event for event in other.events if not isinstance(event, RunNotice)] == [a_start(), saved(), the_end([])]


def test_one_that_raises_when_it_is_closed_is_said_too() -> None:
    """A file that could not be written at the very end is no secret."""

    class Raises:
        def handle(self, event: LiveEvent) -> None:
            pass

        async def close(self) -> None:
            raise OSError("disk full")

    console = told([Raises()], [a_start(), the_end([])])
    assert [code for code, _ in notices(console)] == ["reporter-failed"]
    assert "disk full" in notices(console)[0][1]


def test_the_last_word_comes_after_what_is_to_be_said_about_reporters() -> None:
    """The console's summary ends the run, also where a reporter fails at the end."""

    class RaisesLast:
        def handle(self, event: LiveEvent) -> None:
            if event == the_end([]):
                raise ValueError("late")

    console = told([RaisesLast()], [a_start(), the_end([])])
    assert [type(event).__name__ for event in console.events] == ["RunStart", "RunNotice", "RunFinished"]


def test_one_that_hangs_cannot_hold_the_end() -> None:
    """It is left behind, and said, with the line it hangs at; the others are done."""
    gate, other = threading.Event(), Recorder()
    console = told([Recorder(gate), other], [a_start(), the_end([])], limits=Limits(event=9, last_event=1.0, end=9))
    gate.set()
    ((code, message),) = notices(console)
    assert code == "reporter-stuck"
    assert "reporter Recorder did not come to an end" in message
    assert f"{__file__}:" in message
    assert other.closed == 1


def test_one_that_never_gets_done_cannot_hold_the_end() -> None:
    """However quick each single event is."""

    class Slow:
        def handle(self, event: LiveEvent) -> None:
            time.sleep(0.02)

    console = told([Slow()], [*[saved()] * 200, the_end([])], limits=Limits(event=9, last_event=9, end=0.1))
    assert [code for code, _ in notices(console)] == ["reporter-stuck"]


def test_emitting_never_waits_for_a_reporter() -> None:
    """Events are kept while one is held, whatever their number; none is lost."""
    gate, held = threading.Event(), Recorder()
    held._gate = gate
    bus = ReporterBus(Recorder(), [Route(held)], redact=str, limits=Limits())
    events = [saved()] * (3 * BEHIND)
    for event in events:
        bus.emit(event)
    gate.set()
    bus.close()
    assert held.events == events


def test_no_attempt_starts_while_a_reporter_is_too_far_behind() -> None:
    """`room` waits until it has caught up."""
    gate = threading.Event()
    bus = ReporterBus(Recorder(), [Route(Recorder(gate))], redact=str, limits=Limits())

    async def run() -> None:
        await asyncio.wait_for(bus.room(), 1)
        for _ in range(BEHIND + 2):
            bus.emit(saved())
        waiting = asyncio.ensure_future(bus.room())
        done, _ = await asyncio.wait({waiting}, timeout=0.1)
        assert not done
        gate.set()
        await asyncio.wait_for(waiting, 5)

    asyncio.run(run())
    bus.close()


def test_a_reporter_that_hangs_is_abandoned_rather_than_holding_the_run() -> None:
    """Once it has been at one event for the limit."""
    gate, console = threading.Event(), Recorder()
    bus = ReporterBus(console, [Route(Recorder(gate))], redact=str, limits=QUICK)

    async def run() -> None:
        for _ in range(BEHIND + 2):
            bus.emit(saved())
        await asyncio.wait_for(bus.room(), 5)

    asyncio.run(run())
    assert [code for code, _ in notices(console)] == ["reporter-stuck"]
    gate.set()
    bus.close()


def test_progress_goes_to_those_who_ask_and_is_dropped_when_they_are_late() -> None:
    """Events of the run are never dropped."""
    gate = threading.Event()
    wants, does_not = Recorder(gate), Recorder()
    wants.wants_progress = True  # type: ignore[attr-defined]
    bus = ReporterBus(Recorder(), [Route(wants), Route(does_not)], redact=str)
    assert bus.wants_progress
    for _ in range(2 * PROGRESS_KEPT):
        bus.emit(Progress(key=key_of(RESULTS[0]), phase="send"))
        bus.emit(saved())
    gate.set()
    bus.close()
    assert does_not.events == [saved()] * 2 * PROGRESS_KEPT
    assert [event for event in wants.events if event == saved()] == does_not.events
    assert 0 < sum(isinstance(event, Progress) for event in wants.events) < 2 * PROGRESS_KEPT


def test_an_evals_reporter_gets_that_eval_and_the_frame_of_the_run() -> None:
    """Nothing of other evals, and nothing about the run's troubles."""
    own = Recorder()
    exits = [
        EarlyExit(experiment_id="x", eval_id=id, after="passed", cancelled=(1,)) for id in ("sql/0001", "sql/0002")
    ]
    notice = RunNotice(code="x", level="info", message="x")
    events = [*a_run(a_start(), RESULTS)]
    told([Route(own, frozenset({"sql/0001"}))], [*events[:-2], *exits, notice, *events[-2:]])
    assert own.events == [events[0], started(RESULTS[1]), completed(RESULTS[1]), exits[0], *events[-2:]]


def test_one_object_named_twice_is_told_once() -> None:
    """As the run's where it is that, else for all the evals that name it."""
    whole, shared = Recorder(), Recorder()
    found = routes([whole, whole], [("a", [whole, shared]), ("b", [shared]), ("c", [])])
    assert [(route.reporter, route.evals) for route in found] == [(whole, None), (shared, frozenset({"a", "b"}))]


def test_secrets_are_taken_out_before_a_reporter_sees_them() -> None:
    """Ids stay what they are."""
    own = Recorder()
    result = a_result("errored", eval_id="s3cret", error="key s3cret refused", tags=("s3cret",))
    told([own], [completed(result)], redact=lambda text: text.replace("s3cret", "[redacted]"))
    (event,) = own.events
    assert isinstance(event, EvalComplete)
    assert (event.result.id, event.result.error, event.result.tags) == (
        "s3cret",
        "key [redacted] refused",
        ("[redacted]",),
    )


def test_events_cannot_be_changed() -> None:
    """One reporter cannot alter what the next one reads."""
    event = started(RESULTS[0])
    assert isinstance(event, EvalStart)
    with pytest.raises(AttributeError):
        event.timeout = 1.0  # type: ignore[misc]
    with pytest.raises(AttributeError):
        RESULTS[0].outcome = "failed"  # type: ignore[misc]
