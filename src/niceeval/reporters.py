"""Reporters: who is told what happens in a run, and the files and lines that niceeval can make of it.

Name them in `define_config(reporters=[...])` for every run, or in `define_eval(reporters=[...])` for one eval. A
reporter of your own is any object with `handle(event)`; the events are the frozen values exported here.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from niceeval._model.run_events import (
    AttemptKey,
    BudgetExceeded,
    EarlyExit,
    EvalComplete,
    EvalStart,
    ExperimentFailed,
    ExperimentOutline,
    Interrupted,
    LiveEvent,
    NotStarted,
    Progress,
    RunFinished,
    RunNotice,
    RunSaved,
    RunStart,
)
from niceeval._reporters.github import GitHubAnnotations
from niceeval._reporters.json_report import Json
from niceeval._reporters.junit import JUnit
from niceeval._reporters.markdown import Markdown
from niceeval._reporters.protocol import Reporter

__all__ = [
    "AttemptKey",
    "BudgetExceeded",
    "EarlyExit",
    "EvalComplete",
    "EvalStart",
    "ExperimentFailed",
    "ExperimentOutline",
    "GitHubAnnotations",
    "Interrupted",
    "JUnit",
    "Json",
    "LiveEvent",
    "Markdown",
    "NotStarted",
    "Progress",
    "Reporter",
    "RunFinished",
    "RunNotice",
    "RunSaved",
    "RunStart",
    "events_schema",
]


def events_schema() -> dict[str, Any]:
    """The JSON Schema of one line of `niceeval exp --json`."""
    text = resources.files("niceeval._reporters").joinpath("events.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
