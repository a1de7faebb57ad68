"""What a type checker says about authoring code: good usages pass, and each mistake is found where it is made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mypy import api

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def checked_lines(name: str, cache: Path) -> set[int]:
    """The lines of a file that mypy objects to."""
    options = [
        "--strict",
        "--config-file=",
        "--hide-error-context",
        f"--cache-dir={cache}",
        "--disable-error-code=unused-ignore",
    ]
    out, err, _ = api.run([*options, str(HERE / name)])
    assert not err, err
    return {int(match[1]) for match in re.finditer(rf"{re.escape(name)}:(\d+): error", out)}


@pytest.mark.slow
def test_good_usages_type_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing an author writes by the book is refused."""
    monkeypatch.setenv("MYPYPATH", str(ROOT / "src"))
    assert checked_lines("good_usage.py", tmp_path) == set()


@pytest.mark.slow
def test_each_mistake_is_a_type_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On its own line, and nowhere else."""
    monkeypatch.setenv("MYPYPATH", str(ROOT / "src"))
    lines = (HERE / "bad_usage.py").read_text("utf-8").splitlines()
    wanted = {number for number, line in enumerate(lines, start=1) if "# wrong:" in line}
    assert checked_lines("bad_usage.py", tmp_path) == wanted
