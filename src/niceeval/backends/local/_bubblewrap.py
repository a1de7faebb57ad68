"""The arguments of `bwrap`: a command sees the machine's programs read-only, the sandbox's folder, and nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from niceeval.sandbox import SandboxUnavailableError

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked for: what lies elsewhere is not seen."""
_SYSTEM = ("/usr", "/etc", "/opt")
_TOP = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")


def bubblewrap() -> str:
    """The program. Raises SandboxUnavailableError where it is not installed."""
    found = shutil.which("bwrap")
    if found is None:
        raise unavailable("bwrap is not installed", "apt-get install bubblewrap, or use docker_sandbox(...)")
    return found


def unavailable(problem: str, fix: str) -> SandboxUnavailableError:
    """The error of a machine where this isolation cannot be had."""
    return SandboxUnavailableError("sandbox-unavailable", backend="local (bubblewrap)", problem=problem, fix=fix)


def wrapped(program: str, root: Path, cwd: str, argv: Sequence[str], *, network: bool) -> list[str]:
    """The command line that runs `argv` isolated; `root` is the sandbox's folder, seen at the same place."""
    # Not --die-with-parent: what a command leaves running would die with it. The supervisor ends it all.
    line = [program, "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if not network:
        line.append("--unshare-net")
    for folder in _SYSTEM:
        if os.path.isdir(folder):
            line += ["--ro-bind", folder, folder]
    for folder in _TOP:
        if os.path.islink(folder):
            line += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            line += ["--ro-bind", folder, folder]
    if network and os.path.isdir("/run/systemd/resolve"):
        line += ["--ro-bind", "/run/systemd/resolve", "/run/systemd/resolve"]
    line += ["--proc", "/proc", "--dev", "/dev", "--bind", str(root / "tmp"), "/tmp", "--bind", str(root), str(root)]
    return [*line, "--chdir", cwd, "--", *argv]


def host_path(where: str, root: Path, *, writing: bool) -> str | None:
    """The place on this machine of a path in the sandbox; None where it leads to what the sandbox does not show."""
    own = where == str(root) or where.startswith(f"{root}/")
    temporary = where == "/tmp" or where.startswith("/tmp/")
    place = str(root / "tmp") + where.removeprefix("/tmp") if temporary and not own else where
    real = os.path.realpath(place)
    shown = (str(root),) if writing else (str(root), *_SYSTEM, *_TOP)
    return place if any(real == folder or real.startswith(f"{folder}/") for folder in shown) else None


def program_problem(name: str, cwd: str, path: str, root: Path) -> str | None:
    """Why a program cannot be started in there, as far as it can be told from here; None where it can."""
    if not os.path.isdir(cwd):
        return f"its folder {cwd} does not exist"
    if "/" in name:
        found: str | None = os.path.join(cwd, name)
    else:
        found = next((place for folder in path.split(":") if _runs(place := os.path.join(folder, name))), None)
    if found is None or not os.path.lexists(found):
        return "no such file or directory"
    seen = (*_SYSTEM, *_TOP, str(root), "/proc", "/dev")
    if not any(os.path.abspath(found).startswith(f"{folder}/") for folder in seen):
        return "no such file or directory in the sandbox"
    return None if _runs(found) else "permission denied"


def _runs(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
