"""What an agent changed in the workdir: `diff.json`, and the rules of what is looked at."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from niceeval._model.diff_rules import DEFAULT_IGNORE, DiffRules

__all__ = ["DEFAULT_IGNORE", "DiffRules", "OtherFile", "OtherKind", "StoredDiff"]

OtherKind: TypeAlias = Literal["binary", "oversized", "renamed", "mode", "symlink", "repository", "special"]


class OtherFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A changed path whose text is not kept: `sha256` of its content, `size` in bytes.

    `mode` is in octal, as git writes it; `origin` the path that a renamed file had before.
    """

    kind: OtherKind
    size: int | None = None
    sha256: str | None = None
    mode: str | None = None
    origin: str | None = msgspec.field(name="from", default=None)


class StoredDiff(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`diff.json`: what changed inside the sends of an attempt. Paths are relative to the workdir, with `/`.

    `generated_files` hold the text at the end of created and changed files, `patches` what changed in those that were
    there before. A renamed file is in both places: its new path in `other_files`, its old one in `deleted_files`.
    `incomplete` says why something may be missing.
    """

    generated_files: dict[str, str] = msgspec.field(name="generatedFiles")
    deleted_files: tuple[str, ...] = msgspec.field(name="deletedFiles")
    patches: dict[str, str] = {}
    other_files: dict[str, OtherFile] = msgspec.field(name="otherFiles", default_factory=dict)
    incomplete: str | None = None
