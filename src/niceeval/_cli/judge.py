"""`niceeval judge check | correct`: how far a judge agrees with people, and what a pass rate of its is worth."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from niceeval._base.errors import ProjectError, SelectionError
from niceeval._base.places import current_folder, shown_path
from niceeval._base.plain_text import shorten
from niceeval._base.redaction import Redactor, secret_values
from niceeval._base.terminal import Style, cell_width, pad_end
from niceeval._cli.exit_codes import NOT_PASSED, PASSED
from niceeval._cli.streams import Streams
from niceeval._discover.project import load_project
from niceeval._discover.specs import Project
from niceeval._evidence.price_table import built_in_prices
from niceeval._evidence.proportions import Estimate, wilson
from niceeval._judging import records
from niceeval._judging.calibrating import Calibration, Judged, calibrate
from niceeval._judging.correction import corrected
from niceeval._judging.desk import JudgeDesk
from niceeval._judging.labels import Labels, read_labels
from niceeval._judging.outcome import JudgeOutcome
from niceeval._judging.resolving import KEY_VARIABLE
from niceeval._model.judge import JudgeConfig

TOLD_EVERY: Final = 2.0
"""Seconds between two lines of progress."""
MAX_SHOWN: Final = 10
"""Disagreements that are shown; `--json` has all."""
MAX_REPEAT: Final = 100


@click.command("check", add_help_option=False)
@click.argument("labels")
@click.option("--model")
@click.option("--base-url")
@click.option("--repeat", type=click.IntRange(1, MAX_REPEAT), default=1)
@click.option("--no-swap", is_flag=True)
@click.option("--min-kappa", type=click.FloatRange(-1, 1))
@click.option("--no-store", is_flag=True)
@click.option("--json", "as_json", is_flag=True)
def judge_check_command(
    labels: str,
    model: str | None,
    base_url: str | None,
    repeat: int,
    no_swap: bool,
    min_kappa: float | None,
    no_store: bool,
    as_json: bool,
) -> int:
    """Try a judge on labelled examples, and keep how it did."""
    project = _project()
    streams = Streams.standard(Redactor(project.secrets if project is not None else secret_values(os.environ, {})))
    read = read_labels(current_folder() / labels)
    config = _judge(read, project, model, base_url)
    calibration = asyncio.run(_calibrate(read, config, project, repeat, not no_swap, _progress(streams)))
    if isinstance(calibration, JudgeOutcome):
        raise _not_asked(calibration, config)
    code = _code(calibration, min_kappa, streams)
    # One that is asked to agree better than it does is not to pass for calibrated.
    stored = None if no_store or code != PASSED else _stored(calibration, project)
    if as_json:
        streams.say_json({**records.as_json(calibration), "disagreements": [_json(one) for one in _apart(calibration)]})
    else:
        streams.say(*_report(calibration, streams.out_style))
        if stored is not None:
            streams.say("", f"kept in {shown_path(stored)}")
    return code


@click.command("correct", add_help_option=False)
@click.argument("record")
@click.argument("passed")
@click.option("--json", "as_json", is_flag=True)
def judge_correct_command(record: str, passed: str, as_json: bool) -> int:
    """What a pass rate that a calibrated judge gave is worth."""
    streams = Streams.standard()
    counts = re.fullmatch(r"(\d{1,9})/(\d{1,9})", passed)
    if counts is None or not 0 <= int(counts[1]) <= int(counts[2]) or int(counts[2]) < 1:
        raise SelectionError("usage", problem=f"{passed} is no count such as 34/40", command="niceeval judge --help")
    known = records.read(current_folder() / record)
    if known is None:
        raise ProjectError("judge-record", file=record)
    seen, found = wilson(int(counts[1]), int(counts[2])), corrected(int(counts[1]), int(counts[2]), known.confusion)
    if as_json:
        value = found if isinstance(found, str) else {"value": found.value, "low": found.low, "high": found.high}
        told = {"value": seen.value, "low": seen.low, "high": seen.high}
        streams.say_json({"observed": told, "corrected" if not isinstance(found, str) else "withheld": value})
        return PASSED
    clean = streams.out_style.clean
    streams.say(
        clean(f"{known.question} · {known.model} · calibrated on {known.confusion.total} examples"),
        f"as judged   {_percent(seen)}   {passed}",
        f"corrected   {_percent(found)}" if isinstance(found, Estimate) else f"corrected   withheld: {found}",
    )
    return PASSED


def _not_asked(outcome: JudgeOutcome, config: JudgeConfig) -> ProjectError:
    problem = outcome.message or "it gave no answer"
    # What is not installed says itself how it is.
    fix = problem.rpartition(": ")[2] if "pip install" in problem else None
    return ProjectError("judge-check", model=config.model, problem=problem, variable=_key(config), next_step=fix)


def _project() -> Project | None:
    try:
        return load_project(current_folder())
    except SelectionError:
        return None


def _judge(labels: Labels, project: Project | None, model: str | None, base_url: str | None) -> JudgeConfig:
    """The command line's, else the file's, else the project's. Raises ProjectError (`judge-none`)."""
    config = labels.judge or (project.config.judge if project is not None else None)
    if config is None and model is None:
        raise ProjectError("judge-none", file=labels.file)
    config = JudgeConfig(model=model or "") if config is None else config
    config = config if model is None else replace(config, model=model)
    return config if base_url is None else replace(config, base_url=base_url)


