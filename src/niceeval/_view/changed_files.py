"""What an agent changed, a line for each file."""

from __future__ import annotations

from niceeval._base.terminal import Style
from niceeval._model.diff import OtherFile, StoredDiff


def change_rows(diff: StoredDiff, style: Style) -> list[str]:
    """`+ new.py`, `~ old.py  +3 -1`, `- gone.py`, by path; a renamed file stands where it is now."""
    renamed = {other.origin for other in diff.other_files.values() if other.origin is not None}
    marks = {path: "-" for path in diff.deleted_files if path not in renamed}
    marks.update((path, "~" if path in diff.patches else "+") for path in diff.generated_files)
    marks.update((path, "~") for path in diff.other_files)
    return [_row(path, marks[path], diff, style) for path in sorted(marks)]


def _row(path: str, mark: str, diff: StoredDiff, style: Style) -> str:
    said = [_counts(diff.patches[path])] if path in diff.patches else []
    other = diff.other_files.get(path)
    if other is not None:
        said.append(_other(other, style))
    return f"  {mark} {style.clean(path)}" + (f"  {', '.join(said)}" if said else "")


def _counts(patch: str) -> str:
    """`+3 -1`: lines of a patch without its two head lines."""
    lines = patch.split("\n")[2:]
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    return f"+{added:,} -{removed:,}"


def _other(other: OtherFile, style: Style) -> str:
    if other.origin is not None:
        return f"renamed from {style.clean(other.origin)}"
    if other.kind == "mode":
        return f"mode {style.clean(other.mode or '?')}"
    size = "" if other.size is None else f", {other.size:,} bytes"
    return f"{other.kind}{size}"
