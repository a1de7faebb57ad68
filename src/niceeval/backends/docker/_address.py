"""Where the engine listens: `DOCKER_HOST`, or the sockets that engines usually have."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from niceeval.sandbox import SandboxUnavailableError

_PORT = 2375
_TLS_PORT = 2376


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A socket of this machine (`path`), or a host and a port, with TLS where `tls` is said."""

    path: str | None = None
    host: str = "localhost"
    port: int = _PORT
    tls: bool = False

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix://{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{self.port}"


def parse_address(text: str, *, tls: bool = False) -> Address:
    """The address that `unix:///run/x.sock`, `tcp://host:2375` or a bare path says; `tls` is `DOCKER_TLS_VERIFY`'s.

    Raises SandboxUnavailableError for what is none.
    """
    if text.startswith("/"):
        return Address(path=text)
    scheme, separator, rest = text.partition("://")
    if scheme == "unix" and rest.startswith("/"):
        return Address(path=rest)
    if not separator or scheme not in ("tcp", "http", "https"):
        raise unusable(f"{text!r} is no address of an engine", "write unix:///path/to/docker.sock or tcp://host:2375")
    tls = tls or scheme == "https"
    try:
        parts = urlsplit(f"//{rest}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise unusable(f"{text!r} names no host", "write tcp://host:2375")
    return Address(host=host, port=port or (_TLS_PORT if tls else _PORT), tls=tls)


def candidates(said: str | None, environ: Mapping[str, str]) -> list[Address]:
    """The addresses to try, in order: what is said, else `DOCKER_HOST`, else the sockets of Docker and of Podman.

    Raises SandboxUnavailableError for an address that is none.
    """
    tls = environ.get("DOCKER_TLS_VERIFY", "") not in ("", "0")
    named = said or environ.get("DOCKER_HOST", "")
    if named:
        return [parse_address(named, tls=tls)]
    home = environ.get("HOME") or str(Path.home())
    runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    paths = [
        "/var/run/docker.sock",
        f"{runtime}/docker.sock",
        f"{home}/.docker/run/docker.sock",
        f"{home}/.orbstack/run/docker.sock",
        f"{home}/.colima/default/docker.sock",
        f"{home}/.rd/docker.sock",
        f"{runtime}/podman/podman.sock",
        "/run/podman/podman.sock",
    ]
    return [Address(path=path) for path in paths]


def tls_context(environ: Mapping[str, str]) -> ssl.SSLContext:
    """TLS as the `docker` program does it: `ca.pem`, `cert.pem` and `key.pem` of `DOCKER_CERT_PATH`.

    Raises SandboxUnavailableError where they cannot be read.
    """
    folder = Path(environ.get("DOCKER_CERT_PATH") or Path(environ.get("HOME", "")) / ".docker")
    authority = folder / "ca.pem"
    try:
        context = ssl.create_default_context(cafile=str(authority) if authority.exists() else None)
        if (folder / "cert.pem").exists():
            context.load_cert_chain(str(folder / "cert.pem"), str(folder / "key.pem"))
    except (OSError, ssl.SSLError) as error:
        raise unusable(f"the certificates in {folder} cannot be used: {error}", "correct DOCKER_CERT_PATH") from None
    return context


def unusable(problem: str, fix: str) -> SandboxUnavailableError:
    """The error of an engine that cannot be used at all."""
    return SandboxUnavailableError("sandbox-unavailable", backend="docker", problem=problem, fix=fix)
