"""Discovery: where a project is, what its files define, and how a file that cannot be used is named."""

from __future__ import annotations

import inspect
import os
import pickle
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from niceeval._base.errors import NiceevalError, ProjectError, SelectionError
from niceeval._discover.define_experiment import define_experiment
from niceeval._discover.dotenv import parse_dotenv
from niceeval._discover.project import find_root, load_project
from niceeval._discover.specs import MISSING
from niceeval.adapter import Turn, complete_evidence_coverage, define_agent
from tests.unit.project_files import AGENT, EVAL, EXPERIMENT, load_files, write_files


def problem_of(root: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> NiceevalError:
    """The one problem of a project that otherwise has nothing wrong."""
    project = load_files(root, monkeypatch, files)
    assert len(project.problems) == 1, project.problems
    return project.problems[0]


@pytest.mark.parametrize("mark", ["niceeval_config.py", "evals/", "experiments/"])
def test_the_root_is_the_nearest_parent_with_one_of_three_marks(tmp_path: Path, mark: str) -> None:
    """Any of them is enough, from however deep below."""
    below = tmp_path / "outer" / "inner" / "deep"
    below.mkdir(parents=True)
    marked = tmp_path / "outer" / mark
    marked.mkdir() if mark.endswith("/") else marked.write_text("")
    assert find_root(below) == tmp_path / "outer"


def test_no_mark_anywhere_is_no_project(tmp_path: Path) -> None:
    """The error says what was looked for."""
    with pytest.raises(SelectionError) as caught:
        find_root(tmp_path)
    assert caught.value.code == "no-project"


def test_ids_come_from_paths_and_function_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file's only eval has the path, several have the function's name behind it; sorted; other files do not count."""
    two = EVAL + "\n@define_eval()\nasync def two(t):\n    pass\n"
    project = load_files(
        tmp_path,
        monkeypatch,
        {
            "evals/weather/brooklyn_eval.py": EVAL,
            "evals/both_eval.py": two,
            "evals/gpt-5.4_eval.py": EVAL,
            "evals/helper.py": "raise ValueError",
            "evals/.hidden/x_eval.py": "raise ValueError",
        },
    )
    assert [spec.id for spec in project.evals] == ["both/one", "both/two", "gpt-5.4", "weather/brooklyn"]
    assert project.problems == ()


def test_an_eval_knows_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file twice, the line of its decorator, and no row."""
    (spec,) = load_files(tmp_path, monkeypatch, {"evals/sub/a_eval.py": EVAL}).evals
    assert (spec.file, spec.path) == (tmp_path / "evals/sub/a_eval.py", "evals/sub/a_eval.py")
    assert (spec.line, spec.column, spec.row) == (3, 1, MISSING)


def test_imported_evals_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a module defines itself is its eval."""
    importing = "from evals.a_eval import one\n" + EVAL.replace("one", "own")
    project = load_files(tmp_path, monkeypatch, {"evals/a_eval.py": EVAL, "evals/b_eval.py": importing})
    assert [(spec.id, spec.function.__name__) for spec in project.evals] == [("a", "one"), ("b", "own")]


def test_a_decorator_above_define_eval_takes_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in the module is what runs."""
    text = """
    import functools
    from niceeval import define_eval

    def noted(function):
        @functools.wraps(function)
        async def wrapper(t):
            wrapper.noted = True
            return await function(t)
        return wrapper

    @noted
    @define_eval()
    async def one(t):
        pass
    """
    (spec,) = load_files(tmp_path, monkeypatch, {"evals/a_eval.py": text}).evals
    assert spec.function.__wrapped__.__name__ == "one"  # type: ignore[attr-defined]


def test_a_decorator_that_does_not_wrap_takes_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also above @define_eval, where nothing but its closure leads from what it returned to the eval."""
    text = "from niceeval import define_eval\nfrom adapters.helpers import retry\n@retry\n@define_eval()\n"
    files = {"evals/a_eval.py": f"{text}async def one(t): ...\n", "adapters/helpers.py": HELPERS}
    (spec,) = load_files(tmp_path, monkeypatch, files).evals
    assert (spec.id, spec.function.__name__) == ("a", "wrapper")


HELPERS = """
from niceeval import define_eval

def retry(function):
    async def wrapper(t):
        return await function(t)
    return wrapper

def made(city):
    @define_eval(description=city)
    async def asks(t):
        pass
    return asks

shared = made("Rome")
"""

ELSEWHERE = [
    ("@define_eval()\n@retry\nasync def important(t): ...", ["a/important"], 5),
    ("paris = made('Paris')\noslo = made('Oslo')", ["a/oslo", "a/paris"], 5),
    ("made('Paris')", ["a/asks"], 5),
    ("from adapters.helpers import shared", [], 0),
]


@pytest.mark.parametrize(("text", "ids", "line"), ELSEWHERE, ids=["decorator", "factory", "unbound", "imported"])
def test_an_eval_whose_function_is_written_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, ids: list[str], line: int
) -> None:
    """It is one of the file that made it, by the name it has there, and stands where it was asked for."""
    header = "from niceeval import define_eval\nfrom adapters.helpers import made, retry\n@define_eval()\n"
    text = f"{header}async def own(t): ...\n{text}\n"
    project = load_files(tmp_path, monkeypatch, {"evals/a_eval.py": text, "adapters/helpers.py": HELPERS})
    assert [spec.id for spec in project.evals] == (sorted([*ids, "a/own"]) if ids else ["a"])
    assert project.problems == ()
    first = min((spec for spec in project.evals if spec.id in ids), key=lambda spec: spec.line, default=None)
    assert first is None or str(first.place).startswith(f"evals/a_eval.py:{line}")


def test_evals_of_one_line_are_not_silently_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A factory makes every eval at the same place; without a name each, they cannot be told apart."""
    text = "from adapters.helpers import made\nEVALS = [made(city) for city in ('Paris', 'Oslo')]\n"
    problem = problem_of(tmp_path, monkeypatch, {"evals/a_eval.py": text, "adapters/helpers.py": HELPERS})
    assert (problem.code, problem.fields["id"]) == ("duplicate-id", "a/asks")


def test_a_function_is_one_eval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decorated twice, what was said first would be lost."""
    text = "from niceeval import define_eval\n@define_eval(tags=['a'])\n@define_eval()\nasync def one(t): ...\n"
    problem = problem_of(tmp_path, monkeypatch, {"evals/a_eval.py": text})
    assert "decorates one, which is an eval already" in str(problem)


def test_an_object_that_answers_nothing_takes_no_eval_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of a web framework raises at every touch while there is no request."""
    text = """
    class Proxy:
        def __call__(self): ...
        def __getattribute__(self, name):
            raise RuntimeError("no request")

    current = Proxy()
    """
    project = load_files(tmp_path, monkeypatch, {"evals/a_eval.py": dedent(text) + EVAL})
    assert ([spec.id for spec in project.evals], project.problems) == (["a"], ())


HOSTILE_SWEEP = """
from collections.abc import Mapping
from adapters.bots import bot
from niceeval import define_experiment

class Sweep(Mapping):
    def __getitem__(self, key):
        raise SystemExit(0)
    def __iter__(self):
        return iter("ab")
    def __len__(self):
        return 2

experiments = Sweep()
"""


def test_a_file_that_fails_when_it_is_read_is_its_own_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ran to its end; what it left behind does not do what it should. The others are loaded."""
    files = {"experiments/bad.py": HOSTILE_SWEEP, "experiments/good.py": EXPERIMENT}
    project = load_files(tmp_path, monkeypatch, files)
    assert [one.id for one in project.experiments] == ["good"]
    assert [(one.code, str(one.place)) for one in project.problems] == [("load-failed", "experiments/bad.py:7:9")]


def test_a_dangling_link_below_evals_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds no eval that nobody would run."""
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/gone.py").symlink_to(tmp_path / "nowhere.py")
    assert load_files(tmp_path, monkeypatch, {"evals/a_eval.py": EVAL}).warnings == ()


MODULE = """
from __future__ import annotations
import dataclasses, enum
from niceeval import define_eval

@dataclasses.dataclass
class Row:
    city: str
    limit: dataclasses.InitVar[int] = 1

class Kind(enum.Enum):
    A = 1

@define_eval()
async def one(t):
    pass
"""


def test_loaded_files_behave_like_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dataclasses under future annotations, pickling and getsource work, whatever the file is called."""
    (spec,) = load_files(tmp_path, monkeypatch, {"evals/gpt-5.4 x_eval.py": MODULE}).evals
    module = sys.modules[spec.function.__module__]
    assert pickle.loads(pickle.dumps(module.Row("Oslo"))) == module.Row("Oslo")
    assert pickle.loads(pickle.dumps(spec.function)) is spec.function
    assert "class Kind" in inspect.getsource(module.Kind)
    assert inspect.getsource(spec.function).startswith("@define_eval()")


def test_a_changed_file_is_loaded_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No byte code is left behind that could hide a change made within the same second."""
    files = {"evals/a_eval.py": EVAL}
    assert [spec.id for spec in load_files(tmp_path, monkeypatch, files).evals] == ["a"]
    project = load_files(tmp_path, monkeypatch, {"evals/a_eval.py": EVAL.replace("()", "(tags=['new'])", 1)})
    assert project.evals[0].tags == ("new",)
    assert not (tmp_path / "evals" / "__pycache__").exists()


FAILURES = [
    ("import adaptrs", "ModuleNotFoundError: No module named 'adaptrs'", 1, 1),
    ("x = 1\nraise ValueError('no city')", "ValueError: no city", 2, 1),
    ("def f(:", "SyntaxError: invalid syntax", 1, 7),
    ("import sys\nsys.exit('stop')", "SystemExit: stop", 2, 1),
    ("raise BaseException", "BaseException", 1, 1),
    (
        "class E(Exception):\n    def __str__(self):\n        1 / 0\nraise E",
        "E: (its text raises ZeroDivisionError)",
        4,
        1,
    ),
    ("def f():\n    f()\nf()", "RecursionError: maximum recursion depth exceeded", 2, 5),
]


@pytest.mark.parametrize(("text", "message", "line", "column"), FAILURES, ids=[row[1][:25] for row in FAILURES])
def test_a_file_that_fails_is_named_and_the_rest_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str, line: int, column: int
) -> None:
    """Whatever it raises, SystemExit too, is that file's problem, with the last line of the project's own."""
    files = {"evals/bad_eval.py": text, "evals/good_eval.py": EVAL, "experiments/local.py": EXPERIMENT}
    project = load_files(tmp_path, monkeypatch, files)
    (problem,) = project.problems
    assert (problem.code, str(problem)) == ("load-failed", message)
    assert str(problem.place) == f"evals/bad_eval.py:{line}:{column}"
    assert problem.next_step() == "fix this file; the other 2 were loaded"
    assert [spec.id for spec in project.evals] == ["good"]
    assert not [name for name in sys.modules if "bad_eval" in name]


