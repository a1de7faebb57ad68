"""The error tree, and how an error becomes the sentence a person reads.

    NiceevalError            code + fields; the sentence comes from a catalogue
    |- ProjectError          the project on disk: files, ids, cases, configuration
    |- SelectionError        what was asked for on the command line
    |- AuthorError           an eval used `t` in a way that cannot mean what was intended
    |- AdapterError          an agent's declaration or what it returned
    |- SandboxError          a sandbox that cannot be made or used
    |  |- SandboxUnavailableError   the backend is not there: no engine, no key, no extra
    |  |- SandboxUnsupportedError   this backend cannot do it
    |  |- SandboxCommandError       a command could not be started
    |  |- SandboxFileError          a path that cannot be read or written
    |  `- SandboxGoneError          the sandbox ended while it was used
    `- ResultsError          results that cannot be read, written or found

    StopEval                 control flow inside an eval (BaseException: `except Exception` does not catch it)
    `- SkipEval              the author called `t.skip(reason)`

An error is a code and fields. The sentence is made from `_base/catalogue` (English, or Chinese under
`NICEEVAL_LANG=zh`), so that texts can be compared by a test and `str(error)` is always English.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from niceeval._base.catalogue import render


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was written: a file (as a person would name it), a line and a column, both from 1."""

    file: str
    line: int
    column: int | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.column is None else f"{self.file}:{self.line}:{self.column}"


class NiceevalError(Exception):
    """A mistake or fault that niceeval can name.

    `code` is stable and machine-readable; `fields` fill the catalogue's templates; `place` says where; `frames` holds
    the user's own trimmed traceback where there is one; `next_step` replaces the catalogue's hint.
    """

    def __init__(
        self,
        code: str,
        /,
        *,
        place: Place | None = None,
        frames: str | None = None,
        next_step: str | None = None,
        **fields: object,
    ) -> None:
        self.code = code
        self.fields: Mapping[str, object] = fields
        self.place = place
        self.frames = frames
        self._next_step = next_step
        super().__init__(self.message())

    def message(self, language: str = "en") -> str:
        """The sentence, without code, place and hint."""
        return render(self.code, "message", self.fields, language)

    def next_step(self, language: str = "en") -> str:
        """What to do about it; empty where nothing useful can be said."""
        if self._next_step is not None:
            return self._next_step
        return render(self.code, "next", self.fields, language)

    def at(self, place: Place) -> NiceevalError:
        """The same error, placed; an error that already has a place keeps it."""
        if self.place is None:
            self.place = place
        return self

    def __str__(self) -> str:
        return self.message()


class ProjectError(NiceevalError):
    """The project on disk cannot be used as it is."""


class SelectionError(NiceevalError):
    """The command line asks for something that does not exist or cannot be."""


class AuthorError(NiceevalError):
    """An eval used niceeval in a way that cannot mean what its author intended."""


class AdapterError(NiceevalError):
    """An agent's declaration, or what it returned, breaks the adapter contract."""


class SandboxError(NiceevalError):
    """A sandbox cannot be made, or not be used as it was asked to."""


class SandboxUnavailableError(SandboxError):
    """The backend is not there: no engine, no key, no installed extra. Nothing of the experiment can run."""


class SandboxUnsupportedError(SandboxError):
    """The backend cannot do what was asked for."""


class SandboxCommandError(SandboxError):
    """A command could not be started: it is not there, may not be executed, or its folder does not exist."""


class SandboxFileError(SandboxError):
    """A path in the sandbox, or one to upload, cannot be read or written."""


class SandboxGoneError(SandboxError):
    """The sandbox ended while it was being used: removed, expired, or its engine stopped."""


class ResultsError(NiceevalError):
    """Results cannot be found, read or written."""


class StopEval(BaseException):
    """Ends the eval function here; what is known was recorded before it was raised.

    `owner` is the drive of the attempt that it ends: in another attempt it ends nothing that was recorded.
    """

    owner: object | None = None


class SkipEval(StopEval):
    """`t.skip(reason)`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def error_text(error: BaseException) -> str:
    """`ValueError: no such city`, of anybody's exception, which may not be printable at all."""
    try:
        text = str(error)
    except BaseException as unprintable:  # noqa: BLE001 - a guest's __str__; what it raised is said instead
        text = f"(its text raises {type(unprintable).__name__})"
    name = type(error).__name__
    return f"{name}: {text}" if text else name
