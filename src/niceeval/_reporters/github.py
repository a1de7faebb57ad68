"""`GitHubAnnotations()`: what did not pass, on the lines of the pull request that it stands on."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from niceeval._base.plain_text import shorten
from niceeval._base.terminal import Stream, clean, clean_lines
from niceeval._model.events import Loc
from niceeval._model.run_events import LiveEvent
from niceeval._reporters.finished_run import EvalAttempts, FinishedRun, RunFrame
from niceeval._reporters.reasons import reason_of, show_command

LIMIT = 10
"""GitHub shows ten errors of a step and drops the others without a word."""

_TITLE_CHARS = 200
_MESSAGE_CHARS = 2_000


class GitHubAnnotations:
    """Writes an `::error` line to stderr for each eval that did not pass, at the end of a run in a GitHub workflow.

    Elsewhere it does nothing, unless `always`. After `limit` of them one line says how many more there are. Files are
    named from the root of the git repository, which is where GitHub looks for them.
    """

    def __init__(
        self,
        *,
        always: bool = False,
        limit: int = LIMIT,
        stream: TextIO | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._wanted = always or environ.get("GITHUB_ACTIONS") == "true"
        self._limit = limit
        self._stream = stream
        self._frame = RunFrame()

    def handle(self, event: LiveEvent) -> None:
        """Take note; write at the end."""
        run = self._frame.apply(event)
        if run is None or not self._wanted:
            return
        # One write: other lines of the run may come before or after, never between.
        stream = Stream(self._stream or sys.stderr)
        stream.write("".join(f"{line}\n" for line in self._lines(run)))
        stream.flush()

    def _lines(self, run: FinishedRun) -> list[str]:
        below = _below_repository(Path(run.start.root))
        lines: list[str] = []
        left = 0
        for group in run.evals():
            if group.verdict not in ("failed", "errored"):
                continue
            if len(lines) < self._limit:
                lines.append(_annotation(group, below))
            else:
                left += 1
        return [*lines, f"::notice title=niceeval::{left} more did not pass: niceeval show"] if left else lines


def _annotation(group: EvalAttempts, below: str) -> str:
    result = group.deciding
    reason = reason_of(result)
    title = shorten(clean(f"{group.verdict}: {group.eval_id} ({group.experiment_id})"), _TITLE_CHARS)
    lines = [line for text in reason.lines for line in clean_lines(text)]
    message = "\n".join([shorten("\n".join(lines), _MESSAGE_CHARS), show_command(result)])
    properties = {**_place(reason.loc, below), "title": title}
    said = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::error {said}::{_data(message)}"


def _place(loc: Loc | None, below: str) -> dict[str, str]:
    """Where GitHub can show it; nothing for a file outside the repository."""
    if loc is None:
        return {}
    file = os.path.normpath(os.path.join(below, loc.file)).replace(os.sep, "/")
    if file.startswith("../") or os.path.isabs(file):
        return {}
    place = {"file": clean(file), "line": str(loc.line)}
    return place if loc.column is None else {**place, "col": str(loc.column)}


def _below_repository(root: Path) -> str:
    """The project's folder as seen from the git repository's root; `.` where there is no repository."""
    for folder in (root, *root.parents):
        if (folder / ".git").exists():
            return root.relative_to(folder).as_posix()
    return "."


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
