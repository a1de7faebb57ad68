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
OWN = ("workspace", "private", "home", "tmp")
"""What a command has of the sandbox's folder, each for itself. Not the folder: who could put a link in the place of one
of these would choose what of the host the next command is given there."""
STAGE = "/run/niceeval"
"""Where a command of a file operation sees its stage: in no folder that the agent may write."""
_ROOT_KEEPS = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "NET_BIND_SERVICE")
"""The capabilities of commands where niceeval is run as root: none to mount, or to make a device of the host's disk."""


def bubblewrap() -> str:
    """The program. Raises SandboxUnavailableError where it is not installed."""
    found = shutil.which("bwrap")
    if found is None:
        raise unavailable("bwrap is not installed", "apt-get install bubblewrap, or use docker_sandbox(...)")
    return found


def unavailable(problem: str, fix: str) -> SandboxUnavailableError:
    """The error of a machine where this isolation cannot be had."""
    return SandboxUnavailableError("sandbox-unavailable", backend="local (bubblewrap)", problem=problem, fix=fix)


def wrapped(
    program: str, root: Path, cwd: str, argv: Sequence[str], *, network: bool, stage: Path | None = None
) -> list[str]:
    """The command line that runs `argv` isolated; what it has of `root`, the sandbox's folder, is at the same place.

    `stage` is one more folder that it sees, at STAGE, and may write.
    """
    # Not --die-with-parent: what a command leaves running would die with it. The supervisor ends it all.
    line = [program, "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if not network:
        line.append("--unshare-net")
    if os.geteuid() == 0:
        line += ["--cap-drop", "ALL"]
        for name in _ROOT_KEEPS:
            line += ["--cap-add", f"CAP_{name}"]
    line += _programs()
    if network and os.path.isdir("/run/systemd/resolve"):
        line += ["--ro-bind", "/run/systemd/resolve", "/run/systemd/resolve"]
    line += ["--proc", "/proc", "--dev", "/dev", "--bind", str(root / "tmp"), "/tmp"]
    hidden = _below_tmp(root)
    if hidden is not None:
        line += ["--tmpfs", f"/tmp/{hidden}"]
    for name in OWN:
        line += ["--bind", str(root / name), str(root / name)]
    if stage is not None:
        line += ["--bind", str(stage), STAGE]
    return [*line, "--chdir", cwd, "--", *argv]


def _programs() -> list[str]:
    line: list[str] = []
    for folder in _SYSTEM:
        if os.path.isdir(folder):
            line += ["--ro-bind", folder, folder]
    for folder in _TOP:
        if os.path.islink(folder):
            line += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            line += ["--ro-bind", folder, folder]
    return line


def prepare(root: Path) -> None:
    """Make what has to be there before the first command."""
    hidden = _below_tmp(root)
    if hidden is not None:
        (root / "tmp" / hidden).mkdir(exist_ok=True)


def _below_tmp(root: Path) -> str | None:
    """The first folder on the way from /tmp to the sandbox's folder.

    Something is mounted on it in every command: so it cannot be moved, and no link put in its place, which the mounts
    below it would follow.
    """
    return root.parts[2] if root.parts[:2] == ("/", "tmp") and len(root.parts) > 2 else None


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
