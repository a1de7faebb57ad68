"""Real CLIs that adapters install from npm themselves, inside a real container."""

from __future__ import annotations

import os
from typing import Any

import pytest

from niceeval._sandbox.labels import labels_of
from niceeval.adapter import Agent
from niceeval.adapters import codex_agent, gemini_cli_agent
from niceeval.backends import docker
from niceeval.sandbox import SandboxRequest, SandboxSpec, docker_sandbox
from niceeval.testing import ModelServer
from tests.contract.cli_installs import INSTALLS
from tests.contract.cli_rows import KEY_VARIABLE, Cli, Where, attempt, bridge_address, run, shown
from tests.docker_engine import image_for_tests, why_no_image

pytestmark = pytest.mark.slow

AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"


def codex(_: str, server: ModelServer, **options: Any) -> Agent:
    version = INSTALLS["codex"].version
    return codex_agent(version=version, base_url=server.openai_url, api_key_env=KEY_VARIABLE, **options)


def gemini(_: str, server: ModelServer, **options: Any) -> Agent:
    version = INSTALLS["gemini-cli"].version
    return gemini_cli_agent(version=version, base_url=server.url, api_key_env=KEY_VARIABLE, **options)


# For the others the image of the tests has not the libraries that their programs are linked to, or not their Python.
CLIS = [Cli("codex", codex), Cli("gemini-cli", gemini, model="gemini-2.5-flash")]


def container() -> tuple[SandboxSpec, str]:
    """A container with node and npm that reaches the registry and this machine; skips the test where there is none."""
    problem = why_no_image("full")
    if problem is not None:
        pytest.skip(problem)
    gateway = bridge_address()
    if gateway is None:
        pytest.skip("containers of this engine do not reach this machine at their bridge's address: use a local engine")
    bundle = AUTHORITIES if os.path.exists(AUTHORITIES) else None
    return docker_sandbox(image=image_for_tests("full"), pull="never", memory="4g", ca_bundle=bundle), gateway


async def installs_itself(cli: Cli) -> None:
    spec, gateway = container()
    package = INSTALLS[cli.name]
    backend = await docker.open_backend(spec)
    try:
        sandbox = await backend.create(SandboxRequest(labels=labels_of(run="test", lifetime=600), lifetime=600))
        try:
            words = ["view", f"{package.package}@{package.version}", "version"]
            asked = await sandbox.run_command("npm", words, timeout=120)
        finally:
            await sandbox.stop()
    finally:
        await backend.close()
    if asked.exit_code != 0:
        pytest.skip(f"a container does not reach npm's registry: {asked.stderr.strip()[-200:]}")
    async with attempt(cli, Where(lambda: docker.open_backend(spec), lambda name: name, gateway)) as one:
        assert one.diagnostics == [("cli-version", "info", f"{cli.name} {package.version}")]
        turn = await one.send("SCENARIO:create please")
        assert await one.sandbox.read_file("note.txt") == "hello\n"
        (called,) = (event for event in shown(turn, one) if event["type"] == "action.called")
        assert called["tool"] in ("file_write", "shell")
        assert turn.status == "completed"


@pytest.mark.parametrize("cli", CLIS, ids=lambda cli: cli.name)
def test_it_is_installed_in_a_container_where_it_is_not_there(cli: Cli) -> None:
    """The version that was asked for comes from npm, says so, and works."""
    run(installs_itself(cli))