def test_the_frames_are_the_projects_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error deep in an adapter is placed there, and says which file led to it; no library frame, none of ours."""
    files = {
        "evals/a_eval.py": "from adapters.deep import load\n\nload()",
        "adapters/deep.py": "import json\n\ndef load():\n    return json.loads('{')",
    }
    problem = problem_of(tmp_path, monkeypatch, files)
    assert str(problem.place) == "adapters/deep.py:4:12"
    assert problem.frames == "evals/a_eval.py:3:1\n    load()"


def test_ctrl_c_while_loading_is_not_a_files_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything else is caught; this is the user, not the file."""
    with pytest.raises(KeyboardInterrupt):
        load_files(tmp_path, monkeypatch, {"evals/a_eval.py": "raise KeyboardInterrupt"})


def test_what_a_file_prints_does_not_reach_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """stdout is the command's answer, which may be JSON."""
    load_files(tmp_path, monkeypatch, {"evals/a_eval.py": "print('loading')\n" + EVAL})
    assert capsys.readouterr() == ("", "loading\n")


PROBLEMS = [
    ("evals/a_eval.py", "x = 1", "no-eval", "evals/a_eval.py:1:1"),
    (
        "evals/a_eval.py",
        "def f(): ...\nfrom niceeval import define_eval\ndefine_eval()(f)",
        "not-async",
        "evals/a_eval.py:3:1",
    ),
    (
        "evals/a_eval.py",
        "from niceeval import define_eval\n@define_eval()\nasync def f(t, row): ...",
        "wrong-parameters",
        "evals/a_eval.py:2:2",
    ),
    (
        "evals/a_eval.py",
        "from niceeval import define_eval\n@define_eval()\nasync def f(): ...",
        "wrong-parameters",
        "evals/a_eval.py:2:2",
    ),
    (
        "evals/a_eval.py",
        "from niceeval import define_eval\n@define_eval(cases=[1])\nasync def f(t): ...",
        "wrong-parameters",
        "evals/a_eval.py:2:2",
    ),
    (
        "evals/a_eval.py",
        "from niceeval import define_eval\n@define_eval()\nasync def f(t, *, x): ...",
        "wrong-parameters",
        "evals/a_eval.py:2:2",
    ),
    (
        "evals/a_eval.py",
        "from niceeval import define_eval\n@define_eval()\nasync def f(t): yield",
        "not-async",
        "evals/a_eval.py:2:2",
    ),
    (
        "evals/a_eval.py",
        "from niceeval import define_eval\n@define_eval\nasync def f(t): ...",
        "bad-argument",
        "evals/a_eval.py:2:2",
    ),
    (
        "evals/a_eval.py",
        "from niceeval import define_eval\n@define_eval(\n    tags='smoke')\nasync def f(t): ...",
        "bad-argument",
        "evals/a_eval.py:3:5",
    ),
    (
        "evals/a_eval.py",
        "from niceeval import define_eval\n@define_eval(timeout=0)\nasync def f(t): ...",
        "bad-argument",
        "evals/a_eval.py:2:14",
    ),
    (
        "evals/a_eval.py",
        "from niceeval import define_eval\n@define_eval(judge=1)\nasync def f(t): ...",
        "bad-argument",
        "evals/a_eval.py:2:14",
    ),
    ("evals/_eval.py", EVAL, "bad-id", "evals/_eval.py:3:2"),
    ("experiments/x.py", "x = 1", "no-experiment", "experiments/x.py:1:1"),
    ("experiments/x.py", "experiment = 1", "bad-argument", "experiments/x.py:1:1"),
    ("experiments/x.py", "experiments = [1]", "bad-argument", "experiments/x.py:1:1"),
    ("experiments/x.py", EXPERIMENT + "experiments = {'a/b': experiment}", "bad-id", "experiments/x.py:1:1"),
    ("experiments/list.py", EXPERIMENT, "bad-id", "experiments/list.py:1:1"),
    ("niceeval_config.py", "x = 1", "no-config", "niceeval_config.py:1:1"),
    ("niceeval_config.py", "import nothing_like_it", "load-failed", "niceeval_config.py:1:1"),
    (
        "niceeval_config.py",
        "from niceeval import define_config\nconfig = define_config(timeout=-1)",
        "bad-argument",
        "niceeval_config.py:2:24",
    ),
]


