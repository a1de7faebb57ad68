"""The plan: which attempts a run makes, in which order, and under which limits."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from niceeval._base.errors import NiceevalError, ProjectError, SelectionError
from niceeval._discover.specs import ConfigSpec, EvalSpec, ExperimentSpec, Project
from niceeval._plan.plan import DEFAULT_CONCURRENCY, DEFAULT_TIMEOUT, RunPlan, make_plan
from niceeval.adapter import Turn, complete_evidence_coverage, define_sandbox_agent
from tests.unit.test_selection import a_project, an_eval, an_experiment

BOXED = define_sandbox_agent(name="boxed", evidence_coverage=complete_evidence_coverage, send=lambda input, ctx: Turn())


def project_with(
    *,
    config: ConfigSpec | None = None,
    experiment: dict[str, Any] | None = None,
    eval: dict[str, Any] | None = None,
) -> Project:
    one: ExperimentSpec = dataclasses.replace(an_experiment("local"), **(experiment or {}))
    spec: EvalSpec = dataclasses.replace(an_eval("a"), **(eval or {}))
    return dataclasses.replace(a_project((spec,), (one,)), config=config or ConfigSpec())


def attempts_of(plan: RunPlan) -> list[tuple[str, str, int]]:
    return [(one.experiment.id, one.eval.id, one.attempt) for one in plan.attempts]


def test_attempts_go_by_experiment_then_eval_then_number() -> None:
    """And are numbered in that order."""
    experiments = (dataclasses.replace(an_experiment("x"), runs=2), an_experiment("y", ("b",)))
    plan = make_plan(a_project((an_eval("a"), an_eval("b")), experiments))
    assert attempts_of(plan) == [("x", "a", 0), ("x", "a", 1), ("x", "b", 0), ("x", "b", 1), ("y", "b", 0)]
    assert [one.index for one in plan.attempts] == [0, 1, 2, 3, 4]
    assert [one.id for one in plan.experiments] == ["x", "y"]


def test_an_experiment_without_attempts_is_not_in_the_plan() -> None:
    """Narrowing may leave some with nothing to do."""
    plan = make_plan(
        a_project((an_eval("a"), an_eval("b")), (an_experiment("x", ("a",)), an_experiment("y", ("b",)))),
        eval_prefixes=["b"],
    )
    assert [one.id for one in plan.experiments] == ["y"]


TIMEOUTS = [
    ({"timeout": 1}, {"timeout": 2.0}, {"timeout": 3.0}, 4.0, 1.0),
    ({}, {"timeout": 2.0}, {"timeout": 3.0}, 4.0, 2.0),
    ({}, {}, {"timeout": 3.0}, 4.0, 3.0),
    ({}, {}, {}, 4.0, 4.0),
    ({}, {}, {}, None, DEFAULT_TIMEOUT),
]


@pytest.mark.parametrize(("flags", "eval", "experiment", "config", "seconds"), TIMEOUTS)
def test_timeout_precedence(
    flags: dict[str, Any], eval: dict[str, Any], experiment: dict[str, Any], config: float | None, seconds: float
) -> None:
    """Command line, then eval, experiment, config, and 600 seconds at last."""
    project = project_with(config=ConfigSpec(timeout=config), experiment=experiment, eval=eval)
    (attempt,) = make_plan(project, **flags).attempts
    assert attempt.timeout == seconds


@pytest.mark.parametrize(
    ("flags", "config", "limit"), [({"max_concurrency": 2}, 5, 2), ({}, 5, 5), ({}, None, DEFAULT_CONCURRENCY)]
)
def test_concurrency_precedence(flags: dict[str, Any], config: int | None, limit: int) -> None:
    """Command line, then config, then ten; the experiment's own limit stays on the experiment."""
    project = project_with(config=ConfigSpec(max_concurrency=config), experiment={"max_concurrency": 1})
    plan = make_plan(project, **flags)
    assert (plan.concurrency, plan.experiments[0].max_concurrency) == (limit, 1)


def test_runs_and_early_exit_of_the_command_line_win() -> None:
    """The experiment in the plan is already the resolved one."""
    project = project_with(experiment={"runs": 3})
    plan = make_plan(project, runs=2, early_exit=False)
    assert (plan.experiments[0].runs, plan.experiments[0].early_exit, len(plan.attempts)) == (2, False, 2)
    assert plan.attempts[0].experiment is plan.experiments[0]
    assert len(make_plan(project).attempts) == 3


