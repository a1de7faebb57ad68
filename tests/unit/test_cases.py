"""Fan-out: one eval for each row, with ids, converted rows, and errors that name the row's own line."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval._base.errors import NiceevalError
from niceeval._discover.ids import segment_problem
from niceeval._discover.specs import Project
from tests.unit.project_files import EVAL, load_files

HEADER = """
from __future__ import annotations
import dataclasses
from typing import TypedDict
import msgspec, pydantic
from niceeval import define_eval
from niceeval.loaders import load_csv, load_json, load_jsonl, load_yaml

class Typed(TypedDict):
    q: str
    limit: int

@dataclasses.dataclass
class Data:
    q: str
    limit: int = 3

class Struct(msgspec.Struct):
    q: str
    limit: int = 3
    tags: list[str] = []

class Model(pydantic.BaseModel):
    q: str
    limit: int = 3

"""

CASES_PLACE = "evals/sql_eval.py:26:14"
ANNOTATION_PLACE = "evals/sql_eval.py:27:36"
"""Where `cases=` and the row's annotation stand in what `eval_text` gives."""


def eval_text(arguments: str, row: str = "row") -> str:
    return f"{HEADER}@define_eval({arguments})\nasync def one(t: EvalContext, {row}) -> None: ...\n"


def project_of(root: Path, monkeypatch: pytest.MonkeyPatch, text: str, data: dict[str, str] | None = None) -> Project:
    return load_files(root, monkeypatch, {"evals/sql_eval.py": text, **(data or {})})


def problem_of(project: Project) -> NiceevalError:
    assert len(project.problems) == 1, project.problems
    return project.problems[0]


def test_a_sequence_gives_numbered_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four places, in the rows' own order; None is a row too."""
    specs = project_of(tmp_path, monkeypatch, eval_text("cases=['b', None, 'a']")).evals
    assert [(spec.id, spec.base, spec.case, spec.row) for spec in specs] == [
        ("sql/0000", "sql", "0000", "b"),
        ("sql/0001", "sql", "0001", None),
        ("sql/0002", "sql", "0002", "a"),
    ]


def test_a_mapping_gives_its_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be in any script, and stay in their order."""
    specs = project_of(tmp_path, monkeypatch, eval_text("cases={'z-1.0': 1, '东京': 2}")).evals
    assert [(spec.id, spec.row) for spec in specs] == [("sql/z-1.0", 1), ("sql/东京", 2)]


def test_more_than_ten_thousand_rows_keep_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number grows a place; it is not sorted as text."""
    specs = project_of(tmp_path, monkeypatch, eval_text("cases=range(10_001)")).evals
    assert [spec.id for spec in specs[-2:]] == ["sql/9999", "sql/10000"]


@pytest.mark.parametrize("key", ["a/b", "", "..", "a\\b", "-x", "@x", " x", "a\nb", "x" * 201])
def test_a_key_is_one_path_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """What cannot be a folder, an argument or a line of its own cannot be a key."""
    problem = problem_of(project_of(tmp_path, monkeypatch, eval_text(f"cases={{{key!r}: 1}}")))
    assert (problem.code, str(problem.place)) == ("bad-case-key", CASES_PLACE)


@given(st.text())
def test_an_allowed_segment_is_harmless(segment: str) -> None:
    """Whatever passes is no place in the file system, no option, and is seen as it is."""
    if segment_problem(segment) is None:
        assert segment not in ("", ".", "..")
        assert segment.isprintable()
        assert not {"/", "\\"} & set(segment)


CASES = [
    ("cases=[]", "empty-cases"),
    ("cases={}", "empty-cases"),
    ("cases=None", "bad-argument"),
    ("cases='abc'", "bad-argument"),
    ("cases=(n for n in range(3))", "bad-argument"),
    ("cases={1: 2}", "bad-case-key"),
]


@pytest.mark.parametrize(("arguments", "code"), CASES, ids=[row[0] for row in CASES])
def test_cases_that_give_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, code: str) -> None:
    """The place is that of `cases=`."""
    problem = problem_of(project_of(tmp_path, monkeypatch, eval_text(arguments)))
    assert (problem.code, str(problem.place)) == (code, CASES_PLACE)


@pytest.mark.parametrize("kind", ["Typed", "Data", "Struct", "Model"])
def test_a_row_becomes_what_it_is_annotated_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A TypedDict, a dataclass, a msgspec Struct, a pydantic model."""
    (spec,) = project_of(tmp_path, monkeypatch, eval_text("cases=[{'q': 'x', 'limit': 5}]", f"row: {kind}")).evals
    row = spec.row
    assert (type(row).__name__, row["q"] if isinstance(row, dict) else row.q) == (  # type: ignore[attr-defined]
        "dict" if kind == "Typed" else kind,
        "x",
    )


@pytest.mark.parametrize("annotation", ["row", "row: dict", "row: dict[str, object]", "row: object"])
def test_other_annotations_leave_the_row_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, annotation: str
) -> None:
    """It is the author's own value."""
    (spec,) = project_of(tmp_path, monkeypatch, eval_text("cases=[{'q': 1}]", annotation)).evals
    assert spec.row == {"q": 1}


