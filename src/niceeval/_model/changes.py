"""What an agent changed, as assertions ask about it: `diff.json` and what is known beyond it while the attempt runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from niceeval._model.diff import DiffRules, StoredDiff


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes of one attempt, or why they are not known.

    `added` is the text of the added lines of each changed path that has any; `unread` says of a changed path why its
    lines are not known. `problem`: nothing was collected, `stored` is empty. `stored.incomplete` says why something may
    be missing. `windows` counts the sends that were looked at.
    """

    stored: StoredDiff
    rules: DiffRules
    workdir: str
    windows: int
    added: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None

    @property
    def gap(self) -> str | None:
        """Why an absence cannot be proved; None where it can."""
        return self.problem or self.stored.incomplete

    def present(self) -> list[str]:
        """The paths that were created or changed and exist at the end, sorted."""
        return sorted({*self.stored.generated_files, *self.stored.other_files})

    def paths(self) -> list[str]:
        """Every changed path, deleted ones too, sorted."""
        return sorted({*self.present(), *self.stored.deleted_files})
