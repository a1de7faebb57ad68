"""What an attempt is called: in events, in the run folder, and by the watchdog."""

from __future__ import annotations

from niceeval._model.run_events import AttemptKey
from niceeval._plan.plan import AttemptPlan
from niceeval._record.writer import AttemptName


def key_of(attempt: AttemptPlan) -> AttemptKey:
    """Its name in events."""
    return AttemptKey(attempt.experiment.id, attempt.eval.id, attempt.attempt)


def stored_name_of(attempt: AttemptPlan) -> AttemptName:
    """What its folder is named after."""
    experiment = attempt.experiment
    return (experiment.id, attempt.eval.id, experiment.agent.name, experiment.model, attempt.attempt)


def label_of(attempt: AttemptPlan) -> str:
    """Its name in a sentence."""
    return f"{attempt.experiment.id} {attempt.eval.id} {attempt.attempt}"
