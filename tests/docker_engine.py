"""Engines and images for tests, without a registry: an image is made of this machine's own programs.

    pytestmark = pytest.mark.skipif(why_no_docker() is not None, reason=str(why_no_docker()))
    image = image_for_tests("tiny")     # busybox, bash, git; "tiny-py": python3 too; "full": node and npm too

Images are tagged by what is in them and built once, whatever the number of workers.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import http.client
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

Kind = Literal["tiny", "tiny-py", "full"]
REPOSITORY = "niceeval-test"
HOW = "run scripts/docker-engine.sh, or set DOCKER_HOST"
LEFT_OUT = "no container engine"
"""How a reason begins that counts as left out for lack of an engine."""
_FORMAT = "3"
_MTIME = 1_700_000_000


class _Connection(http.client.HTTPConnection):
    def __init__(self, address: str) -> None:
        super().__init__("engine", timeout=300)
        self._address = urlsplit(address)

    def connect(self) -> None:
        if self._address.scheme == "unix":
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(300)
            self.sock.connect(self._address.path)
        else:
            self.sock = socket.create_connection((self._address.hostname or "", self._address.port or 2375), 300)


def engine_address() -> str:
    """The engine that tests use."""
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def ask(
    address: str, method: str, path: str, body: Any = None, content_type: str = "application/json"
) -> tuple[int, bytes]:
    """One call of the engine's API: the status and the body. Raises OSError."""
    connection = _Connection(address)
    try:
        data = body if body is None or isinstance(body, (bytes, io.IOBase)) else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": content_type})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@functools.cache
def why_no_docker() -> str | None:
    """Why no test can use an engine here, and what helps; None where one answers."""
    try:
        status, _ = ask(engine_address(), "GET", "/_ping")
    except OSError as error:
        return f"{LEFT_OUT}: {engine_address()} does not answer ({error}); {HOW}"
    return None if status == 200 else f"{LEFT_OUT}: {engine_address()} answers {status}; {HOW}"


@functools.cache
def why_no_image(kind: Kind = "tiny") -> str | None:
    """Why an image of this kind cannot be made here, or no engine used; None where it can."""
    if (problem := why_no_docker()) is not None:
        return problem
    missing = [name for name in _programs(kind) if _program(name) is None]
    if missing:
        return f"{LEFT_OUT}: images for tests need {', '.join(missing)} on this machine; {HOW}"
    return None


@functools.cache
def image_for_tests(kind: Kind = "tiny", address: str | None = None) -> str:
    """The name of an image of this kind on the engine, which is made where it is not there."""
    address = address or engine_address()
    with _locked(f"image-{kind}"):
        root, tag = _harvest(kind)
        name = f"{REPOSITORY}:{kind}-{tag}"
        for known in (name, f"localhost/{name}"):
            if ask(address, "GET", f"/images/{known}/json")[0] == 200:
                return known
        with tempfile.TemporaryFile() as packed:
            _pack(root, packed)
            packed.seek(0)
            changes = (
                "&changes=ENV%20PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin&changes=CMD%20%5B%22/bin/sh%22%5D"
            )
            status, said = ask(
                address,
                "POST",
                f"/images/create?fromSrc=-&repo={REPOSITORY}&tag={kind}-{tag}{changes}",
                packed,
                "application/x-tar",
            )
        assert status == 200, said[-500:]
        assert b'"error"' not in said, said[-500:]
        if ask(address, "GET", f"/images/{name}/json")[0] != 200:
            # Podman gives the image no name.
            made = str(json.loads(said.strip().splitlines()[-1])["status"]).removeprefix("sha256:")
            ask(address, "POST", f"/images/{made}/tag?repo=localhost/{REPOSITORY}&tag={kind}-{tag}")
        known = name if ask(address, "GET", f"/images/{name}/json")[0] == 200 else f"localhost/{name}"
        assert ask(address, "GET", f"/images/{known}/json")[0] == 200, said[-500:]
        return known


