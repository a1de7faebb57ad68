"""`niceeval why @LOCATOR`: what has changed since a result, so that it would be run again."""

from __future__ import annotations

from dataclasses import replace

import click

from niceeval._base.places import current_folder
from niceeval._base.redaction import Redactor
from niceeval._cli.exit_codes import PASSED
from niceeval._cli.streams import Streams
from niceeval._discover.project import load_project
from niceeval._discover.specs import Project
from niceeval._plan.carry import Decision, with_carry
from niceeval._plan.plan import RunPlan, make_plan
from niceeval._plan.reads import changes_since
from niceeval._record.attempt import Attempt
from niceeval._record.layout import RESULTS_FOLDER
from niceeval._record.reader import open_results


@click.command("why", add_help_option=False)
@click.argument("locator")
@click.option("--json", "as_json", is_flag=True)
def why_command(locator: str, as_json: bool) -> int:
    """Compare a stored attempt with the project as it is now."""
    project = load_project(current_folder(), note_reads=True)
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
    experiment = next((one for one in project.experiments if one.id == stored.experiment_id), None)
    if experiment is None:
        return [f"experiment {stored.experiment_id or stored.agent} is no longer there"], "not part of it"
    plan = _plan(project, stored, runs=max(experiment.runs, stored.attempt + 1))
    key = (stored.experiment_id, stored.eval_id, stored.attempt)
    attempt = next((one for one in plan.attempts if (one.experiment.id, one.eval.id, one.attempt) == key), None)
    if attempt is None:
        return [f"eval {stored.eval_id} is no longer one of {stored.experiment_id}"], "not part of it"
    identity = plan.identities[attempt.experiment.id, attempt.eval.id]
    before = stored.identity_parts
    changed = ["identity (not recorded then)"] if before is None else changes_since(before, identity, project.root)
    decision = plan.decision(attempt) or Decision(reason="no earlier result")
    verb = "carried" if decision.carried is not None else "run" if decision.needed else "not needed"
    return changed, f"{verb} ({decision.reason})"


def _plan(project: Project, stored: Attempt, *, runs: int) -> RunPlan:
    """What a run of the attempt's experiment would do now, as strictly as then."""
    info = stored.experiment
    strict = info is not None and info.strict
    plan = make_plan(project, selector=stored.experiment_id, runs=runs, strict=strict)
    # A group of that name would be selected with it.
    own = tuple(attempt for attempt in plan.attempts if attempt.experiment.id == stored.experiment_id)
    experiments = tuple(one for one in plan.experiments if one.id == stored.experiment_id)
    return with_carry(replace(plan, attempts=own, experiments=experiments), project.root / RESULTS_FOLDER, force=False)
