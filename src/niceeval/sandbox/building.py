"""What authors of backends share: one meaning of paths, of arguments, of output, whatever runs the command."""

from __future__ import annotations

import codecs
import contextlib
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from niceeval._base.errors import SandboxCommandError, SandboxFileError
from niceeval._model.sandbox import CommandResult, Sandbox

MAX_KEPT_OUTPUT = 1024 * 1024
"""Bytes of each output stream that a result keeps: the first half and the last."""
TIMED_OUT = 124
"""The exit code of a command whose limit passed, as `timeout` gives it."""
PRIVATE_MODE = 0o700
"""The mode of a sandbox's private folder."""
FILE_MODE = 0o644
"""The mode of a file that is written new."""


def resolve_path(workdir: str, path: str, *, doing: str = "use") -> str:
    """The absolute path that a sandbox path means: a relative one is below `workdir`.

    Raises SandboxFileError for what can be no path: empty text, or a NUL in it.
    """
    if not path or "\0" in path:
        problem = "is no path: it is empty or holds a NUL"
        raise SandboxFileError("sandbox-file", path=repr(path)[:200], problem=problem, fix=f"give a path to {doing}")
    return posixpath.normpath(posixpath.join(workdir, path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command, checked: `argv`, an absolute `cwd`, what is added to the environment, and what stdin gives."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    stdin: bytes | None
    timeout: float | None
    root: bool


def checked_command(
    workdir: str,
    cmd: str,
    args: Sequence[str],
    *,
    cwd: str | None,
    env: Mapping[str, str] | None,
    root: bool,
    stdin: str | bytes | None,
    timeout: float | None,
) -> Command:
    """The arguments of `run_command`, checked once for every backend.

    Raises SandboxCommandError (`sandbox-command`) for what no system can start: a NUL, an empty name, a wrong type.
    """
    argv = (cmd, *args)
    if not cmd or not all(isinstance(part, str) for part in argv):
        raise _refused(cmd, "its name and its arguments are texts, and the name is not empty")
    if any("\0" in part for part in argv):
        raise _refused(cmd, "an argument holds a NUL, which no program can be given")
    given = dict(env or {})
    for name, value in given.items():
        if not all(isinstance(text, str) for text in (name, value)):
            raise _refused(cmd, f"the variable {name!r} is not text")
        if not name or "=" in name or "\0" in name + value:
            raise _refused(cmd, f"{name!r} can be no variable: it is empty, or holds = or a NUL")
    if timeout is not None and not timeout > 0:
        raise _refused(cmd, f"its timeout is {timeout!r}")
    return Command(
        argv=argv,
        cwd=resolve_path(workdir, cwd or ".", doing="run in"),
        env=given,
        stdin=stdin.encode("utf-8", "surrogateescape") if isinstance(stdin, str) else stdin,
        timeout=timeout,
        root=root,
    )


def shell_argv(script: str) -> tuple[str, Sequence[str]]:
    """The command that runs a script with bash; no login shell."""
    return "bash", ("-c", script)


def not_started(
    command: str, problem: str, fix: str = "install it in the sandbox, or correct its name"
) -> SandboxCommandError:
    """The error of a command that could not be started."""
    return SandboxCommandError("sandbox-command", command=command[:200], problem=problem, fix=fix)


def no_file(path: str, problem: str, fix: str = "correct the path") -> SandboxFileError:
    """The error of a path in the sandbox that cannot be used."""
    return SandboxFileError("sandbox-file", path=path[:500], problem=problem, fix=fix)


def _refused(cmd: object, problem: str) -> SandboxCommandError:
    return not_started(str(cmd).replace("\0", "\\0"), problem, "correct the call")


class ByCommand:
    """What follows from `run_command` and `read_bytes`; a backend's sandbox derives from it and has these too."""

    async def run_shell(
        self: Sandbox,
        script: str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        root: bool = False,
        stdin: str | bytes | None = None,
        timeout: float | None = None,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
    ) -> CommandResult:
        """Run a script with bash."""
        cmd, args = shell_argv(script)
        return await self.run_command(
            cmd,
            args,
            cwd=cwd,
            env=env,
            root=root,
            stdin=stdin,
            timeout=timeout,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
        )

    async def read_file(self: Sandbox, path: str) -> str:
        """A file as UTF-8, with U+FFFD for what is none."""
        return (await self.read_bytes(path)).decode("utf-8", "replace")


class OutputKeeper:
    """Keeps a bounded part of one output stream, and tells a callback all of it, as text.

    `limit` bytes are kept: the first half, and the last. A callback that raises is not called again; `error` is what it
    raised, for the caller to raise when the command is over.
    """

    def __init__(self, on_text: Callable[[str], None] | None = None, *, limit: int = MAX_KEPT_OUTPUT) -> None:
        self.error: BaseException | None = None
        self.truncated = False
        self._on_text = on_text
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def feed(self, data: bytes) -> None:
        """More of the stream."""
        self._tell(self._decoder.decode(data))
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            if len(self._tail) > 2 * self._half:
                self._shorten()

    def close(self) -> str:
        """The stream is over: what was kept of it, as text."""
        self._tell(self._decoder.decode(b"", final=True))
        self._shorten()
        head, tail = bytes(self._head), bytes(self._tail)
        if not self._dropped:
            return (head + tail).decode("utf-8", "replace")
        self.truncated = True
        gap = f"\n[... {self._dropped:,} bytes left out ...]\n"
        return head.decode("utf-8", "replace") + gap + tail.decode("utf-8", "replace")

    def _shorten(self) -> None:
        over = len(self._tail) - self._half
        if over > 0:
            del self._tail[:over]
            self._dropped += over

    def _tell(self, text: str) -> None:
        if not text or self._on_text is None or self.error is not None:
            return
        try:
            self._on_text(text)
        except BaseException as error:  # noqa: BLE001 - the caller's own; it is raised where the command has ended
            self.error = error


def command_result(
    out: OutputKeeper,
    err: OutputKeeper,
    *,
    exit_code: int,
    duration: float,
    timed_out: bool = False,
    oom_killed: bool = False,
) -> CommandResult:
    """The result of a command whose streams are over. Raises what a callback raised."""
    stdout, stderr = out.close(), err.close()
    for keeper in (out, err):
        if keeper.error is not None:
            raise keeper.error
    return CommandResult(
        stdout=stdout,
        stderr=stderr,
        exit_code=TIMED_OUT if timed_out else exit_code,
        duration=duration,
        truncated=out.truncated or err.truncated,
        timed_out=timed_out,
        oom_killed=oom_killed,
    )


def exit_code_of(status: int) -> int:
    """The exit code that a shell shows for `status`, a return code of `subprocess`: 128 + n for death by signal n."""
    return status if status >= 0 else 128 - status


def contents_of(files: Mapping[str, str | bytes], workdir: str, target_dir: str | None) -> dict[str, bytes]:
    """What `write_files` was given, as absolute paths and bytes. Text is UTF-8.

    Raises SandboxFileError for what can be no path, or no content.
    """
    folder = resolve_path(workdir, target_dir or ".", doing="write to")
    found: dict[str, bytes] = {}
    for path, content in files.items():
        where = resolve_path(folder, path, doing="write to")
        if path.endswith("/") or posixpath.basename(where) == "":
            raise no_file(path, "is a folder's name")
        if isinstance(content, str):
            with contextlib.suppress(UnicodeEncodeError):
                found[where] = content.encode("utf-8")
                continue
            found[where] = content.encode("utf-8", "surrogatepass")
        elif isinstance(content, (bytes, bytearray)):
            found[where] = bytes(content)
        else:
            raise no_file(path, f"its content is {type(content).__name__}, neither text nor bytes")
    return found