@contextmanager
def _locked(name: str) -> Iterator[None]:
    path = Path(tempfile.gettempdir(), f"niceeval-test-{os.getuid()}-{name}.lock")
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _programs(kind: Kind) -> tuple[str, ...]:
    return {"tiny": ("busybox", "git", "bash"), "tiny-py": ("busybox", "git", "bash", "python3")}.get(
        kind, ("busybox", "git", "bash", "python3", "node")
    )


def _program(name: str) -> str | None:
    if name == "python3":
        return os.path.realpath(sys._base_executable)  # type: ignore[attr-defined]
    found = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin")
    return None if found is None else os.path.realpath(found)


@dataclass
class _Root:
    """The files of an image: what is at a path there, a file of this machine, a link or bytes."""

    files: dict[str, Path] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def add(self, source: Path, target: str) -> None:
        if target not in self.links and target not in self.texts:
            self.files[target] = source

    def add_program(self, source: str, *targets: str) -> None:
        """A program, and the libraries that it is linked to, where its loader looks for them."""
        for target in targets:
            self.add(Path(source), target)
        for library in _libraries(source):
            self.add(Path(library).resolve(), library)

    def add_tree(self, source: Path, target: str, leave_out: frozenset[str] = frozenset()) -> None:
        for at, folders, files in os.walk(source):
            folders[:] = sorted(name for name in folders if name not in leave_out)
            here = os.path.join(target, os.path.relpath(at, source))
            for name in sorted(files):
                path = Path(at, name)
                if path.is_file():
                    self.add(path.resolve(), os.path.normpath(os.path.join(here, name)))


def _libraries(program: str) -> list[str]:
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    words = (word for line in said.splitlines() for word in line.split())
    return sorted({word for word in words if word.startswith("/") and os.path.exists(word)})


@functools.cache
def _harvest(kind: Kind) -> tuple[_Root, str]:
    """The files of an image, and a digest of them."""
    root = _Root()
    busybox, git, bash = (_program(name) or "" for name in ("busybox", "git", "bash"))
    root.add_program(busybox, "/bin/busybox")
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for applet in sorted(set(applets) - {"busybox", "git", "bash"}):
        root.links[f"/bin/{applet}"] = "/bin/busybox"
    root.links["/usr/bin/env"] = "/bin/busybox"
    root.add_program(bash, "/bin/bash")
    root.add_program(git, "/usr/bin/git")
    if kind != "tiny":
        _add_python(root)
    if kind == "full":
        _add_node(root)
    root.texts |= {
        "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
        "/etc/group": "root:x:0:\nnogroup:x:65534:\n",
        "/etc/nsswitch.conf": "hosts: files dns\n",
    }
    digest = hashlib.sha256(_FORMAT.encode())
    for target, source in sorted(root.files.items()):
        stat = source.stat()
        digest.update(f"{target}\0{source}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    digest.update(json.dumps([sorted(root.links.items()), sorted(root.texts.items())]).encode())
    return root, digest.hexdigest()[:16]


def _add_python(root: _Root) -> None:
    python = _program("python3") or ""
    name = os.path.basename(python)
    root.add_program(python, f"{sys.base_prefix}/bin/{name}")
    for link in ("/usr/bin/python3", "/usr/bin/python"):
        if link != f"{sys.base_prefix}/bin/{name}":
            root.links[link] = f"{sys.base_prefix}/bin/{name}"
    library = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix, "base": sys.base_prefix}))
    skipped = frozenset({"__pycache__", "test", "tests", "idlelib", "tkinter", "dist-packages", "site-packages"})
    root.add_tree(library, str(library), skipped | {"ensurepip", "lib2to3", "turtledemo"})
    for module in sorted(Path(library, "lib-dynload").glob("*.so")):
        for found in _libraries(str(module)):
            root.add(Path(found).resolve(), found)


