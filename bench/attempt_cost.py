"""What niceeval itself costs: user CPU for each attempt of an instant agent, and what starting costs.

    python bench/attempt_cost.py [--attempts 2000] [--repeat 3]

The whole command is measured, with its results written to a temporary folder. The cost of one attempt is the difference
between a run of many and a run of one, divided by their number; the best of the repeats counts, since a busy machine
only adds. User CPU is what to judge by: wall time and system time follow the disk.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

NICEEVAL = str(Path(sysconfig.get_path("scripts")) / "niceeval")

FILES = {
    "evals/instant_eval.py": """\
import os

from niceeval import EvalContext, define_eval
from niceeval.expect import includes


@define_eval(cases=list(range(int(os.environ["ATTEMPTS"]))))
async def instant(t: EvalContext, row: int) -> None:
    turn = await t.send("hello")
    turn.succeeded()
    turn.called_tool("greet", count=1)
    t.check(turn.message, includes("hello"))
""",
    "experiments/local.py": """\
from niceeval import define_experiment
from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    AgentContext,
    Message,
    Turn,
    TurnInput,
    Usage,
    complete_evidence_coverage,
    define_agent,
)


async def send(input: TurnInput, ctx: AgentContext) -> Turn:
    return Turn(
        events=[
            ActionCalled(call_id="c1", name="greet", input={"name": "you"}),
            ActionResult(call_id="c1", status="completed", output="hello"),
            Message(role="assistant", text="hello you"),
        ],
        usage=Usage(input_tokens=3, output_tokens=2),
    )


agent = define_agent(name="instant", evidence_coverage=complete_evidence_coverage, send=send)
experiment = define_experiment(agent=agent)
""",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds a command took, and the largest resident size of any child so far in MiB."""

    user: float
    system: float
    wall: float
    peak_mib: float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--attempts", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    report_start(options.repeat)
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        for name, text in FILES.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_text(text, "utf-8")
        one = best([run(project, 1) for _ in range(options.repeat)])
        many = best([run(project, options.attempts) for _ in range(options.repeat)])
    more = options.attempts - 1
    print(f"an attempt       {(many.user - one.user) / more * 1000:8.3f} ms user CPU")
    print(f"                 {(many.system - one.system) / more * 1000:8.3f} ms system CPU")
    print(f"                 {(many.wall - one.wall) / more * 1000:8.3f} ms wall, {options.attempts} attempts in a run")
    print(f"peak memory      {many.peak_mib:8.1f} MiB ({one.peak_mib:.1f} MiB for one attempt)")


def report_start(repeat: int) -> None:
    count = "import sys; before = len(sys.modules); import niceeval; print(len(sys.modules) - before)"
    modules = subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, check=True).stdout.strip()
    started = best([measure([NICEEVAL, "--help"], Path.cwd(), {}) for _ in range(repeat)])
    print(f"import niceeval  {modules:>8} modules")
    print(f"niceeval --help  {started.user * 1000:8.0f} ms user CPU")


def run(project: Path, attempts: int) -> Cost:
    command = [NICEEVAL, "exp", "local", "--quiet", "--max-concurrency", "100"]
    return measure(command, project, {"ATTEMPTS": str(attempts)})


def measure(command: list[str], folder: Path, environment: dict[str, str]) -> Cost:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} exited with {done.returncode}\n{done.stdout}{done.stderr}")
    unit = 1024 * 1024 if sys.platform == "darwin" else 1024
    return Cost(after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime, wall, after.ru_maxrss / unit)


def best(costs: list[Cost]) -> Cost:
    return min(costs, key=lambda cost: cost.user)


if __name__ == "__main__":
    main()
