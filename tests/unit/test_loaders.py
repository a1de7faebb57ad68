"""Loaders: what a data file becomes, and how one that cannot be read is named."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from niceeval import loaders
from niceeval._base.errors import AuthorError, ProjectError
from niceeval._discover.loading import Loaded, load_file

READ: dict[str, Callable[..., Any]] = {
    ".yaml": loaders.load_yaml,
    ".json": loaders.load_json,
    ".jsonl": loaders.load_jsonl,
    ".csv": loaders.load_csv,
    ".txt": loaders.load_text,
}


def read(folder: Path, name: str, content: str | bytes, **options: str) -> Any:
    """What the loader of that ending makes of the content."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return READ[path.suffix](path, **options)


GOOD: list[tuple[str, str | bytes, object]] = [
    ("a.txt", b"\xef\xbb\xbfone\r\ntwo\n", "one\ntwo\n"),
    ("a.json", '{"a": [1, 2.5, null, true, "x"]}', {"a": [1, 2.5, None, True, "x"]}),
    ("a.json", b'\xef\xbb\xbf"x"', "x"),
    ("a.jsonl", '{"a": 1}\r\n\r\n[2]\n"\u2028"', [{"a": 1}, [2], "\u2028"]),
    ("a.jsonl", "", []),
    ("a.csv", 'q,limit\r\n"a, ""b""",1\r\n\r\nc,\r\n', [{"q": 'a, "b"', "limit": "1"}, {"q": "c", "limit": ""}]),
    ("a.csv", 'q\n"one\ntwo"\n', [{"q": "one\ntwo"}]),
    ("a.csv", "q,limit\n", []),
    ("a.yaml", "- &x {a: 1}\n- {<<: *x, b: 2}\n- *x", [{"a": 1}, {"a": 1, "b": 2}, {"a": 1}]),
    ("a.yaml", "", None),
]


@pytest.mark.parametrize(("name", "content", "value"), GOOD, ids=[f"{row[0]}-{i}" for i, row in enumerate(GOOD)])
def test_what_a_file_becomes(tmp_path: Path, name: str, content: str | bytes, value: object) -> None:
    """Byte order marks and Windows line ends leave no trace."""
    assert read(tmp_path, name, content) == value


SCALARS = [
    ("no", "no"),
    ("on", "on"),
    ("Yes", "Yes"),
    ("true", True),
    ("False", False),
    ("null", None),
    ("~", None),
    ("2024-05-01", "2024-05-01"),
    ("2024-05-01 10:00:00", "2024-05-01 10:00:00"),
    ("12:30", "12:30"),
    ("010", 10),
    ("-7", -7),
    ("0o17", 15),
    ("0x1F", 31),
    ("1_000", "1_000"),
    ("1e3", 1000.0),
    ("0E0", 0.0),
    ("1.5", 1.5),
    ("1.2.3", "1.2.3"),
    ("'1'", "1"),
    ("", None),
]


@pytest.mark.parametrize(("text", "value"), SCALARS, ids=[repr(row[0]) for row in SCALARS])
def test_yaml_scalars_follow_the_core_schema(tmp_path: Path, text: str, value: object) -> None:
    """A country code stays text, and so do dates and times, as in JSON."""
    found = read(tmp_path, "a.yaml", f"key: {text}")["key"]
    assert (found, type(found)) == (value, type(value))


NUMBER_IN_1_2_ONLY = re.compile(r"[-+]?[0-9.]+[eE][-+]?[0-9]+|0o[0-7]+")
"""What a writer of YAML 1.1, where it is text, leaves without quotes."""

