"""Selection: what a word on the command line means, and what it is told where it means nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from niceeval._base.errors import NiceevalError, Place, ProjectError, SelectionError
from niceeval._discover.select import (
    dead_prefixes,
    evals_of,
    evals_with_prefixes,
    experiments_matching,
    narrow,
    tagged_or_raise,
    under,
)
from niceeval._discover.specs import ConfigSpec, EvalInfo, EvalSelector, EvalSpec, ExperimentSpec, Project
from niceeval.adapter import Turn, complete_evidence_coverage, define_agent

AGENT = define_agent(name="bot", evidence_coverage=complete_evidence_coverage, send=lambda input, ctx: Turn())


async def nothing(t: object) -> None: ...


def an_eval(id: str, *tags: str) -> EvalSpec:
    return EvalSpec(
        id=id,
        function=nothing,
        file=Path(f"/p/evals/{id}_eval.py"),
        path=f"evals/{id}_eval.py",
        line=1,
        column=1,
        base=id,
        tags=tags,
    )


def an_experiment(id: str, evals: EvalSelector = "*") -> ExperimentSpec:
    path = f"experiments/{id}.py"
    return ExperimentSpec(id=id, path=path, place=Place(path, 1), agent=AGENT, evals=evals)


def a_project(
    evals: tuple[EvalSpec, ...] = (), experiments: tuple[ExperimentSpec, ...] = (), broken: tuple[str, ...] = ()
) -> Project:
    problems = tuple(ProjectError("load-failed", error="x", others="y") for _ in broken)
    return Project(
        root=Path("/p"), config=ConfigSpec(), evals=evals, experiments=experiments, problems=problems, broken=broken
    )


EVALS = (
    an_eval("sql/0000"),
    an_eval("sql/0001", "slow"),
    an_eval("sqlite", "slow"),
    an_eval("weather/brooklyn", "smoke"),
)
EXPERIMENTS = tuple(an_experiment(id) for id in ("compare", "compare/bub", "compare/codex", "local", "sizes/s/1"))
PROJECT = a_project(EVALS, EXPERIMENTS)


def error_of(call: Callable[[], object]) -> SelectionError:
    with pytest.raises(SelectionError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize(
    ("prefix", "ids"),
    [("sql", ["sql/0000", "sql/0001"]), ("sql/", ["sql/0000", "sql/0001"]), ("sqlite", ["sqlite"]), ("sql/0", [])],
)
def test_a_prefix_is_an_id_or_a_folder(prefix: str, ids: list[str]) -> None:
    """Never a part of a word."""
    assert [spec.id for spec in evals_with_prefixes(EVALS, [prefix])] == ids


def test_under_takes_whole_segments() -> None:
    """`sql` does not hold `sqlite`."""
    assert under("sql/a", "sql")
    assert not under("sqlite", "sql")


@pytest.mark.parametrize(
    ("selector", "ids"),
    [
        (None, ["compare", "compare/bub", "compare/codex", "local", "sizes/s/1"]),
        ("compare", ["compare"]),
        ("compare/bub", ["compare/bub"]),
        ("sizes", ["sizes/s/1"]),
        ("sizes/s/", ["sizes/s/1"]),
    ],
)
def test_a_selector_is_an_exact_id_else_a_group(selector: str | None, ids: list[str]) -> None:
    """Nothing means every experiment."""
    assert [one.id for one in experiments_matching(PROJECT, selector)] == ids


UNKNOWN = [
    ("compar", 'no experiment or group "compar"; "compare" is close', "niceeval exp compare"),
    ("experiments/local.py", 'no experiment or group "experiments/local.py"; "local" is close', "niceeval exp local"),
    ("experiments\\compare\\bub.py", None, "niceeval exp compare/bub"),
    ("experiments/compare", None, "niceeval exp compare"),
    ("evals/weather/brooklyn_eval.py", None, "niceeval exp compare weather/brooklyn"),
    ("xyz", 'no experiment or group "xyz"', "niceeval exp list"),
    (
        "weather/brooklyn",
        '"weather/brooklyn" is an eval; exp takes the experiment first',
        "niceeval exp compare weather/brooklyn",
    ),
    ("weather", '"weather" is an eval; exp takes the experiment first', "niceeval exp compare weather"),
]


@pytest.mark.parametrize(("word", "message", "command"), UNKNOWN, ids=[row[0] for row in UNKNOWN])
def test_an_unknown_selector_is_told_what_is_close(word: str, message: str | None, command: str) -> None:
    """A command to copy goes with it."""
    error = error_of(lambda: experiments_matching(PROJECT, word))
    assert (message or str(error), error.next_step()) == (str(error), command)


def test_a_path_of_an_eval_is_told_the_id() -> None:
    """Shells complete paths, and nobody types an id who has one."""
    error = error_of(lambda: narrow(PROJECT, ["./evals/weather/brooklyn_eval.py"], None, PROJECT.experiments))
    assert (error.code, error.next_step()) == ("nothing-selected", "write weather/brooklyn, its id")


def test_without_experiments() -> None:
    """Whether one is asked for or not."""
    assert error_of(lambda: experiments_matching(a_project(), None)).code == "no-experiments"
    assert error_of(lambda: experiments_matching(a_project(), "local")).code == "no-experiments"


def test_what_a_broken_file_would_hold_is_not_called_unknown() -> None:
    """The file's own problem is the thing to say."""
    project = a_project(EVALS, EXPERIMENTS, broken=("experiments/new/one.py", "evals/deep/x_eval.py"))
    for word in ("new", "new/one", "new/one/key"):
        assert experiments_matching(project, word) == []
    assert narrow(project, ["deep/x/0000"], None, EXPERIMENTS) == []


