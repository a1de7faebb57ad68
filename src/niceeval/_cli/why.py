"""`niceeval why @LOCATOR`: what has changed since a result, so that it would be run again."""

from __future__ import annotations

from pathlib import Path

import click

from niceeval._base.redaction import Redactor
from niceeval._cli.exit_codes import PASSED
from niceeval._cli.streams import Streams
from niceeval._discover.project import load_project
from niceeval._discover.specs import Project
from niceeval._plan.carry import Decision, with_carry
from niceeval._plan.identity import changes
from niceeval._plan.plan import AttemptPlan, RunPlan, make_plan
from niceeval._record.attempt import Attempt
from niceeval._record.layout import RESULTS_FOLDER
from niceeval._record.reader import open_results


@click.command("why", add_help_option=False)
@click.argument("locator")
@click.option("--json", "as_json", is_flag=True)
def why_command(locator: str, as_json: bool) -> int:
    """Compare a stored attempt with the project as it is now."""
    project = load_project(Path.cwd())
    streams = Streams.standard(Redactor(project.secrets))
    stored = open_results(project.root / RESULTS_FOLDER).find(locator)
    changed, decision = _compared(project, stored)
    if as_json:
        streams.say_json({"locator": stored.locator, "changed": changed, "next": decision})
        return PASSED
    clean = streams.out_style.clean
    streams.say(f"{stored.locator}  {clean(stored.eval_id)}  {clean(stored.experiment_id or '-')}  {stored.outcome}")
    streams.say(*(f"  changed: {clean(one)}" for one in changed))
    if not changed:
        streams.say("  nothing that niceeval can see has changed since")
    streams.say(f"  next run: {clean(decision)}")
    return PASSED


def _compared(project: Project, stored: Attempt) -> tuple[list[str], str]:
    """What has changed, and what the next run would do with this attempt."""
    plan, attempt = _planned(project, stored)
    if attempt is None:
        return ["the eval or the experiment is no longer there"], "not part of it"
    identity = plan.identities[attempt.experiment.id, attempt.eval.id]
    before = stored.identity_parts
    changed = ["identity (not recorded then)"] if before is None else changes(before.parts, identity.parts)
    decision = plan.decision(attempt) or Decision(reason="no earlier result")
    verb = "carried" if decision.carried is not None else "run" if decision.needed else "not needed"
    return changed, f"{verb} ({decision.reason})"


def _planned(project: Project, stored: Attempt) -> tuple[RunPlan, AttemptPlan | None]:
    known = any(experiment.id == stored.experiment_id for experiment in project.experiments)
    info = stored.experiment
    plan = make_plan(
        project,
        selector=stored.experiment_id if known else None,
        runs=None if info is None else max(info.runs, stored.attempt + 1),
        early_exit=None if info is None else info.early_exit,
        strict=info is not None and info.strict,
    )
    plan = with_carry(plan, project.root / RESULTS_FOLDER, force=False)
    for attempt in plan.attempts:
        key = (attempt.experiment.id, attempt.eval.id, attempt.attempt)
        if key == (stored.experiment_id, stored.eval_id, stored.attempt):
            return plan, attempt
    return plan, None
