"""`t.sandbox`: the attempt's sandbox as an eval uses it, and assertions on what the agent changed in it."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from niceeval._base.callsite import CallSite, call_site
from niceeval._base.errors import AuthorError
from niceeval._base.file_reads import MAX_READS, read_for_caller
from niceeval._drive.deferred import Deferred
from niceeval._drive.driver import Driver
from niceeval._drive.sending import SandboxCall, Sending
from niceeval._judge import changes as judged
from niceeval._judge.changes import Settled
from niceeval._judge.collector import AssertionHandle
from niceeval._judge.evaluation import Evaluation
from niceeval._model.changes import Changes
from niceeval._model.sandbox import CommandResult, Sandbox

T = TypeVar("T")
_RESULT_NAMES = frozenset(CommandResult.__slots__)


class DiffView:
    """`t.sandbox.diff`: what the agent changed, as values for `t.check`; they are settled at the end."""

    __slots__ = ("_view",)

    def __init__(self, view: SandboxView) -> None:
        self._view = view

    def get(self, path: str) -> Deferred[str | None]:
        """The text at the end of a file that the agent created or changed; None for any other."""
        asked = self._view._path("diff.get", path)
        return self._view._deferred(f"sandbox.diff.get({path!r})", lambda found: judged.diff_text(found, asked))

    def is_empty(self) -> Deferred[bool]:
        """Whether the agent changed nothing."""
        return self._view._deferred("sandbox.diff.is_empty()", judged.diff_is_empty)

    def matches(self, pattern: str | re.Pattern[str]) -> Deferred[bool]:
        """Whether a changed path or an added line contains the text, or the pattern is found in it."""
        asked = self._view._pattern("diff.matches", pattern)
        return self._view._deferred("sandbox.diff.matches(...)", lambda found: judged.diff_matches(found, asked))

    def __repr__(self) -> str:
        return "<t.sandbox.diff>"


class SandboxView:
    """The sandbox's operations, each awaited, and assertions on what the agent changed in the workdir.

    Paths in the sandbox are relative to `workdir`, those on this machine to the eval file's folder. What the eval does
    here is never the agent's change, except while a send runs.
    """

    __slots__ = ("_driver", "_sandbox")

    def __init__(self, driver: Driver, sandbox: Sandbox) -> None:
        self._driver = driver
        self._sandbox = sandbox

    @property
    def workdir(self) -> str:
        """Where the agent works: an absolute path in the sandbox."""
        return self._sandbox.workdir

    @property
    def sandbox_id(self) -> str:
        """The backend's own id of the sandbox."""
        return self._sandbox.sandbox_id

    # Operations -------------------------------------------------------------------------------------------------

    def run_command(
        self,
        cmd: str,
        args: Sequence[str] = (),
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        root: bool = False,
        stdin: str | bytes | None = None,
        timeout: float | None = None,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
    ) -> Sending[CommandResult]:
        """Run an argument vector, without a shell. `timeout` in seconds; the whole process tree is dead then."""
        return self._call(
            "run_command",
            lambda: self._sandbox.run_command(
                cmd,
                args,
                cwd=cwd,
                env=env,
                root=root,
                stdin=stdin,
                timeout=timeout,
                on_stdout=on_stdout,
                on_stderr=on_stderr,
            ),
            _RESULT_NAMES,
        )

    def run_shell(
        self,
        script: str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        root: bool = False,
        stdin: str | bytes | None = None,
        timeout: float | None = None,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
    ) -> Sending[CommandResult]:
        """Run a bash script; otherwise as `run_command`."""
        return self._call(
            "run_shell",
            lambda: self._sandbox.run_shell(
                script,
                cwd=cwd,
                env=env,
                root=root,
                stdin=stdin,
                timeout=timeout,
                on_stdout=on_stdout,
                on_stderr=on_stderr,
            ),
            _RESULT_NAMES,
        )

    def read_file(self, path: str) -> Sending[str]:
        """A file's text as it is now; bytes that are no UTF-8 are replaced."""
        return self._call("read_file", lambda: self._sandbox.read_file(path))

    def read_bytes(self, path: str) -> Sending[bytes]:
        """A file's content as it is now."""
        return self._call("read_bytes", lambda: self._sandbox.read_bytes(path))

    def write_files(self, files: Mapping[str, str | bytes], target_dir: str | None = None) -> Sending[None]:
        """Write files, with the folders above them."""
        return self._call("write_files", lambda: self._sandbox.write_files(files, target_dir))

    def upload_directory(
        self, local_dir: str | os.PathLike[str], target_dir: str | None = None, *, ignore: Sequence[str] = ()
    ) -> Sending[None]:
        """Copy a folder of this machine, relative to the eval file's, into the sandbox."""
        folder = self._host_folder("upload_directory", local_dir)
        if not folder.is_dir():
            raise self._fault(AuthorError("bad-file", file=str(local_dir), problem="there is no such folder"))
        for file in _files_in(folder):
            read_for_caller(file)
        return self._call("upload_directory", lambda: self._sandbox.upload_directory(folder, target_dir, ignore=ignore))

    def download_directory(self, path: str, local_dir: str | os.PathLike[str]) -> Sending[None]:
        """Copy a folder of the sandbox to one of this machine, relative to the eval file's."""
        folder = self._host_folder("download_directory", local_dir)
        return self._call("download_directory", lambda: self._sandbox.download_directory(path, folder))

    def file_exists(self, path: str) -> Sending[bool]:
        """Whether a file or folder is there now."""
        return self._call("file_exists", lambda: self._sandbox.file_exists(path))

    # What the agent changed -------------------------------------------------------------------------------------

    @property
    def diff(self) -> DiffView:
        """What the agent changed, as values for `t.check`."""
        return DiffView(self)

    def file(self, path: str) -> Deferred[str | None]:
        """The text of a file at the end, whoever wrote it; None where there is none. For `t.check`."""
        given: object = path
        if not isinstance(given, str) or not given or "\0" in given:
            raise self._bad("file", "path", path, "give a path, relative to the workdir")
        collected = self._driver.collected
        collected.want(path)
        return Deferred(f"sandbox.file({path!r})", lambda: collected.file(path))

    def file_changed(self, path: str) -> AssertionHandle:
        """The agent created or changed the file, and it is there at the end."""
        asked = self._path("file_changed", path)
        return self._record(f'file_changed("{asked}")', lambda found: judged.file_changed(found, asked))

    def file_deleted(self, path: str) -> AssertionHandle:
        """The agent deleted the file, or renamed it."""
        asked = self._path("file_deleted", path)
        return self._record(f'file_deleted("{asked}")', lambda found: judged.file_deleted(found, asked))

    def not_in_diff(self, pattern: str | re.Pattern[str]) -> AssertionHandle:
        """No path that the agent changed and no line that it added contains the text, or matches the pattern."""
        asked = self._pattern("not_in_diff", pattern)
        shown = f"/{asked.pattern}/" if isinstance(asked, re.Pattern) else repr(asked)
        return self._record(f"not_in_diff({shown:.80})", lambda found: judged.not_in_diff(found, asked))

    def __repr__(self) -> str:
        return f"<t.sandbox {self._sandbox.sandbox_id}>"

    # Parts ------------------------------------------------------------------------------------------------------

    def _call(
        self, name: str, make: Callable[[], Coroutine[Any, Any, T]], result_names: frozenset[str] = frozenset()
    ) -> Sending[T]:
        return self._driver.sending(f"sandbox.{name}", call_site(), make, result_names, kind=SandboxCall)

    def _record(self, name: str, evaluate: Callable[[Changes | None], Evaluation]) -> AssertionHandle:
        collected = self._driver.collected
        return self._driver.record(name, call_site(), deferred=lambda: evaluate(collected.changes))

    def _deferred(self, call: str, settle: Callable[[Changes | None], Settled[T]]) -> Deferred[T]:
        collected = self._driver.collected
        return Deferred(call, lambda: settle(collected.changes))

    def _path(self, call: str, path: object) -> str:
        """A path in the workdir, relative to it."""
        if not isinstance(path, str) or not path or "\0" in path:
            raise self._bad(call, "path", path, "give a path, relative to the workdir")
        whole = posixpath.normpath(posixpath.join(self._sandbox.workdir, path))
        inside = posixpath.relpath(whole, posixpath.normpath(self._sandbox.workdir))
        if inside == "." or inside.startswith("../") or inside == "..":
            raise self._bad(call, "path", path, "give the path of a file below the workdir: nothing else is looked at")
        return inside

    def _pattern(self, call: str, pattern: str | re.Pattern[str]) -> str | re.Pattern[str]:
        # An empty text is in every path: such an assertion could never pass.
        given: object = pattern
        if not given or not isinstance(given, (str, re.Pattern)) or isinstance(getattr(given, "pattern", ""), bytes):
            raise self._bad(call, "pattern", pattern, "give non-empty text or re.compile(...)")
        return pattern

    def _host_folder(self, call: str, path: object) -> Path:
        if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
            raise self._bad(call, "local_dir", path, "give a path, relative to the eval file's folder")
        return Path(os.path.abspath(self._driver.setting.folder / os.fspath(path)))

    def _bad(self, call: str, argument: str, given: object, fix: str) -> BaseException:
        problem = f"is {given!r:.80}"
        return self._fault(AuthorError("bad-argument", call=call, argument=argument, problem=problem, fix=fix))

    def _fault(self, error: AuthorError) -> BaseException:
        site: CallSite = call_site()
        return self._driver.author_fault(error, site)


def _files_in(folder: Path) -> list[str]:
    """The folder's files, as many as an attempt's reads are kept of and one more."""
    found: list[str] = []
    for path, folders, names in os.walk(folder):
        folders.sort()
        found += [os.path.join(path, name) for name in sorted(names)]
        if len(found) > MAX_READS:
            break
    return found[: MAX_READS + 1]