def test_command_line_prefixes_must_hit_something() -> None:
    """Each of them; and the message names the experiment where there is one."""
    local = [EXPERIMENTS[3]]
    assert [spec.id for spec in narrow(PROJECT, ["sqlite", "weather"], None, local)] == ["sqlite", "weather/brooklyn"]
    error = error_of(lambda: narrow(PROJECT, ["sqlite", "weather/brook"], None, local))
    assert error.code == "nothing-selected"
    assert str(error) == 'no eval of local is "weather/brook" or under "weather/brook/"; "weather/brooklyn" is close'


def test_a_prefix_must_hit_what_the_experiments_select() -> None:
    """An eval that none of them runs is no hit."""
    only_sql = [an_experiment("local", ("sql",))]
    assert str(error_of(lambda: narrow(PROJECT, ["weather"], None, only_sql))).startswith("no eval of local is")


def test_tags_narrow_and_a_near_one_is_named() -> None:
    """Together with prefixes."""
    assert [spec.id for spec in narrow(PROJECT, ["sql"], "slow", EXPERIMENTS)] == ["sql/0001"]
    assert str(error_of(lambda: narrow(PROJECT, [], "slo", EXPERIMENTS))) == (
        'no eval has the tag "slo"; "slow" is close'
    )
    assert str(error_of(lambda: tagged_or_raise(PROJECT, "smok"))) == 'no eval has the tag "smok"; "smoke" is close'


def by_tag(info: EvalInfo) -> bool:
    return "slow" in info.tags


@pytest.mark.parametrize(
    ("selector", "ids"),
    [
        ("*", ["sql/0000", "sql/0001", "sqlite", "weather/brooklyn"]),
        (("sql", "weather/brooklyn"), ["sql/0000", "sql/0001", "weather/brooklyn"]),
        ((), []),
        (by_tag, ["sql/0001", "sqlite"]),
    ],
    ids=["all", "prefixes", "none", "predicate"],
)
def test_an_experiment_selects_its_evals(selector: EvalSelector, ids: list[str]) -> None:
    """All, some by prefix, none for an empty list, or whatever a predicate says."""
    assert [spec.id for spec in evals_of(an_experiment("local", selector), EVALS)] == ids


def raising(info: EvalInfo) -> bool:
    raise KeyError(info.id)


def vague(info: EvalInfo) -> bool:
    return info.tags  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("predicate", "said"),
    [(raising, "raised KeyError for sql/0000"), (vague, "gave tuple for sql/0000; it answers True or False")],
    ids=["raising", "vague"],
)
def test_a_predicate_that_cannot_say(predicate: Callable[[EvalInfo], bool], said: str) -> None:
    """It is the experiment's error, and names the eval it was asked about."""
    with pytest.raises(NiceevalError) as caught:
        evals_of(an_experiment("local", predicate), EVALS)
    assert said in str(caught.value)
    assert str(caught.value.place) == "experiments/local.py:1"


def test_a_prefix_in_an_experiment_that_nothing_has_is_a_problem() -> None:
    """A typing error there would leave evals out for ever, in silence."""
    experiment = an_experiment("local", ("sql", "wether"))
    (problem,) = dead_prefixes(PROJECT, experiment)
    assert str(problem) == 'evals= of local: no eval is "wether" or under "wether/"'


def test_an_experiment_that_does_not_load_does_not_make_its_evals_unknown() -> None:
    """What is wrong with its file is said; that there was no such eval would be another thing, and not so."""
    project = a_project(EVALS, (), broken=("experiments/local.py",))
    assert [spec.id for spec in narrow(project, ["sqlite"], None, [])] == ["sqlite"]
    assert error_of(lambda: narrow(project, ["nothing"], None, [])).code == "nothing-selected"
