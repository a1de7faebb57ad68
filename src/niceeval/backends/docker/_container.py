"""What a container is made with: its limits, its rights, its process 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from niceeval.backends.docker._killing import INIT, MARKER

PRIVATE_DIR = "/var/lib/niceeval"
"""The folder of a container that is niceeval's own."""
HOME = "/home/sandbox"
"""The home of a user that the image does not know."""
CA_TARGET = "/etc/niceeval-ca.pem"
"""Where an extra bundle of certificates is mounted."""
CA_VARIABLES = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "DENO_CERT",
    "AWS_CA_BUNDLE",
)
"""The variables that name it to programs."""
USER_LABEL = "niceeval.user"
"""The label that says whom commands run as."""
_MAX_SLEEP = 3600
"""Seconds that process 1 sleeps at once."""

# Process 1 waits in a shell: it survives `kill -9 -1` of the commands' user, reaps orphans, and ends at once when it is
# told to. A sleep that somebody killed does not count, so that the lifetime is kept.
_PROCESS_1 = f"""trap 'exit 0' TERM INT
left=$1
while [ "$left" -gt 0 ]; do
  nap={_MAX_SLEEP}
  [ "$left" -ge "$nap" ] || nap=$left
  sleep "$nap" &
  if wait $!; then left=$((left - nap)); fi
done"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `docker_sandbox`, typed."""

    image: str | None
    dockerfile: str | None
    build_args: Mapping[str, str]
    pull: str
    platform: str | None
    workdir: str
    user: str
    network: str
    env: Mapping[str, str]
    mounts: tuple[tuple[str, str], ...]
    ca_bundle: str | None
    memory: int
    cpus: float
    pids: int
    capabilities: tuple[str, ...]
    init: bool
    host: str | None

    @property
    def uid(self) -> int:
        return int(self.user.partition(":")[0])

    @property
    def gid(self) -> int:
        return int(self.user.partition(":")[2])

    @property
    def variables(self) -> dict[str, str]:
        """What every command has in its environment, beside the image's own."""
        bundle = dict.fromkeys(CA_VARIABLES, CA_TARGET) if self.ca_bundle is not None else {}
        return {**bundle, **self.env}


def options_of(said: Mapping[str, Any]) -> Options:
    """The options of a spec, which `docker_sandbox` has checked."""
    return Options(
        image=said.get("image"),
        dockerfile=said.get("dockerfile"),
        build_args=dict(said.get("build_args") or {}),
        pull=said.get("pull", "missing"),
        platform=said.get("platform"),
        workdir=said["workdir"],
        user=said["user"],
        network=said.get("network", "bridge"),
        env=dict(said.get("env") or {}),
        mounts=tuple((mount["source"], mount["target"]) for mount in said.get("mounts") or ()),
        ca_bundle=said.get("ca_bundle"),
        memory=said["memory"],
        cpus=said["cpus"],
        pids=said["pids"],
        capabilities=tuple(said.get("capabilities") or ()),
        init=bool(said.get("init", False)),
        host=said.get("host"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """The network that a container is on: what the API calls its mode, and the host's address there."""

    mode: str
    gateway: str | None


def container_body(
    options: Options,
    *,
    image: str,
    labels: Mapping[str, str],
    attached: Attached,
    lifetime: float,
    with_shell: bool,
) -> dict[str, Any]:
    """The body of `POST /containers/create`. Without a shell in the image, its own command is process 1."""
    body: dict[str, Any] = {
        "Image": image,
        # Root's commands have the chosen capabilities only where process 1 is root's; it does nothing but wait, and the
        # agent's user cannot end it.
        "User": "0:0" if with_shell else options.user,
        "WorkingDir": options.workdir,
        "Env": [f"{name}={value}" for name, value in {**options.variables, MARKER: INIT}.items()],
        "Labels": {**labels, "niceeval": "1", USER_LABEL: options.user},
        "Hostname": "sandbox",
        "NetworkDisabled": False,
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": "SIGTERM",
        "HostConfig": _host(options, attached, init=options.init or not with_shell),
    }
    if with_shell:
        body |= {"Entrypoint": ["/bin/sh", "-c", _PROCESS_1, "niceeval", str(max(1, int(lifetime)))], "Cmd": []}
    return body


def _host(options: Options, attached: Attached, *, init: bool) -> dict[str, Any]:
    mounts = [*options.mounts, *([(options.ca_bundle, CA_TARGET)] if options.ca_bundle is not None else [])]
    host: dict[str, Any] = {
        "CapDrop": ["ALL"],
        "CapAdd": list(options.capabilities),
        "SecurityOpt": ["no-new-privileges"],
        "Memory": options.memory,
        "MemorySwap": options.memory,
        "NanoCpus": int(options.cpus * 1_000_000_000),
        "PidsLimit": options.pids,
        "NetworkMode": attached.mode,
        "Mounts": [{"Type": "bind", "Source": source, "Target": target, "ReadOnly": True} for source, target in mounts],
        "LogConfig": {"Type": "none", "Config": {}},
        "RestartPolicy": {"Name": "no"},
    }
    if init:
        host["Init"] = True
    if attached.gateway is not None:
        host["ExtraHosts"] = [f"host.docker.internal:{attached.gateway}"]
    return host