@pytest.mark.parametrize(
    ("file", "text", "code", "place"), PROBLEMS, ids=[f"{row[2]}-{i}" for i, row in enumerate(PROBLEMS)]
)
def test_a_mistake_in_a_file_has_a_code_and_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, code: str, place: str
) -> None:
    """Each is one problem, at the argument or line that has to change."""
    problem = problem_of(tmp_path, monkeypatch, {file: text, "evals/good_eval.py": EVAL})
    assert (problem.code, str(problem.place)) == (code, place)


def test_two_files_with_one_id_are_both_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one stays."""
    fan_out = "from niceeval import define_eval\n@define_eval(cases=[1])\nasync def f(t, row): ..."
    problem = problem_of(tmp_path, monkeypatch, {"evals/sql_eval.py": fan_out, "evals/sql/0000_eval.py": EVAL})
    assert str(problem) == "sql/0000 is defined twice (evals/sql_eval.py:2:1 and evals/sql/0000_eval.py:3:1)"
    assert problem.next_step() == "rename one file"


def test_a_function_defined_twice_is_not_silently_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python keeps the second `def`; an eval that vanished would be a check that nobody misses."""
    problem = problem_of(tmp_path, monkeypatch, {"evals/a_eval.py": EVAL + EVAL})
    assert (problem.code, problem.fields["id"]) == ("duplicate-id", "a/one")


