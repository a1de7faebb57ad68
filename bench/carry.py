"""What a second run costs in which nothing has to be run again: N evals, five attempts each, an instant agent.

    python bench/carry.py [--quick] [--evals 2000] [--files]

Each run is the whole command, in a process of its own: the first runs every attempt, the second carries them all, and
`--dry` only decides it. `--files` gives each eval a file of its own instead of rows of one.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from measuring import NICEEVAL, measure

RUNS = 5
CONCURRENCY = 100

EVAL = """\
from niceeval import EvalContext, define_eval


@define_eval(cases={cases})
async def instant(t: EvalContext, row: int) -> None:
    (await t.send("hello")).succeeded()
"""
EXPERIMENT = f"""\
from niceeval import define_experiment
from niceeval.adapter import AgentContext, Message, Turn, TurnInput, complete_evidence_coverage, define_agent


async def send(input: TurnInput, ctx: AgentContext) -> Turn:
    with open("calls.txt", "a") as calls:
        calls.write("x")
    return Turn(events=[Message(role="assistant", text="hello you")])


agent = define_agent(name="instant", evidence_coverage=complete_evidence_coverage, send=send)
experiment = define_experiment(agent=agent, runs={RUNS}, early_exit=False)
"""


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="niceeval-bench-") as made:
        project = Path(made)
        _write(project, options.evals, options.files)
        attempts = options.evals * RUNS
        print(f"{options.evals} evals in {'a file each' if options.files else 'one file'}, {attempts} attempts")
        command = [NICEEVAL, "exp", "local", "--max-concurrency", str(CONCURRENCY)]
        for name, more in (("run", []), ("carry", []), ("--dry", ["--dry"]), ("carry", [])):
            before = _calls(project)
            cost = measure([*command, *more], project)
            called = _calls(project) - before
            print(
                f"  {name:<6} {cost.user:6.2f} s user {cost.system:6.2f} s system {cost.wall:6.2f} s wall"
                f" {cost.peak_mib:5.0f} MiB  {called} calls"
            )


def _write(project: Path, evals: int, files: bool) -> None:
    for folder in ("evals", "experiments"):
        (project / folder).mkdir()
    (project / "experiments/local.py").write_text(EXPERIMENT, "utf-8")
    if not files:
        (project / "evals/instant_eval.py").write_text(EVAL.format(cases=f"range({evals})"), "utf-8")
    for number in range(evals if files else 0):
        (project / f"evals/n{number:05}_eval.py").write_text(EVAL.format(cases=[number]), "utf-8")


def _calls(project: Path) -> int:
    path = project / "calls.txt"
    return path.stat().st_size if path.exists() else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the evals")
    parser.add_argument("--evals", type=int, default=2_000)
    parser.add_argument("--files", action="store_true", help="a file for each eval")
    options = parser.parse_args()
    if options.quick:
        options.evals //= 10
    return options


if __name__ == "__main__":
    main()
