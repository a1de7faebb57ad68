"""Who held the event loop or reached for others' tasks: kept with that attempt, or said about the run without one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from niceeval._base.tasks import TaskKeeper
from niceeval._base.watchdog import Block
from niceeval._drive.faults import shown_file
from niceeval._model.result import Diagnostic
from niceeval._model.run_events import LiveEvent, RunNotice

CODE = "loop-blocked"
TASKS_CANCELLED = "tasks-cancelled"


class Blocks:
    """What the watch saw, per attempt label, until the attempt is sealed."""

    def __init__(self, root: Path, emit: Callable[[LiveEvent], None], is_running: Callable[[str], bool]) -> None:
        self._root = root
        self._emit = emit
        self._is_running = is_running
        self._kept: dict[str, list[Block]] = {}

    def add(self, block: Block) -> None:
        """One more. Whoever is not under way any more has no result that it could be kept with."""
        if block.label is not None and self._is_running(block.label):
            self._kept.setdefault(block.label, []).append(block)
            return
        who = f"{block.label} blocked the event loop" if block.label else "the event loop was blocked"
        message = f"{who} for {block.seconds:.1f}s at {self.place(block)}"
        self._emit(RunNotice(code=CODE, level="warning", message=message))

    def taken(self, label: str) -> list[Diagnostic]:
        """An attempt's own; it has none afterwards."""
        return [
            Diagnostic(
                code=CODE,
                level="warning",
                message=f"blocked the event loop for {block.seconds:.1f}s at {self.place(block)};"
                " other attempts had to wait",
            )
            for block in self._kept.pop(label, [])
        ]

    def place(self, block: Block) -> str:
        """Where it was, as people name files."""
        file, _, rest = block.where.partition(":")
        return f"{shown_file(file, self._root)}:{rest}" if rest else block.where


def cancelled_tasks(keeper: TaskKeeper, label: str) -> list[Diagnostic]:
    """What is to be said of somebody who wanted to cancel tasks of the run or of other attempts; it is said once."""
    count = keeper.taken(label)
    if not count:
        return []
    tasks, they = ("a task", "it goes") if count == 1 else (f"{count} tasks", "they go")
    message = f"wanted to cancel {tasks} of the run and of other attempts; {they} on"
    return [Diagnostic(code=TASKS_CANCELLED, level="warning", message=message)]
