"""The real command-line agents, installed once per machine into a cache, at pinned versions.

`$XDG_CACHE_HOME/niceeval-tests/cli/<name>-<version>` (or `~/.cache/...`). Where one cannot be installed, its tests are
skipped, and say what is missing.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

INSTALL_SECONDS = 1_200
"""The most that one installation may take."""


@dataclass(frozen=True)
class CliInstall:
    """A CLI of npm, or (`python`) of PyPI for a Python that is at least that one."""

    name: str
    version: str
    package: str
    command: str
    python: tuple[int, int] | None = None

    @property
    def inside(self) -> str:
        """The command's path inside the folder of its installation."""
        return f"bin/{self.command}" if self.python else f"node_modules/.bin/{self.command}"


INSTALLS = {
    install.name: install
    for install in (
        CliInstall("claude-code", "2.1.332", "@anthropic-ai/claude-code", "claude"),
        CliInstall("codex", "0.171.0", "@openai/codex", "codex"),
        CliInstall("opencode", "1.18.33", "opencode-ai", "opencode"),
        CliInstall("gemini-cli", "0.61.0", "@google/gemini-cli", "gemini"),
        CliInstall("bub", "0.5.1", "bub", "bub", python=(3, 12)),
    )
}


def cache_folder() -> Path:
    """Where installations are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "niceeval-tests" / "cli"


def installed(name: str) -> str:
    """The path of the CLI's command; skips the test, with the reason and what to do, where it cannot be had."""
    return cached(INSTALLS[name])


def cached(install: CliInstall) -> str:
    """The same, for one that is no agent."""
    problem, command = _install(install)
    if problem is not None:
        pytest.skip(f"{install.name} {install.version} is not there: {problem}")
    return command


@functools.cache
def _install(install: CliInstall) -> tuple[str | None, str]:
    folder = cache_folder() / f"{install.name}-{install.version}"
    command = str(folder / install.inside)
    with _locked(cache_folder() / f"{install.name}.lock"):
        if (folder / ".complete").exists():
            return None, command
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        problem = _from_pypi(install, folder) if install.python else _from_npm(install, folder)
        if problem is None:
            (folder / ".complete").touch()
    return problem, command


def _from_npm(install: CliInstall, folder: Path) -> str | None:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        return "install Node.js 20 or newer, with npm"
    words = [npm, "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(folder)]
    return _run([*words, f"{install.package}@{install.version}"], "let npm reach its registry")


def _from_pypi(install: CliInstall, folder: Path) -> str | None:
    assert install.python is not None
    python = _python(install.python)
    if python is None:
        wanted = ".".join(map(str, install.python))
        return f"install Python {wanted} or newer, with venv, so that it is on PATH as python{wanted} (or with pyenv)"
    problem = _run([python, "-m", "venv", str(folder)], "install the venv module of this Python")
    words = [str(folder / "bin" / "pip"), "install", "--quiet", f"{install.package}=={install.version}"]
    return problem or _run(words, "let pip reach its index")


def _python(minimum: tuple[int, int]) -> str | None:
    names = [f"python3.{minor}" for minor in (12, 13, 14)] + ["python3", sys.executable]
    pyenv = Path(os.path.expanduser(os.environ.get("PYENV_ROOT", "~/.pyenv"))) / "versions"
    found = sorted(str(path) for path in pyenv.glob("3.*/bin/python3"))
    check = f"import sys, venv, ensurepip; sys.exit(sys.version_info < {minimum})"
    for python in [*found, *names]:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            if subprocess.run([python, "-c", check], capture_output=True, timeout=60).returncode == 0:
                return python
    return None


def _run(words: list[str], fix: str) -> str | None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_SECONDS, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"installing it did not end within {INSTALL_SECONDS} seconds; {fix}"
    if done.returncode == 0:
        return None
    said = re.sub(r"\s+", " ", (done.stderr or done.stdout).strip())[-300:]
    return f"{fix} ({said})"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
