"""Runs one command and answers for its whole tree: a small program of its own, started for every command.

    python _supervisor.py CONTROL_FD CWD PROGRAM [ARGUMENT ...]

It is the subreaper of everything the command starts (prctl(2), PR_SET_CHILD_SUBREAPER): a child that double-forks or
begins a session of its own comes back to it as an orphan, and cannot get away. On the control socket it says `started`,
or `failed ERRNO`, and `exited STATUS`; at `kill`, or when the other end is closed because niceeval has ended, it kills
all of them until none is left, says `dead`, and ends. After the command it stays for as long as anything lives that the
command left running.

A command that kills its own parent would make orphans of all it started, of which some have cleared their environment
and are found by nothing else. So there are two: the keeper, whose only work is to wait for the supervisor, gets them
where that was killed, and kills them; where the keeper was killed, the supervisor does. Only who kills both escapes.

Standard library only, and no import of niceeval: it starts with every command.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import signal
import socket
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_POLL = 0.25


def main() -> int:
    control = socket.socket(fileno=int(sys.argv[1]))
    # The command must not have it: it could speak for the supervisor, and would hold it open.
    control.set_inheritable(False)
    cwd, argv = sys.argv[2], sys.argv[3:]
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_IGN)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    keeper = os.getpid()
    supervisor = os.fork()
    if supervisor:
        return _keep(supervisor)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for noticed in (signal.SIGCHLD, signal.SIGUSR1):
        signal.signal(noticed, lambda *_: None)
    _prctl(PR_SET_PDEATHSIG, signal.SIGUSR1)
    child = _start(control, cwd, argv)
    if child is None:
        return 0
    _let_go()
    _watch(control, child, wake_read, keeper)
    return 0


def _keep(supervisor: int) -> int:
    """Wait for the supervisor's end; kill what it leaves where it was killed. The exit code: 0 if it was not."""
    # Whoever wakes the keeper means the supervisor too: the command may have stopped both.
    signal.signal(signal.SIGCONT, lambda *_: _signal(supervisor, signal.SIGCONT))
    _let_go()
    status = os.waitpid(supervisor, 0)[1]
    if status != 0:
        _kill_all()
    return 0 if status == 0 else 1


def _let_go() -> None:
    """Hold nothing open that the command reads or writes."""
    for number in (0, 1, 2):
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, number)
        os.close(null)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _start(control: socket.socket, cwd: str, argv: list[str]) -> int | None:
    """Fork and execute; None where that failed, which was said."""
    failed_read, failed_write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _become(cwd, argv)
        except OSError as error:
            os.write(failed_write, str(error.errno or errno.EINVAL).encode())
        finally:
            os._exit(127)
    os.close(failed_write)
    said = os.read(failed_read, 32)
    os.close(failed_read)
    if said:
        os.waitpid(child, 0)
        _say(control, b"failed " + said)
        return None
    _say(control, b"started")
    return child


def _become(cwd: str, argv: list[str]) -> None:
    os.setsid()
    for number in range(1, signal.NSIG):
        if number not in (signal.SIGKILL, signal.SIGSTOP) and signal.getsignal(number) is not None:
            signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    os.chdir(cwd)
    os.execvpe(argv[0], argv, os.environ)


def _watch(control: socket.socket, child: int, wake: int, keeper: int) -> None:
    status: int | None = None
    while True:
        if os.getppid() != keeper:
            _kill_all()
            return
        status, alone = _reap(control, child, status)
        if status is not None and alone:
            return
        ready, _, _ = select.select([wake, control.fileno()], [], [], _POLL)
        if wake in ready:
            os.read(wake, 4096)
        if control.fileno() in ready:
            # Whatever is said, and the end of who says it, mean the same.
            _kill_all()
            _say(control, b"dead")
            return


def _reap(control: socket.socket, child: int, status: int | None) -> tuple[int | None, bool]:
    """The command's status once it has ended, and whether nothing else is left."""
    while True:
        try:
            pid, found = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status, True
        if pid == 0:
            return status, False
        if pid == child:
            status = os.waitstatus_to_exitcode(found)
            _say(control, b"exited %d" % status)


def _kill_all() -> None:
    """Kill every descendant, again and again, until there is none: one may fork while it is being killed."""
    while True:
        below = _descendants()
        for pid in below:
            # Stopped first: what cannot run cannot fork.
            _signal(pid, signal.SIGSTOP)
        for pid in below:
            _signal(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            if not _descendants():
                return
        time.sleep(0.005)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _descendants() -> list[int]:
    parents = _parents()
    own = {os.getpid()}
    found: list[int] = []
    while True:
        more = [pid for pid, parent in parents.items() if parent in own and pid not in own]
        if not more:
            return found
        own.update(more)
        found.extend(more)


def _parents() -> dict[int, int]:
    """Every process's parent."""
    if not os.path.isdir("/proc/self"):
        return _parents_by_ps()
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The name in parentheses may hold anything, also parentheses.
                    rest = file.read().rpartition(b")")[2].split()
                if rest[0] != b"Z":
                    parents[int(name)] = int(rest[1])
            except (OSError, IndexError, ValueError):
                continue
    return parents


def _parents_by_ps() -> dict[int, int]:
    with os.popen("ps -axo pid=,ppid=") as listing:
        pairs = [line.split() for line in listing]
    return {int(pair[0]): int(pair[1]) for pair in pairs if len(pair) == 2}


def _say(control: socket.socket, text: bytes) -> None:
    with contextlib.suppress(OSError):
        control.sendall(text + b"\n")


if __name__ == "__main__":
    sys.exit(main())
