"""The adapter: it puts the program into the sandbox, runs it for each turn, and reads what it says of itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    Agent,
    Coverage,
    EvidenceCoverage,
    Message,
    SandboxAgentContext,
    StreamEvent,
    Turn,
    TurnInput,
    define_sandbox_agent,
)

PROGRAM = Path(__file__).with_name("fixer_cli.py")
COVERAGE = EvidenceCoverage.complete_except(
    usage=Coverage.unavailable("the program asks no model"),
    data=Coverage.unavailable("it answers in words only"),
)


def fixer() -> Agent:
    """The program in the style that `flags` say: `{"style": "fix"}` or `{"style": "cheat"}`."""

    async def setup(ctx: SandboxAgentContext) -> None:
        # Beside the workdir: what is installed is no part of the project that the agent works on.
        await ctx.sandbox.write_files({_path(ctx): PROGRAM.read_bytes()})

    async def send(input: TurnInput, ctx: SandboxAgentContext) -> Turn:
        arguments = [_path(ctx), "--style", str(ctx.flags["style"]), input.text]
        ran = await ctx.sandbox.run_command("python3", arguments, timeout=60, on_stderr=ctx.log)
        events = [event for line in ran.stdout.splitlines() for event in _events(line)]
        return Turn(events=_numbered(events), status="completed" if ran.exit_code == 0 else "failed")

    return define_sandbox_agent(name="fixer", evidence_coverage=COVERAGE, setup=setup, send=send)


def _path(ctx: SandboxAgentContext) -> str:
    return f"{ctx.sandbox.private_dir}/fixer/fixer_cli.py"


def _events(line: str) -> Iterator[StreamEvent]:
    said: dict[str, Any] = json.loads(line)
    match said["type"]:
        case "message":
            yield Message(role="assistant", text=said["text"])
        case "command":
            yield ActionCalled(call_id="", name="shell", tool="shell", input={"command": said["command"]})
            status = "completed" if said["exit_code"] == 0 else "failed"
            yield ActionResult(call_id="", status=status, output=said["output"])
        case "edit":
            yield ActionCalled(call_id="", name="edit", tool="file_edit", input={"path": said["path"]})
            yield ActionResult(call_id="", status="completed")


def _numbered(events: list[StreamEvent]) -> list[StreamEvent]:
    """The program says each action when it is over: the call and its result follow each other."""
    numbered: list[StreamEvent] = []
    for event in events:
        if isinstance(event, ActionCalled):
            event = ActionCalled(call_id=f"c{len(numbered)}", name=event.name, tool=event.tool, input=event.input)
        elif isinstance(event, ActionResult):
            event = ActionResult(call_id=f"c{len(numbered) - 1}", status=event.status, output=event.output)
        numbered.append(event)
    return numbered
