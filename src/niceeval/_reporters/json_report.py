"""`Json(path)`: a run as one JSON document, in the words of `--json`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TextIO

from niceeval._reporters.finished_run import EvalAttempts, FileReport, FinishedRun
from niceeval._reporters.records import SCHEMA_VERSION, Record, attempt_fields, run_summary

FORMAT = "niceeval.report"


class Json(FileReport):
    """`{format, schemaVersion, run, outputDir?, status, exitCode, counts..., problems, evals: [...]}`.

    Each of `evals` is one eval under one experiment: `experimentId`, `evalId`, the folded `outcome`, and `attempts`,
    which have the fields of `eval:complete`. Written as it is read, so that it may be of any length.
    """

    def write(self, run: FinishedRun, file: TextIO) -> None:
        """Write the document, an eval a line."""
        file.write(_encoded(_head(run))[:-1] + ',"evals":[')
        between = "\n"
        for group in run.evals():
            file.write(between + _encoded(_eval(group)))
            between = ",\n"
        file.write("\n]}\n")


def _head(run: FinishedRun) -> Record:
    summary = run_summary(run.finished, ())
    return {
        "format": FORMAT,
        "schemaVersion": SCHEMA_VERSION,
        "run": run.start.run,
        **({} if run.saved is None else {"outputDir": run.saved.output_dir}),
        **{name: value for name, value in summary.items() if name not in ("type", "next")},
    }


def _eval(group: EvalAttempts) -> Record:
    first = group.results[0]
    return {
        "experimentId": group.experiment_id,
        "evalId": group.eval_id,
        "agent": first.agent,
        **({} if first.model is None else {"model": first.model}),
        "outcome": group.verdict,
        "attempts": list(_attempts(group)),
    }


def _attempts(group: EvalAttempts) -> Iterator[Record]:
    for result in group.results:
        yield {"attempt": result.attempt, "startedAt": result.started_at, **attempt_fields(result)}


def _encoded(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