def test_experiments_have_ids_groups_and_sweeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path; and for the entries of `experiments`, the path and the key."""
    sweep = EXPERIMENT + "experiments = {f'{n}': experiment.replace(model=f'acme-{n}') for n in (1, 2)}\ndel experiment"
    project = load_files(
        tmp_path,
        monkeypatch,
        {
            "experiments/compare/gpt-5.4.py": EXPERIMENT,
            "experiments/local.py": EXPERIMENT,
            "experiments/sizes.py": sweep,
            "experiments/compare/__init__.py": "",
        },
    )
    found = [(one.id, one.group, one.model) for one in project.experiments]
    assert found == [
        ("compare/gpt-5.4", "compare", None),
        ("local", "", None),
        ("sizes/1", "sizes", "acme-1"),
        ("sizes/2", "sizes", "acme-2"),
    ]
    assert str(project.experiments[1].place) == "experiments/local.py:4:14"


AGENT_VALUE = define_agent(name="bot", evidence_coverage=complete_evidence_coverage, send=lambda input, ctx: Turn())

FLAGS = [
    ({"prompt": {1, 2}}, "flags.prompt is not JSON: it is a set"),
    ({"a": {"b": [1, float("nan")]}}, "flags.a.b[1] is not JSON: it is nan"),
    ({"a": (1, 2)}, "flags.a is not JSON: it is a tuple"),
    ({"a": {1: 2}}, "flags.a is not JSON: it has the key 1, and keys are text"),
    ({"a": Path}, "flags.a is not JSON: it is the class Path"),
]


@pytest.mark.parametrize(("flags", "message"), FLAGS, ids=[row[1] for row in FLAGS])
def test_flags_are_json_and_the_bad_value_is_named(flags: dict[str, object], message: str) -> None:
    """The path leads to it."""
    with pytest.raises(ProjectError) as caught:
        define_experiment(agent=AGENT_VALUE, flags=flags)
    assert (caught.value.code, str(caught.value)) == ("flags-not-json", message)


def test_flags_cannot_be_changed_from_outside() -> None:
    """They are copied, so that a shared mapping does not move under a run."""
    shared: dict[str, object] = {"list": [1]}
    experiment = define_experiment(agent=AGENT_VALUE, flags=shared)
    shared["list"] = 2
    assert experiment.flags == {"list": [1]}


def test_a_cyclic_flag_is_an_error_and_no_endless_loop() -> None:
    """It is deeper than anything JSON needs."""
    cyclic: list[object] = []
    cyclic.append(cyclic)
    with pytest.raises(ProjectError, match="deeper than"):
        define_experiment(agent=AGENT_VALUE, flags={"a": cyclic})


ARGUMENTS = [
    ({"agent": bytes}, "agent is the class bytes; it is an Agent"),
    ({"runs": 0}, "runs is 0; it is a whole number from 1"),
    ({"runs": True}, "runs is True; it is a whole number from 1"),
    ({"early_exit": 1}, "early_exit is 1; it is True or False"),
    ({"evals": "sql"}, 'evals is the text "sql"'),
    ({"evals": [1]}, "evals is a list; it is a list of texts"),
    ({"labels": {"line": 1}}, 'labels holds 1 under "line"; it is text there'),
    ({"timeout": float("inf")}, "timeout is inf; it is a positive number of seconds"),
    ({"max_concurrency": -1}, "max_concurrency is -1; it is a whole number from 1"),
    ({"setup": "x"}, "setup is 'x'; it is a function"),
    ({"model": ""}, "model is ''; it is text"),
]


@pytest.mark.parametrize(("given", "message"), ARGUMENTS, ids=[row[1] for row in ARGUMENTS])
def test_an_experiments_arguments_are_checked(given: dict[str, object], message: str) -> None:
    """The message names the argument, what it is and what it should be; `replace` checks alike."""
    with pytest.raises(ProjectError) as caught:
        define_experiment(**{"agent": AGENT_VALUE, **given})  # type: ignore[arg-type]
    assert str(caught.value).removeprefix("define_experiment: ") == message
    with pytest.raises(ProjectError, match="replace: "):
        define_experiment(agent=AGENT_VALUE).replace(**given)  # type: ignore[arg-type]


def test_replace_keeps_what_it_is_not_given() -> None:
    """And can take a value back to None."""
    base = define_experiment(agent=AGENT_VALUE, model="acme-1", runs=3, evals=["sql"], timeout=5)
    other = base.replace(model=None, evals="*")
    assert (other.model, other.runs, other.evals, other.timeout) == (None, 3, "*", 5.0)


DOTENV = [
    ("A=1", {"A": "1"}),
    ("export A = 1 ", {"A": "1"}),
    ("A='x # y'", {"A": "x # y"}),
    ('A="x\\n\\"y\\"" # why', {"A": 'x\n"y"'}),
    ("A='x\\n'", {"A": "x\\n"}),
    ("A=x # why", {"A": "x"}),
    ("A=x#y", {"A": "x#y"}),
    ("A=", {"A": ""}),
    ("A=#no", {"A": ""}),
    ('A="one\ntwo"\nB=2', {"A": "one\ntwo", "B": "2"}),
    ("# A=1\n\n  B=2\r\nB=3", {"B": "3"}),
    ("\ufeffA=a=b", {"A": "a=b"}),
    ("A=$B", {"A": "$B"}),
]


@pytest.mark.parametrize(("text", "found"), DOTENV, ids=[repr(row[0]) for row in DOTENV])
def test_dotenv_lines(text: str, found: dict[str, str]) -> None:
    """Quotes, comments, `export`, and no expansion."""
    assert parse_dotenv(text) == (found, [])


@pytest.mark.parametrize("text", ["A", "1A=2", 'A="x', "A='x' y", "=1"])
def test_a_dotenv_line_that_is_not_understood_is_numbered(text: str) -> None:
    """The others are taken all the same."""
    assert parse_dotenv(f"B=1\n{text}\nC=2") == ({"B": "1", "C": "2"}, [2])


def test_dotenv_overrides_nothing_and_is_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is set stays; what the file says is kept from results all the same."""
    monkeypatch.setenv("NICEEVAL_TEST_SET", "from-outside")
    monkeypatch.setenv("NICEEVAL_TEST_API_KEY", "x")
    monkeypatch.delenv("NICEEVAL_TEST_API_KEY")
    dotenv = "NICEEVAL_TEST_SET=from-file\nNICEEVAL_TEST_API_KEY=sk-very-secret\nwhat is this\n"
    project = load_files(tmp_path, monkeypatch, {".env": dotenv, "evals/a_eval.py": EVAL})
    assert (os.environ["NICEEVAL_TEST_SET"], os.environ["NICEEVAL_TEST_API_KEY"]) == ("from-outside", "sk-very-secret")
    assert "sk-very-secret" in project.secrets
    assert [(one.code, str(one.place)) for one in project.warnings] == [("dotenv", ".env:3")]