@pytest.mark.parametrize(
    "flags",
    [
        {"runs": 0},
        {"runs": -1},
        {"max_concurrency": 0},
        {"timeout": 0.0},
        {"timeout": -5.0},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
    ],
    ids=str,
)
def test_values_that_cannot_be_are_wrong_usage(flags: dict[str, Any]) -> None:
    """Before anything is selected."""
    with pytest.raises(SelectionError) as caught:
        make_plan(a_project(), **flags)
    assert (caught.value.code, caught.value.next_step()) == ("usage", "niceeval exp --help")
    assert str(caught.value).startswith("--" + next(iter(flags)).replace("_", "-"))


def test_a_sandbox_agent_is_a_problem_and_the_others_run() -> None:
    """This version has no backend, and says so before anything starts."""
    experiments = (an_experiment("a"), dataclasses.replace(an_experiment("boxed"), agent=BOXED))
    plan = make_plan(a_project((an_eval("e"),), experiments))
    assert attempts_of(plan) == [("a", "e", 0)]
    assert [(one.code, str(one.place)) for one in plan.problems] == [("sandbox-not-set", "experiments/boxed.py:1")]


def test_problems_of_the_project_come_along() -> None:
    """The run is incomplete, and its end must say so."""
    project = dataclasses.replace(a_project((an_eval("e"),), (an_experiment("a"),), broken=("evals/x_eval.py",)))
    assert [one.code for one in make_plan(project).problems] == ["load-failed"]


def test_a_predicate_that_raises_is_its_experiments_problem() -> None:
    """The others are planned."""

    def broken(info: object) -> bool:
        raise RuntimeError("no")

    plan = make_plan(a_project((an_eval("e"),), (an_experiment("a", broken), an_experiment("b"))))
    assert (attempts_of(plan), [one.code for one in plan.problems]) == ([("b", "e", 0)], ["bad-argument"])


def test_a_broken_config_starts_nothing() -> None:
    """Other limits and prices than the author set would be another run."""
    problem = ProjectError("no-config")
    project = dataclasses.replace(project_with(), config_problem=problem, problems=(problem,))
    with pytest.raises(NiceevalError) as caught:
        make_plan(project)
    assert caught.value is problem


def test_nothing_to_run_is_an_error() -> None:
    """An empty run that ends in 0 would look like success."""
    with pytest.raises(SelectionError) as caught:
        make_plan(a_project((an_eval("e"),), (an_experiment("a", ()),)))
    assert (caught.value.code, str(caught.value)) == ("nothing-selected", "no eval is left for a")


def test_an_experiment_that_selects_nothing_is_a_problem() -> None:
    """Its sweep passes without it, and nobody would miss it."""
    experiments = (an_experiment("a"), an_experiment("b", lambda info: False), an_experiment("c", ()))
    plan = make_plan(a_project((an_eval("e"),), experiments))
    assert [(one.code, str(one.place)) for one in plan.problems] == [
        ("nothing-selected", "experiments/b.py:1"),
        ("nothing-selected", "experiments/c.py:1"),
    ]
    assert str(plan.problems[0]) == "evals= of b selects none of the evals"
    assert attempts_of(plan) == [("a", "e", 0)]


@pytest.mark.parametrize("narrowing", [{"tag": "smoke"}, {"eval_prefixes": ["e"]}], ids=["tag", "prefix"])
def test_an_experiment_that_the_command_line_leaves_nothing_of_is_said(narrowing: dict[str, Any]) -> None:
    """It was asked for, so the run is whole without it."""
    evals = (dataclasses.replace(an_eval("e"), tags=("smoke",)), an_eval("f"))
    plan = make_plan(a_project(evals, (an_experiment("a"), an_experiment("b", ("f",)))), **narrowing)
    assert plan.problems == ()
    assert [str(one) for one in plan.warnings] == ["the command line leaves no eval of b"]


def test_one_cause_is_one_problem() -> None:
    """A file that could not be used may hold what the experiment selects; a dead prefix and a predicate say it all."""
    experiments = (an_experiment("a"), an_experiment("b", ("nope",)), an_experiment("c", lambda info: False))
    project = a_project((an_eval("e"),), experiments, broken=("evals/x_eval.py",))
    assert [one.code for one in make_plan(project).problems] == ["load-failed", "nothing-selected"]


def test_the_title_is_what_was_asked_for() -> None:
    """The selector, else the project's name."""
    named = project_with(config=ConfigSpec(name="desk"))
    assert make_plan(named, selector="local").title == "local"
    assert make_plan(named).title == "desk"
    assert make_plan(project_with()).title == "every experiment"
