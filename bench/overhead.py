"""What niceeval itself costs in a run: an instant agent, N cases, one check each, results written.

    python bench/overhead.py [--quick] [--attempts 1000] [--repeat 5] [--disk FOLDER] [--memory FOLDER]

Each run is the whole command, in a process of its own. The cost of an attempt is the difference between the median of
runs of N and the median of runs of 1, divided by N - 1, so that startup counts for nothing. Beside it, measured the
same way: a bare asyncio loop that does the same sends and checks under a semaphore and writes one JSON file at its end.

User CPU is what to judge by: system and wall time follow the disk and whoever else uses the machine.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median

from measuring import NICEEVAL, Cost, measure

DEFAULT_CONCURRENCY = 10

FILES = {
    "evals/instant_eval.py": """\
import os

from niceeval import EvalContext, define_eval
from niceeval.expect import includes


@define_eval(cases=list(range(int(os.environ["ATTEMPTS"]))))
async def instant(t: EvalContext, row: int) -> None:
    turn = await t.send("hello")
    t.check(turn.message, includes("hello"))
""",
    "experiments/local.py": """\
import asyncio
import os

from niceeval import define_experiment
from niceeval.adapter import AgentContext, Message, Turn, TurnInput, Usage, complete_evidence_coverage, define_agent

SECONDS = float(os.environ["SECONDS"])


async def send(input: TurnInput, ctx: AgentContext) -> Turn:
    if SECONDS:
        await asyncio.sleep(SECONDS)
    return Turn(
        events=[Message(role="assistant", text="hello you")],
        usage=Usage(input_tokens=3, output_tokens=2),
    )


agent = define_agent(name="instant", evidence_coverage=complete_evidence_coverage, send=send)
experiment = define_experiment(agent=agent)
""",
    "bare.py": """\
import asyncio
import json
import os
import time

SECONDS = float(os.environ["SECONDS"])


async def send(text):
    if SECONDS:
        await asyncio.sleep(SECONDS)
    return {"message": "hello you", "usage": {"inputTokens": 3, "outputTokens": 2}}


async def attempt(number, permits):
    async with permits:
        started = time.time()
        turn = await send("hello")
        outcome = "passed" if "hello" in turn["message"] else "failed"
        return {"id": number, "outcome": outcome, "turn": turn, "began": started, "ended": time.time()}


async def main():
    permits = asyncio.Semaphore(int(os.environ["CONCURRENCY"]))
    results = await asyncio.gather(*(attempt(number, permits) for number in range(int(os.environ["ATTEMPTS"]))))
    with open("bare.json", "w") as file:
        json.dump({"results": results}, file)


