"""Which project files a source file depends on: what Python really loads is in its closure, whatever the imports."""

from __future__ import annotations

import importlib
import itertools
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from niceeval._plan.closure import Sources
from niceeval._plan.identity import changes
from tests.unit.project_files import write_files


def closure_of(root: Path, files: Mapping[str, str], start: str = "start.py") -> set[str]:
    write_files(root, files)
    return set(Sources(root).closure([root / start]))


CLOSURES = {
    "a file alone": ({"start.py": "x = 1"}, set()),
    "the standard library and installed packages": ({"start.py": "import json, pytest, niceeval"}, set()),
    "a module": ({"start.py": "import a", "a.py": ""}, {"a.py"}),
    "a module's module": ({"start.py": "import a", "a.py": "import b", "b.py": ""}, {"a.py", "b.py"}),
    "a cycle": ({"start.py": "import a", "a.py": "import b", "b.py": "import a, start"}, {"a.py", "b.py"}),
    "what nobody imports": ({"start.py": "", "a.py": ""}, set()),
    "a package and the module in it": (
        {"start.py": "import p.q.m", "p/__init__.py": "", "p/q/__init__.py": "", "p/q/m.py": "", "p/other.py": ""},
        {"p/__init__.py", "p/q/__init__.py", "p/q/m.py"},
    ),
    "a module by from": (
        {"start.py": "from p import m", "p/__init__.py": "", "p/m.py": ""}, {"p/__init__.py", "p/m.py"},
    ),
    "a name by from": ({"start.py": "from p.m import name", "p/m.py": "name = 1"}, {"p/m.py"}),
    "everything by from": ({"start.py": "from a import *", "a.py": ""}, {"a.py"}),
    "a namespace package": ({"start.py": "from p.q import m", "p/q/m.py": ""}, {"p/q/m.py"}),
    "a package before a module of its name": (
        {"start.py": "import a", "a.py": "", "a/__init__.py": ""},
        {"a/__init__.py"},
    ),
    "a module before a folder of its name": ({"start.py": "import a", "a.py": "", "a/b.py": ""}, {"a.py"}),
    "relative imports": (
        {
            "start.py": "import p.q.m",
            "p/__init__.py": "",
            "p/near.py": "",
            "p/q/__init__.py": "",
            "p/q/m.py": "from . import beside\nfrom .beside import x\nfrom .. import near\nfrom ..far.away import y",
            "p/q/beside.py": "x = 1",
            "p/far/__init__.py": "",
            "p/far/away.py": "y = 1",
        },
        {
            "p/__init__.py", "p/near.py", "p/q/__init__.py", "p/q/m.py", "p/q/beside.py", "p/far/__init__.py",
            "p/far/away.py",
        },
    ),
    "imports in functions and conditions": (
        {"start.py": "def f():\n    import a\ntry:\n    import b\nexcept ImportError:\n    import c", "a.py": "",
         "b.py": "", "c.py": ""},
        {"a.py", "b.py", "c.py"},
    ),
    "imports that lead nowhere": (
        {"start.py": "import a.b.c\nfrom ..... import x\nfrom a import b", "a.py": ""}, {"a.py"},
    ),
    "a file with a syntax error": ({"start.py": "import a", "a.py": "import b\ndef ("}, {"a.py"}),
    "a file that is no text": ({"start.py": "import a", "a.py": "\0"}, {"a.py"}),
    "names in other alphabets": ({"start.py": "import größe", "größe.py": ""}, {"größe.py"}),
    "an environment inside the project": (
        {"start.py": "import a", ".venv/lib/site-packages/a.py": "", "venv/a.py": ""}, set(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSURES)
def test_what_a_file_depends_on(tmp_path: Path, name: str) -> None:
    """Itself, and what it imports from the project, recursively."""
    files, expected = CLOSURES[name]
    assert closure_of(tmp_path, files) == {"start.py", *expected}


def test_a_package_that_python_finds_in_src(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project that is installed for development is found where it lies, not only at the root."""
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    files = {"start.py": "from product_of_src import agent", "src/product_of_src/__init__.py": "",
             "src/product_of_src/agent.py": "from .prompts import x", "src/product_of_src/prompts.py": ""}  # fmt: skip
    assert closure_of(tmp_path, files) == {"start.py", *list(files)[1:]}


def test_links_are_followed_by_name(tmp_path: Path) -> None:
    """A module that is a link counts with the bytes behind it; a link in a circle is no file."""
    outside = tmp_path / "outside.py"
    outside.write_text("x = 1", "utf-8")
    root = tmp_path / "project"
    write_files(root, {"start.py": "import linked, circle, folder.m", "real/m.py": "import other", "other.py": ""})
    os.symlink(outside, root / "linked.py")
    os.symlink(root / "circle.py", root / "circle.py")
    os.symlink(root / "real", root / "folder")
    before = Sources(root).closure([root / "start.py"])
    assert set(before) == {"start.py", "linked.py", "folder/m.py", "other.py"}
    outside.write_text("x = 2", "utf-8")
    after = Sources(root).closure([root / "start.py"])
    assert {path for path in before if before[path] != after[path]} == {"linked.py"}


def test_a_file_that_is_gone_has_a_closure_all_the_same(tmp_path: Path) -> None:
    """It was loaded a moment ago; the plan goes on."""
    assert list(Sources(tmp_path).closure([tmp_path / "start.py"])) == ["start.py"]


def test_files_outside_the_project_are_nobodys(tmp_path: Path) -> None:
    """An agent's callback may come from an installed package."""
    assert Sources(tmp_path).closure([Path(os.__file__)]) == {}


NUMBERS = itertools.count()
MODULES = ["a", "b", "p", "p.c", "p.d", "p.q", "p.q.e", "n.f", "n.m.g"]
PACKAGES = {"p", "p.q"}
FORMS = [
    "import {root}.{module}",
    "import {root}.{module} as x",
    "from {root} import {module} as x",
    "from {parent} import {last} as x",
    "from {dots} import {first} as x",
]


def _statement(root: str, of: str, module: str, form: str) -> str:
    above, _, last = f"{root}.{module}".rpartition(".")
    if form == FORMS[2] and "." in module:
        form = FORMS[3]
    depth = of.count(".") + (2 if of in PACKAGES else 1)
    first = module.partition(".")[0]
    return form.format(root=root, module=module, parent=above, last=last, dots="." * depth, first=first)


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[tuple[str, str]]]:
    """Module -> what it imports, and how."""
    edge = st.tuples(st.sampled_from(MODULES), st.sampled_from(FORMS))
    return {module: draw(st.lists(edge, max_size=3)) for module in MODULES}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(graph=graphs(), start=st.sampled_from(MODULES))
def test_all_that_python_loads_is_in_the_closure(
    tmp_path_factory: pytest.TempPathFactory, graph: dict[str, list[tuple[str, str]]], start: str
) -> None:
    """Cycles, packages, namespace packages, relative imports, in any mixture."""
    folder = tmp_path_factory.mktemp("graph")
    root = f"closure_graph_{next(NUMBERS)}"
    for module, edges in graph.items():
        path = module.replace(".", "/") + ("/__init__.py" if module in PACKAGES else ".py")
        text = "\n".join(_statement(root, module, other, form) for other, form in edges)
        write_files(folder, {f"{root}/{path}": f"{text}\n"})
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        importlib.invalidate_caches()
        importlib.import_module(f"{root}.{start}")
        names = [name for name in sys.modules if name.partition(".")[0] == root]
        files = [getattr(sys.modules.pop(name), "__file__", None) for name in names]
    finally:
        sys.path.remove(str(folder))
        sys.dont_write_bytecode = before
    loaded = {Path(file).relative_to(folder).as_posix() for file in files if file}
    entry = folder / "entry.py"
    entry.write_text(f"import {root}.{start}", "utf-8")
    assert set(Sources(folder).closure([entry])) == {"entry.py", *loaded}


PARTS = st.dictionaries(
    st.sampled_from(["model", "flags.a", "flags.b", "eval source: evals/a.py", "row 0001 of evals/d.yaml"]),
    st.sampled_from(['"x"', '"y"', "1", "sha256:aa", "sha256:bb"]),
)


@given(old=PARTS, new=PARTS)
def test_each_change_is_named_once_and_nothing_else(old: dict[str, str], new: dict[str, str]) -> None:
    """By its name, in their order, with the values where both are short enough to be shown."""
    said = changes(old, new)
    different = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    assert len(said) == len(different)
    for line, name in zip(said, different, strict=True):
        assert line.startswith(name)
        assert "sha256" not in line
        values = [side[name] for side in (old, new) if name in side]
        if not any(value.startswith("sha256:") for value in values):
            assert line == f"{name}: {old.get(name, '(none)')} -> {new.get(name, '(none)')}"


def test_changes_read_like_this() -> None:
    """Added, removed, changed; with a value or without."""
    old = {"a": "1", "b": "sha256:1", "c": "sha256:1", "flags.x": '"a"', "gone": '"v"'}
    new = {"a": "1", "b": "sha256:2", "flags.x": '"b"', "new": "[1]", "z": "sha256:3"}
    assert changes(old, new) == dedent(
        """\
        b
        c (removed)
        flags.x: "a" -> "b"
        gone: "v" -> (none)
        new: (none) -> [1]
        z (added)"""
    ).split("\n")
