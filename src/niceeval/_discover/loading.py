"""Running an author's file, by path, so that what it defines behaves like what any module defines."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import linecache
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from niceeval._base.callsite import CallSite, traceback_sites
from niceeval._base.errors import NiceevalError, Place, ProjectError, error_text
from niceeval._base.forks import leave_copy, own_pid
from niceeval._base.places import shown_path
from niceeval._discover.define_eval import CollectedEval, collected
from niceeval.loaders import forget

PARENT: Final = "niceeval_project_files"
"""The package that loaded files appear to be in."""

_MAX_FRAMES = 5
_FOREIGN = frozenset({"site-packages", "dist-packages", ".venv", "venv", "node_modules"})


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file that ran: its module, and the evals that were made by running it, in their order."""

    module: ModuleType
    evals: tuple[CollectedEval, ...]


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """A file that did not run to its end, and what it raised."""

    file: Path
    error: BaseException


def load_file(file: Path, root: Path) -> Loaded | LoadFailure:
    """Run a file as a module of its own. What it prints goes to stderr, since stdout is the command's answer.

    Only KeyboardInterrupt gets out; everything else that the file raises, SystemExit too, is its failure.
    """
    name = module_name(file, root)
    forget(str(file))
    found: list[CollectedEval] = []
    token = collected.set(found)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            module = _run(name, file)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - an author's file may raise anything; it is reported as its failure
        return LoadFailure(file, error)
    finally:
        collected.reset(token)
    # Not by the function's own module: a decorator or a factory of another one may have written the function.
    return Loaded(module, tuple(one for one in found if one.module == name))


def module_name(file: Path, root: Path) -> str:
    """A module name for a path: readable, one segment below the parent, and different for each file."""
    relative = os.path.relpath(file, root)
    digest = hashlib.sha256(str(file).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{PARENT}.{re.sub('[^A-Za-z0-9_]', '_', os.path.splitext(relative)[0])}_{digest}"


def _run(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    # Compiled here and not through the loader: a cached .pyc is told apart by whole seconds, and would be left behind.
    # Never optimized: an eval's plain `assert` is a check.
    code = compile(file.read_bytes(), str(file), "exec", dont_inherit=True, optimize=0)
    linecache.checkcache(str(file))
    _register_parent()
    sys.modules[name] = module
    pid = own_pid()
    try:
        exec(code, module.__dict__)
    except BaseException as error:
        leave_copy(pid, error)
        sys.modules.pop(name, None)
        raise
    leave_copy(pid)
    return module


def _register_parent() -> None:
    if PARENT not in sys.modules:
        parent = ModuleType(PARENT, "Files of the project that niceeval loaded by path.")
        parent.__path__ = []
        sys.modules[PARENT] = parent


def load_error(failure: LoadFailure, root: Path, others: str) -> NiceevalError:
    """The failure as a person should read it: the last of the project's own lines, and the frames that led there."""
    error = failure.error
    if isinstance(error, NiceevalError):
        return error if error.place is not None else error.at(Place(shown_path(failure.file), 1))
    if isinstance(error, SyntaxError) and error.filename:
        return _syntax_error(error, others)
    sites = project_sites(error, root)
    place = _place(sites[-1]) if sites else Place(shown_path(failure.file), 1, 1)
    return ProjectError("load-failed", place=place, frames=shown_frames(sites), error=error_text(error), others=others)


def _syntax_error(error: SyntaxError, others: str) -> ProjectError:
    place = Place(shown_path(error.filename or "?"), error.lineno or 1, error.offset or 1)
    return ProjectError("load-failed", place=place, error=f"{type(error).__name__}: {error.msg}", others=others)


def project_sites(error: BaseException, root: Path) -> list[CallSite]:
    """The traceback's places in the project's own files, outermost first."""
    return [site for site in traceback_sites(error.__traceback__) if _is_projects(site.file, root)]


def _is_projects(file: str, root: Path) -> bool:
    try:
        parts = Path(os.path.abspath(file)).relative_to(root).parts
    except ValueError:
        return False
    return not _FOREIGN.intersection(parts) and not file.startswith("<")


def _place(site: CallSite) -> Place:
    return Place(shown_path(site.file), site.line, site.column)


def shown_frames(sites: list[CallSite]) -> str | None:
    """The places that led to the innermost one, each with its source line; None where it was reached directly."""
    above = sites[:-1]
    shown = above[-_MAX_FRAMES:]
    lines = [] if len(shown) == len(above) else [f"({len(above) - len(shown)} frames above)"]
    for site in shown:
        lines.append(str(_place(site)))
        lines.append("    " + linecache.getline(site.file, site.line).strip())
    return "\n".join(lines) or None