asyncio.run(main())
""",
}


@dataclass(frozen=True, slots=True)
class Size:
    """One run: how many attempts, how many at once, how many seconds each sleeps."""

    attempts: int
    concurrency: int = DEFAULT_CONCURRENCY
    seconds: float = 0.0

    def environment(self) -> dict[str, str]:
        return {
            "ATTEMPTS": str(self.attempts),
            "CONCURRENCY": str(self.concurrency),
            "SECONDS": str(self.seconds),
        }


Run = Callable[[Path, Size], Cost]


@dataclass(frozen=True, slots=True)
class PerAttempt:
    """What one attempt adds, in milliseconds."""

    user: float
    system: float
    wall: float


def run_niceeval(project: Path, size: Size) -> Cost:
    _set_aside(project / ".niceeval")
    command = [NICEEVAL, "exp", "local"]
    if size.concurrency != DEFAULT_CONCURRENCY:
        command += ["--max-concurrency", str(size.concurrency)]
    return measure(command, project, size.environment())


def _set_aside(results: Path) -> None:
    # Nothing is carried over from run to run. It is not deleted, either: ext4 looks long for inodes just after that.
    if results.exists():
        results.rename(Path(tempfile.mkdtemp(prefix="earlier-", dir=results.parent)) / results.name)


def run_bare(project: Path, size: Size) -> Cost:
    return measure([sys.executable, "bare.py"], project, size.environment())


def main() -> None:
    options = _options()
    for name, folder in (("disk", options.disk), ("memory", options.memory)):
        if folder is None:
            print("no /dev/shm here: nothing is measured without a disk; --memory FOLDER names another place")
            continue
        with tempfile.TemporaryDirectory(prefix="niceeval-bench-", dir=folder) as made:
            project = _project(Path(made))
            print(f"results in {folder} ({name})")
            _report_attempts(project, options.attempts, options.repeat)
            if name == "disk":
                _report_memory(project, options.many)
                _report_sleeping(project, Size(options.cases, 50, options.seconds))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer attempts and repeats: rough figures in seconds")
    parser.add_argument("--attempts", type=int, help="attempts of a long run (1000; quick: 300)")
    parser.add_argument("--repeat", type=int, help="runs of each kind, of which the median counts (5; quick: 1)")
    parser.add_argument("--disk", type=Path, default=Path(tempfile.gettempdir()), help="a folder on a disk")
    parser.add_argument("--memory", type=Path, default=_shared_memory(), help="a folder in memory (/dev/shm)")
    options = parser.parse_args()
    quick = options.quick
    options.attempts = options.attempts or (300 if quick else 1000)
    options.repeat = options.repeat or (1 if quick else 5)
    options.many = 1000 if quick else 5000
    options.cases, options.seconds = (100, 0.5) if quick else (400, 1.0)
    return options


def _shared_memory() -> Path | None:
    folder = Path("/dev/shm")
    return folder if folder.is_dir() else None


def _project(folder: Path) -> Path:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def _report_attempts(project: Path, attempts: int, repeat: int) -> None:
    print(f"  an attempt, ms (runs of {attempts:,} less runs of 1, median of {repeat})")
    for concurrency in (DEFAULT_CONCURRENCY, 100):
        ours = _per_attempt(run_niceeval, project, attempts, concurrency, repeat)
        bare = _per_attempt(run_bare, project, attempts, concurrency, repeat)
        for name, cost in (("niceeval", ours), ("bare loop", bare)):
            print(
                f"    {name:<10} {concurrency:>3} at once   user {cost.user:7.3f}   system {cost.system:7.3f}"
                f"   wall {cost.wall:7.3f}"
            )
        print(f"    ratio      {concurrency:>3} at once   user {_ratio(ours.user, bare.user)}")


def _per_attempt(run: Run, project: Path, attempts: int, concurrency: int, repeat: int) -> PerAttempt:
    one = [run(project, Size(1, concurrency)) for _ in range(repeat)]
    many = [run(project, Size(attempts, concurrency)) for _ in range(repeat)]

    def more(value: Callable[[Cost], float]) -> float:
        return (median(map(value, many)) - median(map(value, one))) / (attempts - 1) * 1000

    return PerAttempt(more(lambda cost: cost.user), more(lambda cost: cost.system), more(lambda cost: cost.wall))


def _report_memory(project: Path, many: int) -> None:
    print("  peak memory, MiB")
    for name, run in (("niceeval", run_niceeval), ("bare loop", run_bare)):
        few = run(project, Size(100)).peak_mib
        more = run(project, Size(many)).peak_mib
        print(f"    {name:<10} {few:7.1f} at 100 attempts   {more:7.1f} at {many:,}   + {more - few:.1f}")


def _report_sleeping(project: Path, size: Size) -> None:
    ideal = -(-size.attempts // size.concurrency) * size.seconds
    print(
        f"  {size.attempts} cases of {size.seconds:g} s, {size.concurrency} at once"
        f" (first dispatch to last verdict; ideal {ideal:g} s)"
    )
    for name, run, span in (("niceeval", run_niceeval, _span), ("bare loop", run_bare, _bare_span)):
        run(project, size)
        wall = span(project)
        print(f"    {name:<10} {wall:7.3f} s   {wall / ideal:6.3f} of ideal")


def _span(project: Path) -> float:
    """Seconds from the first attempt's start to the last one's end, from the run's own results."""
    (summary,) = project.glob(".niceeval/*/summary.json")
    results = json.loads(summary.read_bytes())["results"]
    starts = [datetime.fromisoformat(result["startedAt"]) for result in results]
    lengths = [timedelta(milliseconds=result["durationMs"]) for result in results]
    ends = [start + length for start, length in zip(starts, lengths, strict=True)]
    return (max(ends) - min(starts)).total_seconds()


def _bare_span(project: Path) -> float:
    results = json.loads((project / "bare.json").read_bytes())["results"]
    return float(max(result["ended"] for result in results) - min(result["began"] for result in results))


def _ratio(ours: float, other: float) -> str:
    return f"{ours / other:6.1f} times the bare loop's" if other > 0 else "(the bare loop's is too small to measure)"


if __name__ == "__main__":
    main()