def test_a_row_that_is_one_already_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The very object."""
    text = eval_text("cases=[ROW]", "row: Data").replace("@define", "ROW = Data('x')\n@define")
    (spec,) = project_of(tmp_path, monkeypatch, text).evals
    assert spec.row is spec.function.__globals__["ROW"]


@pytest.mark.parametrize(
    ("row", "kind", "message"),
    [
        ("{'q': 'x', 'limit': 'ten'}", "Data", 'case 0000, field limit: expected int, got "ten"'),
        ("{'q': 'x', 'limit': '10'}", "Struct", 'case 0000, field limit: expected int, got "10"'),
        ("{'q': 'x'}", "Typed", "case 0000, field limit: is missing"),
        ("{'q': 'x', 'tags': ['a', 1]}", "Struct", "case 0000, field tags[1]: expected str, got 1"),
        ("3", "Data", "case 0000, field (the row): expected object, got 3"),
        (
            "{'q': 'x', 'limit': 'ten'}",
            "Model",
            'case 0000, field limit: input should be a valid integer, got "ten"',
        ),
        ("{'q': 'x', 'limit': '5'}", "Model", 'case 0000, field limit: input should be a valid integer, got "5"'),
        ("{'q': 1}", "Model", "case 0000, field q: input should be a valid string, got 1"),
        ("{'q': 'x', 'limit': {1}}", "Model", "case 0000, field limit: input should be a valid integer, got {1}"),
        ("{'limit': 1}", "Model", "case 0000, field q: is missing"),
    ],
)
def test_a_row_that_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str, kind: str, message: str
) -> None:
    """The error names the case, the field, what came, and where the annotation is."""
    problem = problem_of(project_of(tmp_path, monkeypatch, eval_text(f"cases=[{row}]", f"row: {kind}")))
    assert (problem.code, str(problem)) == ("case-row", message)
    assert str(problem.place) == CASES_PLACE
    assert problem.next_step() == "correct the row, or the annotation at evals/sql_eval.py:27:36"


DATA = [
    ("load_yaml('data.yaml')", "data.yaml", "- {q: a, limit: 1}\n- q: b\n  limit: ten\n", "3:10"),
    ("load_yaml('data.yaml')['rows']", "data.yaml", "rows:\n  - {q: a, limit: 1}\n  - {q: b, limit: ten}\n", "3:19"),
    ("[r for r in load_yaml('data.yaml') if r['q'] == 'b']", "data.yaml", "- {q: a}\n- {q: b, limit: ten}\n", "2:17"),
    ("load_json('data.json')", "data.json", '[{"q": "a"},\n {"q": "b",\n  "limit": "ten"}]', "3:12"),
    ("load_jsonl('data.jsonl')", "data.jsonl", '{"q": "a"}\n\n{"q": "b", "limit": "ten"}\n', "3"),
    ("load_csv('data.csv')", "data.csv", 'q,limit\n"a\nb",1\nb,ten\n', "4"),
]


@pytest.mark.parametrize(("cases", "file", "text", "line"), DATA, ids=[row[0] for row in DATA])
def test_a_bad_row_is_placed_in_its_data_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cases: str, file: str, text: str, line: str
) -> None:
    """Also where the rows lie deeper in the file, or were filtered."""
    data = {f"evals/{file}": text}
    problem = problem_of(project_of(tmp_path, monkeypatch, eval_text(f"cases={cases}", "row: Data"), data))
    assert str(problem.place) == f"evals/{file}:{line}"


def test_the_rows_that_fit_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several that do not, one is named and the others are counted."""
    cases = "[{'q': 1}, {'q': 'x'}, {'q': 2}, {'q': 3}]"
    project = project_of(tmp_path, monkeypatch, eval_text(f"cases={cases}", "row: Data"))
    assert [spec.id for spec in project.evals] == ["sql/0001"]
    assert str(problem_of(project)) == "case 0000, field q: expected str, got 1 (and 2 more rows of sql)"


@pytest.mark.parametrize("kind", ["Data", "Model"])
def test_csv_text_becomes_what_the_annotation_wants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Everything in a CSV file is text, so there and only there "10" is an int."""
    data = {"evals/data.csv": "q,limit\nx,10\n"}
    (spec,) = project_of(tmp_path, monkeypatch, eval_text("cases=load_csv('data.csv')", f"row: {kind}"), data).evals
    assert spec.row.limit == 10  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("cases", "data"),
    [
        ("load_yaml('data.yaml')", "- {q: x, day: 2024-05-01, kind: new, inner: {q: y}}\n"),
        ("[{'q': 'x', 'day': '2024-05-01', 'kind': 'new', 'inner': {'q': 'y'}}]", ""),
        ("[{'q': 'x', 'day': datetime.date(2024, 5, 1), 'kind': Kind.NEW, 'inner': Model(q='y')}]", ""),
    ],
)
def test_strict_rows_may_hold_dates_enums_and_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cases: str, data: str
) -> None:
    """As JSON text has them, as YAML reads them, and as Python writes them."""
    text = eval_text(f"cases={cases}", "row: Rich").replace(
        "@define_eval",
        "import datetime, enum\nclass Kind(enum.Enum):\n    NEW = 'new'\n\n"
        "class Rich(Model):\n    day: datetime.date\n    kind: Kind\n    inner: Model\n\n@define_eval",
    )
    (spec,) = project_of(tmp_path, monkeypatch, text, {"evals/data.yaml": data}).evals
    row: Any = spec.row
    assert (row.day, row.kind.name, row.inner.q) == (date(2024, 5, 1), "NEW", "y")


def test_an_annotation_for_type_checkers_only_cannot_convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EvalContext may be imported under TYPE_CHECKING, as the others here are; the row's type may not."""
    problem = problem_of(project_of(tmp_path, monkeypatch, eval_text("cases=[1]", "row: Unknown")))
    assert (problem.code, str(problem.place)) == ("bad-argument", ANNOTATION_PLACE)


