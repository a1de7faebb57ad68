"""Which paths of a workdir count as changes. Apart from `diff.json`, for what an eval file imports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

DEFAULT_IGNORE: Final = (
    ".git/",
    "node_modules/",
    ".venv/",
    "venv/",
    "__pycache__/",
    "*.pyc",
    ".pytest_cache/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".cache/",
    "dist/",
    "build/",
    "target/",
    ".next/",
    "coverage/",
    "__niceeval__/",
)
"""What no diff shows unless `DiffRules` says otherwise: folders end in `/`, and match at any depth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRules:
    """Which paths of the workdir count as changes: the default list, without `include`, with `ignore`.

    `include=("dist/",)` looks at a folder that is ignored by default; `ignore=("*.lock",)` leaves more out. Both are
    patterns as in the default list: a name at any depth, or, with a `/` inside, a path from the workdir. `.git/` and
    `__niceeval__/` are always left out.
    """

    include: Sequence[str] = ()
    ignore: Sequence[str] = ()
