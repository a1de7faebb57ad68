"""Real CLIs that adapters install from npm and PyPI themselves, inside a real container."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from niceeval._sandbox.labels import labels_of
from niceeval.adapter import AdapterError, Agent
from niceeval.adapters import bub_agent, claude_code_agent, codex_agent, gemini_cli_agent, opencode_agent
from niceeval.backends import docker
from niceeval.sandbox import SandboxRequest, SandboxSpec, docker_sandbox
from niceeval.testing import ModelServer
from tests.contract.cli_installs import INSTALLS, installed
from tests.contract.cli_rows import KEY_VARIABLE, Cli, Where, attempt, bridge_address, libraries_of, run, shown
from tests.docker_engine import image_for_tests, why_no_image

pytestmark = pytest.mark.slow

AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"


def make(name: str, factory: Callable[..., Agent], address: Callable[[ModelServer], str]) -> Callable[..., Agent]:
    """The adapter as a user makes it who names a version and no command."""

    def agent(_: str, server: ModelServer, **options: Any) -> Agent:
        version = INSTALLS[name].version
        return factory(version=version, base_url=address(server), api_key_env=KEY_VARIABLE, **options)

    return agent


def plain(server: ModelServer) -> str:
    return server.url


def openai(server: ModelServer) -> str:
    return server.openai_url


CLIS = [
    Cli("bub", make("bub", bub_agent, openai)),
    Cli("claude-code", make("claude-code", claude_code_agent, plain)),
    Cli("codex", make("codex", codex_agent, openai)),
    Cli("gemini-cli", make("gemini-cli", gemini_cli_agent, plain), model="gemini-2.5-flash"),
    Cli("opencode", make("opencode", opencode_agent, openai)),
]


def container(name: str) -> tuple[SandboxSpec, str]:
    """A container with node, npm and the libraries that the program needs, which reaches registries and this machine.

    The image of the tests has few of these libraries; where they are mounted from, the CLI is not. Skips the test where
    there is no engine.
    """
    problem = why_no_image("full")
    if problem is not None:
        pytest.skip(problem)
    gateway = bridge_address()
    if gateway is None:
        pytest.skip("containers of this engine do not reach this machine at their bridge's address: use a local engine")
    mounts = libraries_of(installed(name))
    pythons = [mount.target for mount in mounts if os.path.exists(f"{mount.target}/bin/python3")]
    env = {"PATH": ":".join([*(f"{python}/bin" for python in pythons), "/usr/local/bin", "/usr/bin", "/bin"])}
    bundle = AUTHORITIES if os.path.exists(AUTHORITIES) else None
    image = image_for_tests("full")
    spec = docker_sandbox(image=image, pull="never", memory="4g", ca_bundle=bundle, mounts=mounts, env=env)
    return spec, gateway


def question(name: str) -> list[str]:
    """A command that only a container which reaches the package's registry can answer."""
    package = INSTALLS[name]
    if package.python is None:
        return ["npm", "view", f"{package.package}@{package.version}", "version"]
    wanted = f"{package.package}=={package.version}"
    return ["python3", "-m", "pip", "download", "--quiet", "--no-deps", "--dest", "/tmp/asked", wanted]


async def require_registry(spec: SandboxSpec, name: str) -> None:
    """Skips the test where a container of this kind does not reach the package's registry."""
    backend = await docker.open_backend(spec)
    try:
        sandbox = await backend.create(SandboxRequest(labels=labels_of(run="test", lifetime=600), lifetime=600))
        try:
            words = question(name)
            asked = await sandbox.run_command(words[0], words[1:], timeout=120)
        finally:
            await sandbox.stop()
    finally:
        await backend.close()
    if asked.exit_code != 0:
        pytest.skip(f"a container does not reach the package's registry: {asked.stderr.strip()[-200:]}")


async def installs_itself(cli: Cli) -> None:
    spec, gateway = container(cli.name)
    await require_registry(spec, cli.name)
    try:
        async with attempt(cli, Where(lambda: docker.open_backend(spec), lambda name: name, gateway)) as one:
            assert one.diagnostics == [("cli-version", "info", f"{cli.name} {INSTALLS[cli.name].version}")]
            turn = await one.send("SCENARIO:create please")
            assert await one.sandbox.read_file("note.txt") == "hello\n"
            (called,) = (event for event in shown(turn, one) if event["type"] == "action.called")
            assert called["tool"] in ("file_write", "shell")
            assert turn.status == "completed"
    except AdapterError as error:
        # A registry that was there a minute ago may be gone by now.
        if error.code == "cli-missing":
            await require_registry(spec, cli.name)
        raise


@pytest.mark.parametrize("cli", CLIS, ids=lambda cli: cli.name)
def test_it_is_installed_in_a_container_where_it_is_not_there(cli: Cli) -> None:
    """The version that was asked for comes from its registry, says so, and works."""
    run(installs_itself(cli))