def test_a_folder_that_an_import_would_miss_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The root comes last on the path, so an installed distribution, or Python itself, wins."""
    files = {"json/x.py": "", "pytest/y.py": "", "notes/readme.md": "", "evals/a_eval.py": EVAL}
    project = load_files(tmp_path, monkeypatch, files)
    assert [one.fields["name"] for one in project.warnings] == ["json", "pytest"]
    assert project.problems == ()


def test_evals_under_a_name_that_nothing_loads_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be checks that never run; a file that only helps others is none."""
    files = {"evals/weather.py": EVAL, "evals/shared.py": "CITY = 'Oslo'\n", "evals/a_eval.py": EVAL}
    project = load_files(tmp_path, monkeypatch, files)
    assert [(one.code, str(one.place), one.next_step()) for one in project.warnings] == [
        ("eval-file-name", "evals/weather.py:1:1", "rename it weather_eval.py")
    ]


def test_the_same_project_found_from_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Places are named from the folder the user stands in."""
    write_files(tmp_path, {"evals/sub/a_eval.py": "x = 1", "adapters/bots.py": AGENT})
    monkeypatch.chdir(tmp_path / "evals" / "sub")
    monkeypatch.setattr(sys, "path", list(sys.path))
    (problem,) = load_project(Path.cwd()).problems
    assert str(problem.place) == "a_eval.py:1:1"