texts = st.text(st.characters(codec="utf-8"), max_size=20).filter(lambda text: not NUMBER_IN_1_2_ONLY.fullmatch(text))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_yaml_that_pyyaml_quotes_comes_back(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    """Text that looks like something else is quoted by its writers, and is text here."""
    folder = tmp_path_factory.getbasetemp()
    assert read(folder, "round.yaml", yaml.safe_dump(value, allow_unicode=False)) == value


@given(st.lists(json_values, max_size=4))
def test_json_lines_come_back(tmp_path_factory: pytest.TempPathFactory, values: list[object]) -> None:
    """One line each."""
    text = "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)
    assert read(tmp_path_factory.getbasetemp(), "round.jsonl", text) == values


BAD: list[tuple[str, str | bytes, str, str | None]] = [
    ("a.txt", b"ab\nc\xff", "is not UTF-8: byte 0xff", "2:2"),
    ("a.json", "", "is empty", "1:1"),
    ("a.json", '{"a": 1,\n "b"}', "is not JSON: Expecting ':' delimiter", "2:5"),
    ("a.json", '{"a": NaN}', "holds NaN, which is not JSON", None),
    ("a.json", '{"a": 1, "a": 2}', 'has the key "a" twice in one object', None),
    ("a.json", "[" * 100_000, "is nested too deeply", None),
    ("a.json", "1" * 5000, "holds a number with too many digits", None),
    ("a.jsonl", '1\n{"a"}\n', "is not JSON: Expecting ':' delimiter", "2:5"),
    ("a.jsonl", "1\n\nNaN\n", "holds NaN, which is not JSON", "3"),
    ("a.csv", "", "is empty; its first line names the columns", "1"),
    ("a.csv", "a,a\n", 'has the column "a" twice', "1"),
    ("a.csv", "a,\n", "column 2 has no name", "1"),
    ("a.csv", 'a,b\n"1\n2",3\n4\n', "has 1 values here, and 2 columns", "4"),
    ("a.csv", 'a\n"b', "is not CSV: unexpected end of data", "2"),
    ("a.yaml", "a: 1\nb:\n  c: 1\n  c: 2\n", 'has the key "c" twice in one mapping', "4:3"),
    ("a.yaml", "a: [1\n", "is not YAML: did not find expected ',' or ']'", "2:1"),
    (
        "a.yaml",
        "a: !!python/object:os.system x",
        "is not YAML: could not determine a constructor for the tag 'tag:yaml.org,2002:python/object:os.system'",
        "1:4",
    ),
    ("a.yaml", "--- 1\n--- 2\n", "is not YAML: but found another document", "2:1"),
]


@pytest.mark.parametrize(("name", "content", "problem", "line"), BAD, ids=[f"{row[0]}-{row[2][:30]}" for row in BAD])
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str | bytes, problem: str, line: str | None
) -> None:
    """With the line in it where the parser knows one, else with the line that called the loader."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ProjectError) as caught:
        read(tmp_path, name, content)
    error = caught.value
    assert (error.code, str(error)) == ("data-file", f"{name}: {problem}")
    assert str(error.place) == f"{name}:{line}" if line else str(error.place).partition(":")[0].endswith(".py")


def test_a_missing_file_is_placed_at_the_call(tmp_path: Path) -> None:
    """There is no line in it to name."""
    with pytest.raises(ProjectError) as caught:
        loaders.load_text(tmp_path / "nope.txt")
    assert str(caught.value).endswith("nope.txt: there is no such file")
    assert caught.value.place is not None
    assert caught.value.place.file.endswith("test_loaders.py")
    assert caught.value.next_step() == "correct the file, or the path given to load_text"


def test_a_delimiter_is_one_character(tmp_path: Path) -> None:
    """Any one."""
    assert read(tmp_path, "a.csv", "a;b\n1;2\n", delimiter=";") == [{"a": "1", "b": "2"}]
    with pytest.raises(ProjectError, match="delimiter '::' is not one character"):
        read(tmp_path, "a.csv", "a\n", delimiter="::")


@contextlib.contextmanager
def loaded_module(file: Path, root: Path) -> Iterator[ModuleType]:
    loaded = load_file(file, root)
    assert isinstance(loaded, Loaded), loaded
    try:
        yield loaded.module
    finally:
        sys.modules.pop(loaded.module.__name__, None)


def test_paths_are_relative_to_the_calling_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not to the current folder; and the files read are remembered for the one that called, once."""
    (tmp_path / "evals" / "data").mkdir(parents=True)
    (tmp_path / "evals" / "data" / "x.txt").write_text("here")
    file = tmp_path / "evals" / "a_eval.py"
    file.write_text("from niceeval.loaders import load_text\nTEXT = load_text('data/x.txt')\n")
    monkeypatch.chdir("/")
    for _ in range(2):
        with loaded_module(file, tmp_path) as module:
            assert module.TEXT == "here"
    assert [one.file for one in loaders.loaded_files(str(file))] == [tmp_path / "evals/data/x.txt"]


def test_a_loader_inside_a_running_eval_is_an_author_error(tmp_path: Path) -> None:
    """Its data would be unknown to whatever decides before a run."""
    (tmp_path / "x.txt").write_text("here")
    token = loaders.running_eval.set(True)
    try:
        with pytest.raises(AuthorError) as caught:
            loaders.load_text(tmp_path / "x.txt")
    finally:
        loaders.running_eval.reset(token)
    assert caught.value.code == "loader-in-test"
    assert caught.value.place is not None