def _add_node(root: _Root) -> None:
    node = _program("node") or ""
    root.add_program(node, "/usr/bin/node")
    for modules in (Path(node).parent.parent / "lib/node_modules", Path("/usr/lib/node_modules")):
        if (modules / "npm/bin/npm-cli.js").is_file():
            root.add_tree(modules / "npm", "/usr/lib/node_modules/npm", frozenset({"docs", "man"}))
            root.links["/usr/bin/npm"] = "/usr/lib/node_modules/npm/bin/npm-cli.js"
            root.links["/usr/bin/npx"] = "/usr/lib/node_modules/npm/bin/npx-cli.js"
            return


def _pack(root: _Root, packed: Any) -> None:
    folders = {"/etc", "/tmp", "/root", "/proc", "/sys", "/dev", "/var", "/usr/bin", "/bin", "/usr/sbin", "/home"}
    for path in [*root.files, *root.links, *root.texts]:
        at = os.path.dirname(path)
        while at != "/":
            folders.add(at)
            at = os.path.dirname(at)
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for folder in sorted(folders | {"/usr"}):
            entry = _entry(folder, 0o1777 if folder == "/tmp" else 0o755)
            entry.type = tarfile.DIRTYPE
            tar.addfile(entry)
        for path, source in sorted(root.files.items()):
            entry = _entry(path, 0o755 if os.access(source, os.X_OK) else 0o644)
            entry.size = source.stat().st_size
            with open(source, "rb") as file:
                tar.addfile(entry, file)
        for path, target in sorted(root.links.items()):
            entry = _entry(path, 0o777)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
        for path, text in sorted(root.texts.items()):
            entry = _entry(path, 0o644)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))


def _entry(path: str, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.mode, entry.mtime = mode, _MTIME
    return entry


@functools.cache
def why_no_podman() -> str | None:
    """Why no test can use Podman here; None where its service can be tried."""
    if shutil.which("podman") is None:
        return f"{LEFT_OUT}: podman is not installed; run scripts/docker-engine.sh --podman"
    if os.geteuid() != 0:
        return f"{LEFT_OUT}: the tests start Podman's service as root; set DOCKER_HOST to your own to try it"
    if missing := [name for name in _programs("tiny") if _program(name) is None]:
        return f"{LEFT_OUT}: images for tests need {', '.join(missing)} on this machine; {HOW}"
    return None


@contextmanager
def podman_service(folder: Path) -> Iterator[str]:
    """The address of a Podman service of its own, which ends, with all that it made, when this does."""
    settings = folder / "containers.conf"
    settings.write_text(
        '[containers]\ndefault_ulimits=["nofile=4096:4096","nproc=8192:8192"]\n'
        '[engine]\ncgroup_manager="cgroupfs"\nevents_logger="file"\n'
        + ('runtime="runc"\n' if shutil.which("runc") else "")
    )
    # A socket's path has to be short.
    short = Path(tempfile.mkdtemp(prefix="nep-"))
    address = f"unix://{short}/s"
    own = ["--root", str(folder / "root"), "--runroot", str(short / "run")]
    environ = {**os.environ, "CONTAINERS_CONF": str(settings)}
    service = subprocess.Popen(
        ["podman", *own, "system", "service", "--time", "0", address],
        cwd=short,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=open(folder / "podman.log", "wb"),  # noqa: SIM115 - the service's
        start_new_session=True,
    )
    try:
        _wait_for(address, service, folder / "podman.log")
        yield address
    finally:
        subprocess.run(
            ["podman", *own, "rm", "--all", "--force", "--time", "0"],
            cwd=short,
            env=environ,
            capture_output=True,
            check=False,
        )
        os.killpg(service.pid, signal.SIGTERM)
        try:
            service.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(service.pid, signal.SIGKILL)
            service.wait(20)
        shutil.rmtree(short, ignore_errors=True)


def _wait_for(address: str, service: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until and service.poll() is None:
        try:
            if ask(address, "GET", "/_ping")[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"podman's service does not answer: {log.read_text('utf-8', 'replace')[-500:]}")
