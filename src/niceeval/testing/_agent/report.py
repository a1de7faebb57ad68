"""What a check of an agent comes to: findings, a table, and an assertion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from niceeval._base.terminal.cells import cut_counted, pad_end
from niceeval._base.terminal.cleaning import clean
from niceeval._model.events import StreamEvent, UnknownEvent

Outcome: TypeAlias = Literal["passed", "failed", "not checked"]

_WIDTH = 160
_INDENT = " " * 13


@dataclass(frozen=True, slots=True, order=True)
class EventRef:
    """An event of a scenario: its index in that scenario's stream, from 0."""

    scenario: str
    event: int

    def __str__(self) -> str:
        return f"{self.scenario} #{self.event}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check's outcome. `says` is the sentence that holds where it passed; `seen` is what was seen (or why it was
    not checked), `next` what to do, `refs` the events that show it.
    """

    check: str
    says: str
    outcome: Outcome
    seen: str = ""
    next: str = ""
    refs: tuple[EventRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All findings about one agent, sandbox or converter, in a fixed order. `str(report)` is a table.

    `kind` says what was checked, `agent` is its name. `events` holds the event stream of each scenario that was run,
    which the findings' `refs` point into.
    """

    agent: str
    findings: tuple[Finding, ...]
    events: Mapping[str, tuple[StreamEvent, ...]]
    kind: Literal["agent", "sandbox", "converter"] = "agent"

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __getitem__(self, check: str) -> Finding:
        """The finding of one check. Raises KeyError for a check that does not exist."""
        for finding in self.findings:
            if finding.check == check:
                return finding
        raise KeyError(check)

    @property
    def passed(self) -> tuple[Finding, ...]:
        """What holds."""
        return self._with("passed")

    @property
    def failed(self) -> tuple[Finding, ...]:
        """What does not hold."""
        return self._with("failed")

    @property
    def not_checked(self) -> tuple[Finding, ...]:
        """What could not be found out, most often for want of a probe."""
        return self._with("not checked")

    def raise_for_failures(self) -> None:
        """Raises AssertionError, with everything that failed and what to do about it; checks that could not be made
        are no failures.
        """
        __tracebackhide__ = True
        if self.failed:
            raise AssertionError("\n".join([self._title(), *self._rows(self.failed)]))

    def __str__(self) -> str:
        return "\n".join([self._title(), *self._rows(self.findings)])

    def _with(self, outcome: Outcome) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.outcome == outcome)

    def _title(self) -> str:
        counts = f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.not_checked)} not checked"
        return f"{self.kind} {clean(self.agent)}: {counts}"

    def _rows(self, findings: tuple[Finding, ...]) -> Iterator[str]:
        width = max((len(finding.check) for finding in findings), default=0)
        for finding in findings:
            yield f"{pad_end(finding.outcome, 11)}  {pad_end(finding.check, width)}  {finding.says}"
            for word, text in (("seen", finding.seen), ("next", finding.next)):
                if text:
                    yield f"{_INDENT}{word}  {cut_counted(clean(text), 4 * _WIDTH)}"
            for ref in finding.refs:
                yield f"{_INDENT}{cut_counted(clean(f'{ref}  {self._event(ref)}'), _WIDTH)}"

    def _event(self, ref: EventRef) -> str:
        event = self.events[ref.scenario][ref.event]
        plain = event.data if isinstance(event, UnknownEvent) else event
        return msgspec.json.encode(plain).decode()
