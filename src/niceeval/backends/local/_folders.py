"""The folders of local sandboxes, with what says whose they are."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from niceeval.sandbox import SandboxError, SandboxRequest, StandingSandbox

ABOUT = "about.json"
UNFINISHED = 60.0
"""Seconds after which a folder that does not say whose it is was left by somebody who was killed."""


def parent_folder() -> Path:
    """Where this user's local sandboxes lie: below the temporary folder, for nobody else to see.

    Raises SandboxError where somebody else has made a folder of that name.
    """
    uid = os.getuid() if hasattr(os, "getuid") else "user"
    folder = Path(tempfile.gettempdir()).resolve() / f"niceeval-local-{uid}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or (hasattr(os, "getuid") and found.st_uid != os.getuid()):
        problem = f"{folder} is not your folder"
        raise SandboxError("sandbox-failed", backend="local", problem=problem, fix="remove it, or set TMPDIR")
    return folder


def make_folder(request: SandboxRequest) -> Path:
    """A new sandbox's folder, with `workspace`, `private`, `home` and `tmp` in it."""
    while True:
        root = parent_folder() / secrets.token_hex(6)
        try:
            root.mkdir(mode=0o700)
        except FileExistsError:
            continue
        break
    now = time.time()
    about = {"labels": dict(request.labels), "created": now, "expires": now + request.lifetime}
    (root / ABOUT).write_text(json.dumps(about), encoding="utf-8")
    for name in ("workspace", "private", "home", "tmp"):
        (root / name).mkdir(mode=0o700 if name == "private" else 0o755)
    return root


def standing() -> Iterator[StandingSandbox]:
    """The sandboxes whose folders are there.

    One that says nothing of itself is being made or removed, or was when its niceeval was killed: nobody's, soon.
    """
    for root in sorted(parent_folder().iterdir()):
        try:
            about = json.loads((root / ABOUT).read_text(encoding="utf-8"))
            labels: Mapping[str, str] = {str(key): str(value) for key, value in about["labels"].items()}
            yield StandingSandbox(
                backend="local",
                sandbox_id=root.name,
                labels=labels,
                created_at=float(about["created"]),
                expires_at=float(about["expires"]),
                detail=str(root),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            yield from _unfinished(root)


def _unfinished(root: Path) -> Iterator[StandingSandbox]:
    try:
        changed = root.stat().st_mtime
    except OSError:
        return
    yield StandingSandbox(
        backend="local",
        sandbox_id=root.name,
        labels={"niceeval": "1"},
        created_at=changed,
        expires_at=changed + UNFINISHED,
        detail=str(root),
    )


def remove_folder(root: Path) -> None:
    """Remove it, also what was made read-only in it. Raises SandboxError where something stays."""
    for _ in range(3):
        shutil.rmtree(root, onerror=_writable_and_again)
        if not root.exists():
            return
        time.sleep(0.05)
    problem = f"{root} could not be removed"
    raise SandboxError("sandbox-failed", backend="local", problem=problem, fix="remove it by hand")


def _writable_and_again(function: object, path: str, _: object) -> None:
    try:
        os.chmod(os.path.dirname(path), 0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, 0o700)
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
    except OSError:
        return