def test_a_description_may_be_a_function_of_the_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the original row's converted form."""
    text = eval_text("cases=[{'q': 'x'}], description=lambda row: f'asks {row.q}'", "row: Data")
    assert [spec.description for spec in project_of(tmp_path, monkeypatch, text).evals] == ["asks x"]


def test_a_description_that_raises_is_that_cases_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other cases stay."""
    text = eval_text("cases=[1, {'q': 'x'}], description=lambda row: row['q']")
    project = project_of(tmp_path, monkeypatch, text)
    assert [spec.id for spec in project.evals] == ["sql/0001"]
    assert "description= raised TypeError" in str(problem_of(project))


RAISING = """
class Rows(Sequence):
    def __init__(self, breaks):
        self.breaks = breaks
    def __len__(self):
        return self.stop("len", 3)
    def __getitem__(self, index):
        if index == 3: raise IndexError
        return self.stop(index, index)
    def stop(self, where, value):
        if where == self.breaks: raise SystemExit(0)
        return value

class Text(pydantic.BaseModel):
    q: str
    @pydantic.field_validator("q")
    def known(cls, value):
        return {}[value]

@dataclasses.dataclass
class Unwritten:
    q: "Nowhere"

@dataclasses.dataclass
class Post:
    q: str
    def __post_init__(self):
        raise SystemExit(0)

def describes(row):
    raise SystemExit(0)

"""
GUESTS = [
    ("cases=Rows(1)", "row", "bad-argument", "could not be read: SystemExit: 0"),
    ("cases=Rows('len')", "row", "load-failed", "SystemExit: 0"),
    ("cases=[{'q': 'x'}]", "row: Text", "case-row", "cannot become Text: KeyError: 'x'"),
    ("cases=[{'q': 'x'}]", "row: Unwritten", "case-row", "cannot become Unwritten: NameError: name 'Nowhere'"),
    ("cases=[{'q': 'x'}]", "row: Post", "case-row", "cannot become Post: SystemExit: 0"),
    ("cases=[1]", "row: dataclasses.Nowhere", "bad-argument", "has no attribute 'Nowhere'"),
    ("cases=[1]", "row: 1 / 0", "bad-argument", "ZeroDivisionError"),
    ("cases=[1], description=describes", "row", "case-row", "description= raised SystemExit: 0"),
]


@pytest.mark.parametrize(("arguments", "row", "code", "message"), GUESTS, ids=[f"{a} {r}" for a, r, *_ in GUESTS])
def test_what_an_authors_code_raises_over_its_rows_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, row: str, code: str, message: str
) -> None:
    """Whatever it is, also a SystemExit: it has a code and a place, and the other files are loaded."""
    text = eval_text(arguments, row).replace("@define", RAISING + "@define")
    text = text.replace("import dataclasses\n", "import dataclasses\nfrom collections.abc import Sequence\n", 1)
    project = project_of(tmp_path, monkeypatch, text, {"evals/other_eval.py": EVAL})
    problem = problem_of(project)
    assert (problem.code, problem.place is not None) == (code, True)
    assert message in str(problem)
    assert "other" in [spec.id for spec in project.evals]


@pytest.mark.parametrize(
    ("cases", "later", "code"),
    [("[1]", "ROWS.clear()", "empty-cases"), ("{'a': 1}", "ROWS['b/c'] = 2", "bad-case-key")],
    ids=["emptied", "bad key"],
)
def test_rows_that_were_changed_after_the_definition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cases: str, later: str, code: str
) -> None:
    """What counts is what there is when the file has run; an eval without rows would vanish without a word."""
    text = eval_text("cases=ROWS").replace("@define", f"ROWS = {cases}\n@define") + f"{later}\n"
    problem = problem_of(project_of(tmp_path, monkeypatch, text))
    assert (problem.code, str(problem.place)) == (code, "evals/sql_eval.py:27:14")


def test_metadata_tags_and_timeout_are_every_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A case is an eval like any other."""
    text = eval_text("cases=[1, 2], tags=['a'], timeout=3, metadata={'owner': 'x'}")
    found = [(spec.tags, spec.timeout, spec.metadata) for spec in project_of(tmp_path, monkeypatch, text).evals]
    assert found == [(("a",), 3.0, {"owner": "x"})] * 2
