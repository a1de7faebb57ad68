"""A recording on disk: `recording.json`, and a text file for each long output."""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from niceeval._base.errors import AdapterError
from niceeval._base.redaction import Redactor

FORMAT = "niceeval.recording"
VERSION = 1
FILE = "recording.json"
LONG = 2_000
"""Characters from which an output is a file of its own."""
MAX_OUTPUT = 32 * 1024 * 1024
"""Characters of one output that are kept."""
WORKDIR = "/sandbox/work"
PRIVATE = "/sandbox/private"


@dataclass(slots=True, kw_only=True)
class Call:
    """One call that the agent made of its sandbox, and what came of it.

    `about` says what for, to a person. `result` is JSON; `stdout` and `stderr` are all that a command printed.
    `error` is the class, the code and the fields of what was raised instead.
    """

    call: str
    about: str = ""
    result: Any = None
    stdout: str = ""
    stderr: str = ""
    error: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What an agent did in a few turns of one conversation, and what they came to.

    `turns`: per prompt its `status`, `events`, `usage`, `coverage` and `diagnostics`, as JSON.
    """

    agent: str
    prompts: tuple[str, ...]
    calls: list[Call]
    turns: list[Any]
    model: str | None = None
    reasoning_effort: str | None = None
    flags: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)


class Hiding:
    """Takes out of texts what is secret, or nobody's business: keys, and the names of folders, users and machines."""

    def __init__(self, secrets: Sequence[str], *, workdir: str, private: str) -> None:
        self._redact = Redactor(secrets)
        names = {workdir: WORKDIR, private: PRIVATE, str(Path.home()): "/home/user", socket.gethostname(): "host"}
        try:
            names[getpass.getuser()] = "user"
        except (OSError, KeyError):
            names.pop("", None)
        common = {"root", "user", "host", "localhost", "/root", "/"}
        kept = {text: word for text, word in names.items() if len(text) >= 4 and text not in common}
        self._names = sorted(kept.items(), key=lambda pair: -len(pair[0]))

    def __call__(self, text: str) -> str:
        """The text without them."""
        text = self._redact(text)
        for name, word in self._names:
            text = text.replace(name, word)
        return text

    def deep(self, value: Any) -> Any:
        """The same for every text in a JSON value."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, list):
            return [self.deep(item) for item in value]
        if isinstance(value, dict):
            return {self(str(key)): self.deep(item) for key, item in value.items()}
        return value


def save_recording(recording: Recording, folder: Path) -> None:
    """Write it to a folder that is new or empty. Raises AdapterError (`recording`) where it is neither."""
    if folder.exists() and any(folder.iterdir()):
        raise _problem(folder, "is not empty", "give another folder, or empty it")
    folder.mkdir(parents=True, exist_ok=True)
    calls = []
    for number, call in enumerate(recording.calls):
        stored = {key: value for key, value in asdict(call).items() if value not in (None, "")}
        for name in ("stdout", "stderr"):
            text = str(stored.get(name, ""))
            if len(text) > LONG:
                stored[name] = {"file": f"{number:03d}-{name}.txt"}
                (folder / f"{number:03d}-{name}.txt").write_text(text, "utf-8", "surrogatepass", newline="")
        calls.append(stored)
    document = {"format": FORMAT, "schemaVersion": VERSION, **asdict(recording), "calls": calls}
    text = json.dumps(document, indent=1, ensure_ascii=True) + "\n"
    (folder / FILE).write_text(text, "utf-8")


def load_recording(folder: str | os.PathLike[str]) -> Recording:
    """Read a recording. Raises AdapterError (`recording`) where the folder holds none that can be read."""
    where = Path(folder)
    try:
        document = json.loads((where / FILE).read_text("utf-8"))
        if document["format"] != FORMAT or document["schemaVersion"] != VERSION:
            raise _problem(where, "was recorded in another format", "record it again")
        calls = [_call(stored, where) for stored in document["calls"]]
        return Recording(
            agent=document["agent"],
            prompts=tuple(document["prompts"]),
            calls=calls,
            turns=document["turns"],
            model=document["model"],
            reasoning_effort=document["reasoning_effort"],
            flags=document["flags"],
            about=document["about"],
        )
    except OSError as error:
        raise _problem(where, f"cannot be read: {error.strerror}", "niceeval adapter record makes one") from None
    except (ValueError, KeyError, TypeError) as error:
        raise _problem(where, f"is no recording: {error!r}", "niceeval adapter record makes one") from None


def _call(stored: Mapping[str, Any], folder: Path) -> Call:
    texts = {}
    for name in ("stdout", "stderr"):
        found = stored.get(name, "")
        if isinstance(found, dict):
            # Only a plain name: a recording may come from anywhere.
            path = folder / Path(str(found["file"])).name
            found = path.read_bytes().decode("utf-8", "surrogatepass")
        texts[name] = str(found)
    return Call(
        call=str(stored["call"]),
        about=str(stored.get("about", "")),
        result=stored.get("result"),
        error=stored.get("error"),
        stdout=texts["stdout"],
        stderr=texts["stderr"],
    )


def _problem(folder: Path, problem: str, fix: str) -> AdapterError:
    return AdapterError("recording", folder=str(folder), problem=problem, fix=fix)
