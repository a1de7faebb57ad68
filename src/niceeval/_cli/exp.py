"""`niceeval exp`: plan, run, and say how it went."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from niceeval._base.clock import utc_text
from niceeval._base.errors import NiceevalError
from niceeval._base.places import current_folder
from niceeval._base.redaction import Redactor
from niceeval._cli.dry import plan_lines, plan_records
from niceeval._cli.errors import print_errors
from niceeval._cli.exit_codes import NOT_PASSED, code_after, code_of
from niceeval._cli.json_output import JsonOutput
from niceeval._cli.leaving import process_began
from niceeval._cli.process import run_to_end
from niceeval._cli.reporting import report_without_run, reporters_of
from niceeval._cli.streams import Streams
from niceeval._discover.project import load_project
from niceeval._discover.specs import Project
from niceeval._plan.carry import with_carry
from niceeval._plan.plan import RunPlan, make_plan
from niceeval._record.layout import RESULTS_FOLDER
from niceeval._record.writer import RunWriter
from niceeval._reporters.bus import ReporterBus
from niceeval._reporters.console import Console, Wording
from niceeval._reporters.status import StatusLine
from niceeval._run.sandboxes import Keep
from niceeval._version import __version__


@click.command("exp", add_help_option=False)
@click.argument("selector", required=False)
@click.argument("prefixes", nargs=-1)
@click.option("--tag")
@click.option("--eval", "evals", multiple=True)
@click.option("--runs", type=int)
@click.option("--early-exit/--no-early-exit", default=None)
@click.option("--strict", is_flag=True)
@click.option("--max-concurrency", type=int)
@click.option("--timeout", type=float)
@click.option("--budget", type=float)
@click.option("--force", is_flag=True)
@click.option("--dry", is_flag=True)
@click.option("--durable", is_flag=True)
@click.option("--keep-sandbox", type=click.Choice(["failed", "all"]))
@click.option("--quiet", is_flag=True)
@click.option("--verbose", is_flag=True)
@click.option("--json", "as_json", is_flag=True)
@click.option("--junit")
@click.option("--markdown")
@click.pass_obj
def exp_command(output: JsonOutput | None, /, **given: Any) -> int:
    """Run the selected evals under the selected experiments. `output` is there with `--json`, and only then."""
    options = _Options(**given)
    plan = _plan(options)
    redact = Redactor(plan.secrets)
    streams = Streams.standard(redact)
    print_errors(plan.warnings, streams, "warning")
    print_errors(plan.problems, streams)
    reporters = reporters_of(plan, junit=options.junit, markdown=options.markdown)
    if output is not None:
        output.events.redact, output.events.rerun = redact, _rerun()
    if not plan.attempts:
        report_without_run(plan, reporters, streams, output)
        return NOT_PASSED
    if options.dry:
        return _say_plan(plan, streams, output)
    results = plan.root / RESULTS_FOLDER
    writer = RunWriter(results, root=plan.root, redact=redact, durable=options.durable)
    wording = Wording(
        version=__version__,
        rerun=_rerun(),
        language=streams.language,
        quiet=options.quiet,
        verbose=options.verbose,
        json=output is not None,
    )
    console = Console(streams.out, streams.err, wording=wording, source_line=_Lines(plan.root).line, redact=redact)
    bus = ReporterBus(
        console, reporters, output=None if output is None else output.events, redact=redact, exit_code=code_of
    )
    return run_to_end(plan, writer, console, bus, output, keep_sandboxes=options.keep_sandbox)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """What the command line said. `selector` and `prefixes` are the arguments; the rest is named after its option."""

    selector: str | None
    prefixes: tuple[str, ...]
    tag: str | None
    evals: tuple[str, ...]
    runs: int | None
    early_exit: bool | None
    strict: bool
    max_concurrency: int | None
    timeout: float | None
    budget: float | None
    force: bool
    dry: bool
    durable: bool
    keep_sandbox: Keep | None
    quiet: bool
    verbose: bool
    as_json: bool
    junit: str | None
    markdown: str | None


def _plan(options: _Options) -> RunPlan:
    since = process_began() or utc_text()
    streams = Streams.standard()
    live = not options.as_json and streams.err.isatty
    with StatusLine(streams.err, streams.err_style, live=live, doing="loading the project"):
        project = load_project(current_folder(), note_reads=True)
    with (
        _warnings_said(project),
        StatusLine(streams.err, streams.err_style, live=live, doing="deciding what to run"),
    ):
        plan = make_plan(
            project,
            selector=options.selector,
            eval_prefixes=(*options.prefixes, *options.evals),
            tag=options.tag,
            runs=options.runs,
            early_exit=options.early_exit,
            max_concurrency=options.max_concurrency,
            timeout=options.timeout,
            budget=options.budget,
            strict=options.strict,
        )
        return with_carry(plan, plan.root / RESULTS_FOLDER, force=options.force, since=since)


@contextlib.contextmanager
def _warnings_said(project: Project) -> Iterator[None]:
    """Where no plan comes of it, the project's warnings are said before the error: one of them may be the cause."""
    try:
        yield
    except NiceevalError:
        print_errors(project.warnings, Streams.standard(Redactor(project.secrets)), "warning")
        raise


def _say_plan(plan: RunPlan, streams: Streams, output: JsonOutput | None) -> int:
    """`--dry`: the plan, and nothing else; with `--json` a line for each attempt."""
    code = code_after(plan.problems)
    if output is not None:
        for record in plan_records(plan):
            output.say(record)
        output.end("incomplete" if plan.problems else "passed", code, plan.problems)
        return code
    streams.say_list(plan_lines(plan, streams.out_style), "niceeval exp EXPERIMENT EVAL-PREFIX --dry")
    return code


def _rerun() -> str:
    """The command that runs the same selection again, and carries what has passed by then."""
    words = [word for word in sys.argv[1:] if word != "--force"]
    return shlex.join(["niceeval", *words]) if words[:1] == ["exp"] else "niceeval exp"


class _Lines:
    """Source lines of the project, each file read once, as it is while the run goes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[str, list[str]] = {}

    def line(self, file: str, number: int) -> str | None:
        """One line, from 1; None for a file outside the project or a line that is not there."""
        lines = self._files.get(file)
        if lines is None:
            lines = self._files[file] = self._read(file)
        return lines[number - 1] if 0 < number <= len(lines) else None

    def _read(self, file: str) -> list[str]:
        if file.startswith(("..", "/")):
            return []
        try:
            return (self._root / file).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
