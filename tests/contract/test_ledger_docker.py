"""The change ledger in a container: another user, another file system, and no tools but busybox, bash and git."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from niceeval._sandbox.labels import labels_of
from niceeval._sandbox.workspace import Workspace
from niceeval.backends.docker import open_backend
from niceeval.sandbox import SandboxRequest, docker_sandbox
from tests.docker_engine import image_for_tests, why_no_image
from tests.unit.ledger_world import World, said
from tests.unit.test_ledger import BEFORE, ROWS

pytestmark = [pytest.mark.slow, pytest.mark.skipif(why_no_image() is not None, reason=str(why_no_image()))]

TRIED = [
    "a file that becomes a folder",
    "pipes and unreadable files",
    "a large file",
    "the workdir's own attributes mean nothing",
    "a rewritten history",
    "a repository in the workdir",
    "names",
    "a name that is no UTF-8",
]


def test_the_same_changes_in_a_container() -> None:
    """One container for all: each row begins a new ledger, and a reset clears up after it."""

    async def run() -> dict[str, dict[str, str | None]]:
        backend = await open_backend(docker_sandbox(image=image_for_tests(), network="none"))
        try:
            sandbox = await backend.create(SandboxRequest(labels=labels_of(run="test", lifetime=600), lifetime=600))
            try:
                found: dict[str, dict[str, str | None]] = {}
                for name in TRIED:
                    world = World(sandbox, Workspace(sandbox, reusable=True), Path(sandbox.workdir))
                    await sandbox.run_shell("rm -rf -- * .[a-z]*")
                    await world.run(BEFORE)
                    await world.workspace.prepare()
                    await world.agent(ROWS[name][0])
                    found[name] = said(await world.workspace.changes())
                    await world.workspace.reset()
                return found
            finally:
                await sandbox.stop()
        finally:
            await backend.close()

    assert asyncio.run(run()) == {name: ROWS[name][1] for name in TRIED}


def test_a_file_that_its_owner_cannot_read_is_a_change_like_any_other() -> None:
    """The agent is no root there: what cannot be read is said to be so, and nothing else is lost."""

    async def run() -> tuple[dict[str, str | None], str | None]:
        backend = await open_backend(docker_sandbox(image=image_for_tests(), network="none"))
        try:
            sandbox = await backend.create(SandboxRequest(labels=labels_of(run="test", lifetime=600), lifetime=600))
            try:
                world = World(sandbox, Workspace(sandbox), Path(sandbox.workdir))
                await world.workspace.prepare()
                await world.agent("echo x > shut; chmod 000 shut; echo y > open")
                seen = said(await world.workspace.changes())
                again = World(sandbox, Workspace(sandbox), Path(sandbox.workdir))
                await again.workspace.prepare()
                await again.agent("mkdir dir; echo x > dir/in; chmod 000 dir")
                return seen, (await again.workspace.changes()).gap
            finally:
                await sandbox.stop()
        finally:
            await backend.close()

    seen, gap = asyncio.run(run())
    assert seen == {"shut": "(special)", "open": "y\n"}
    assert gap == "some folders of the workdir could not be read"
