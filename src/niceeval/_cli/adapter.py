"""`niceeval adapter record`: run a sandbox agent once, and keep what its adapter saw, for tests."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import click

from niceeval._base.clock import utc_text
from niceeval._base.errors import AdapterError, NiceevalError, SelectionError
from niceeval._base.places import current_folder
from niceeval._base.redaction import Redactor
from niceeval._cli.exit_codes import PASSED
from niceeval._cli.streams import Streams
from niceeval._discover.project import load_project
from niceeval._discover.specs import ExperimentSpec, Project, sandbox_of
from niceeval._drive.faults import error_text
from niceeval._model.sandbox import SandboxRequest, SandboxSpec
from niceeval._sandbox.labels import labels_of
from niceeval._sandbox.opening import open_spec
from niceeval.testing._recording.check import record_agent
from niceeval.testing._recording.recording import FILE, Recording, save_recording

PROMPT = "Create hello.txt with the word hello in it, then run `cat hello.txt missing.txt`, then say what you saw."
LIFETIME = 3600.0
"""Seconds after which anybody may remove the sandbox that is recorded in."""


@click.command("record", add_help_option=False)
@click.argument("experiment")
@click.option("--out", "out", required=True)
@click.option("--prompt", "prompts", multiple=True)
def adapter_record_command(experiment: str, out: str, prompts: tuple[str, ...]) -> int:
    """Record the agent of an experiment."""
    project = load_project(current_folder())
    streams = Streams.standard(Redactor(project.secrets))
    chosen = _experiment(project, experiment)
    spec = _sandbox(project, chosen)
    folder = Path(out)
    if folder.exists() and any(folder.iterdir()):
        raise AdapterError("recording", folder=out, problem="is not empty", fix="give another folder, or empty it")
    said = prompts or (PROMPT,)
    streams.note(f"recording {chosen.agent.name} in {spec.shown}, {len(said)} turn{'s' if len(said) > 1 else ''} ...")
    started = time.monotonic()
    recording = asyncio.run(_record(chosen, spec, said))
    save_recording(recording, folder)
    took = time.monotonic() - started
    statuses = ", ".join(str(turn["status"]) for turn in recording.turns)
    streams.say(f"{folder / FILE}  {len(recording.calls)} calls of the sandbox, {took:.0f}s; turns: {statuses}")
    streams.say(
        "Read it before you share it: keys and names of this machine were taken out, what the agent said was not."
    )
    streams.say(f'test it   check_recording("{folder}", the_agent)   from niceeval.testing')
    return PASSED


async def _record(experiment: ExperimentSpec, spec: SandboxSpec, prompts: tuple[str, ...]) -> Recording:
    backend = await open_spec(spec)
    try:
        labels = labels_of(run="recording", experiment=experiment.id, lifetime=LIFETIME)
        sandbox = await backend.create(SandboxRequest(labels=labels, lifetime=LIFETIME))
        try:
            return await record_agent(
                experiment.agent,
                sandbox,
                prompts,
                model=experiment.model,
                reasoning_effort=experiment.reasoning_effort,
                flags=experiment.flags,
                about={"recorded": utc_text(), "sandbox": spec.shown, "backend": dict(backend.description)},
            )
        except NiceevalError:
            raise
        except Exception as error:  # noqa: BLE001 - the agent is a guest: what it raised is the answer
            problem = f"the agent ended in an error: {error_text(error)}"
            fix = "see that the experiment runs: niceeval exp"
            raise AdapterError("recording", folder=experiment.agent.name, problem=problem, fix=fix) from None
        finally:
            await sandbox.stop()
    finally:
        await backend.close()


def _experiment(project: Project, word: str) -> ExperimentSpec:
    found = next((one for one in project.experiments if one.id == word), None)
    if found is None:
        raise SelectionError("unknown-experiment", word=word, close="", command="niceeval exp list")
    return found


def _sandbox(project: Project, experiment: ExperimentSpec) -> SandboxSpec:
    if experiment.agent.kind != "sandbox":
        fix = "record an experiment whose agent runs in a sandbox"
        raise AdapterError("recording", folder=experiment.agent.name, problem="it uses no sandbox", fix=fix)
    spec = sandbox_of(experiment, project.config)
    if spec is None:
        raise NiceevalError("sandbox-not-set", place=experiment.place, agent=experiment.agent.name)
    return spec