def _key(config: JudgeConfig) -> str:
    return config.api_key_env or KEY_VARIABLE


async def _calibrate(
    labels: Labels,
    config: JudgeConfig,
    project: Project | None,
    repeat: int,
    swap: bool,
    progress: Callable[[int, int], None],
) -> Calibration | JudgeOutcome:
    desk = JudgeDesk((*(() if project is None else (project.config.pricing,)), built_in_prices()))
    try:
        return await calibrate(labels, config, desk, repeat=repeat, swap=swap, progress=progress)
    finally:
        await desk.close()


def _progress(streams: Streams) -> Callable[[int, int], None]:
    told = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told >= TOLD_EVERY and done < total:
            told = time.monotonic()
            streams.note(f"judged {done} of {total} examples")

    return progress


def _stored(calibration: Calibration, project: Project | None) -> Path:
    root = current_folder() if project is None else project.root
    try:
        return records.store(root, calibration)
    except OSError as error:
        folder = shown_path(root / records.FOLDER)
        raise ProjectError("judge-store", folder=folder, problem=error.strerror or str(error)) from None


def _code(calibration: Calibration, min_kappa: float | None, streams: Streams) -> int:
    if calibration.confusion.total == 0:
        streams.note("no example was judged: the judge gave no score on any")
        return NOT_PASSED
    if min_kappa is None:
        return PASSED
    kappa = calibration.confusion.kappa
    if kappa is None or kappa.value < min_kappa:
        streams.note(
            f"kappa is {'not known' if kappa is None else f'{kappa.value:.2f}'}; --min-kappa asks for {min_kappa:g}"
        )
        return NOT_PASSED
    return PASSED


# Saying ---------------------------------------------------------------------------------------------------------------


def _report(calibration: Calibration, style: Style) -> list[str]:
    labels, confusion = calibration.labels, calibration.confusion
    lines = [
        style.clean(f"{labels.recipe.name} · {calibration.config.model} · passes at {labels.passes_at:g}"),
        f"{len(labels.examples)} examples, {sum(one.passes for one in labels.examples)} of them labelled pass",
        "",
    ]
    rows = [
        (
            "agreement",
            _percent(confusion.agreement),
            f"{confusion.true_pass + confusion.true_fail} of {confusion.total}",
        ),
        ("kappa", _plain(confusion.kappa), ""),
        ("false pass", _percent(confusion.false_pass_rate), f"{confusion.false_pass} of {confusion.labelled_fail}"),
        ("false fail", _percent(confusion.false_fail_rate), f"{confusion.false_fail} of {confusion.labelled_pass}"),
        *_steadiness(calibration),
        ("no score", str(len(calibration.unjudged)), ""),
        ("cost", _cost(calibration), f"{calibration.judgements} judgements"),
    ]
    widths = [max(cell_width(row[column]) for row in rows) for column in (0, 1)]
    lines += ["  ".join([pad_end(a, widths[0]), pad_end(b, widths[1]), c]).rstrip() for a, b, c in rows]
    apart = _apart(calibration)
    if apart:
        lines += ["", f"they disagree on {len(apart)}"]
        lines += [_line(one, style) for one in apart[:MAX_SHOWN]]
    if len(apart) > MAX_SHOWN:
        lines.append(f"  + {len(apart) - MAX_SHOWN} more: --json")
    for one in calibration.unjudged[:3]:
        lines.append(style.clean(f"  #{one.example.number}  no score: {one.repeats[0].message or ''}"))
    return lines


def _steadiness(calibration: Calibration) -> list[tuple[str, str, str]]:
    rows = []
    if calibration.repeat > 1:
        steady = [one.steady for one in calibration.judged if one.steady is not None]
        rows.append(("repeats", f"{sum(steady)} of {len(steady)} the same", f"{calibration.repeat} times each"))
    if calibration.swapped:
        moved = [one.moved for one in calibration.judged if one.moved is not None]
        rows.append(("order", f"{sum(moved)} of {len(moved)} changed", "with the choices in reverse"))
    return rows


def _apart(calibration: Calibration) -> list[Judged]:
    return [one for one in calibration.judged if one.verdict is not None and one.verdict != one.example.passes]


def _line(one: Judged, style: Style) -> str:
    said = "labelled pass, judged fail" if one.example.passes else "labelled fail, judged pass"
    why = one.repeats[0].rationale or one.repeats[0].choice or ""
    shown = " ".join(one.example.material.output.split())
    return style.clean(
        shorten(f"  #{one.example.number}  {said}: {shorten(shown, 60)}  ({' '.join(why.split())})", 160)
    )


def _percent(estimate: Estimate | None) -> str:
    if estimate is None:
        return "not known"
    return f"{estimate.value:.0%} ({estimate.low:.0%} to {estimate.high:.0%})"


def _plain(estimate: Estimate | None) -> str:
    return "not known" if estimate is None else f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f})"


def _cost(calibration: Calibration) -> str:
    return "not known" if calibration.cost is None else f"${calibration.cost:.4f}"


def _json(one: Judged) -> dict[str, Any]:
    first = one.repeats[0]
    return {
        "example": one.example.number,
        "label": "pass" if one.example.passes else "fail",
        "score": first.score,
        "choice": first.choice,
        "rationale": first.rationale,
    }
