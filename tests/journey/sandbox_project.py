"""A project with a sandbox agent on this machine's own sandbox, and what it leaves in a temporary folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.docker_engine import ask, engine_address, image_for_tests
from tests.journey.whole_runs import Done, command, environment, finish, project

AGENT = """
from niceeval.adapter import Message, Turn, complete_evidence_coverage, define_sandbox_agent

async def send(input, ctx):
    ran = await ctx.sandbox.run_shell(input.text, timeout=300)
    return Turn(events=[Message(role="assistant", text=ran.stdout)])

def shell_agent():
    return define_sandbox_agent(name="shell", evidence_coverage=complete_evidence_coverage, send=send, version="1")
"""
EXPERIMENT = """
from adapters.shell import shell_agent
from niceeval import define_experiment
from niceeval.sandbox import docker_sandbox, local_sandbox

experiment = define_experiment(agent=shell_agent(), sandbox={factory}({options}), {more})
"""
EVAL = '''
from niceeval import define_eval

@define_eval()
async def one(t):
    turn = await t.send("""{script}""")
    turn.succeeded()
'''


class Place:
    """The project, and the temporary folder that its sandboxes lie in."""

    factory = "local_sandbox"
    always = ""
    engine: Mapping[str, str] = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
    """What stands on an engine is another test's."""

    def __init__(self, root: Path, script: str, *, options: str = "", more: str = "early_exit=False") -> None:
        self.root = root / "project"
        self.temporary = root / "tmp"
        self.temporary.mkdir()
        self.shape(options, more)
        project(self.root, {"adapters/shell.py": AGENT, "evals/one_eval.py": EVAL.format(script=script)})

    def shape(self, options: str = "", more: str = "early_exit=False") -> None:
        """Write the experiment anew."""
        project(
            self.root,
            {"experiments/local.py": EXPERIMENT.format(factory=self.factory, options=self.always + options, more=more)},
        )

    def environment(self, **more: str) -> dict[str, str]:
        """As every command here has it."""
        return environment(**{"TMPDIR": str(self.temporary), **self.engine, **more})

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Begin a run."""
        return subprocess.Popen(
            command("exp", *arguments),
            cwd=self.root,
            env=self.environment(),
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *arguments: str) -> Done:
        """A whole run."""
        return finish(self.start(*arguments), self.root)

    def niceeval(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Any other command."""
        return subprocess.run(
            command(*arguments),
            cwd=self.root,
            env=self.environment(**(env or {})),
            text=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
        )

    @property
    def standing(self) -> list[str]:
        """The sandboxes that stand, by their ids."""
        return [folder.name for folder in self.folders]

    @property
    def folders(self) -> list[Path]:
        """The folders of sandboxes that are there."""
        return sorted(self.temporary.glob("niceeval-local-*/*"))

    @property
    def processes(self) -> list[int]:
        """Processes whose environment leads here."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and str(self.temporary).encode() in _environ(name):
                found.append(int(name))
        return found


class DockerPlace(Place):
    """The same with containers of the tests' image."""

    factory = "docker_sandbox"
    engine: Mapping[str, str] = {}

    def __init__(self, root: Path, script: str, **options: str) -> None:
        self.always = f"image={image_for_tests('tiny')!r}, pull='never', "
        super().__init__(root, script, **options)

    @property
    def standing(self) -> list[str]:
        """The containers of this project's runs."""
        runs = {folder.name for folder in self.root.glob(".niceeval/2*")}
        filters = quote(json.dumps({"label": ["niceeval=1"]}))
        status, said = ask(engine_address(), "GET", f"/containers/json?all=1&filters={filters}")
        assert status == 200, said
        return [one["Id"] for one in json.loads(said) if one["Labels"].get("niceeval.run") in runs]


def _environ(process: Any) -> bytes:
    try:
        return Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return b""
