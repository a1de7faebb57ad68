"""What starting costs: the modules that are loaded and the time that takes, beside `python -c pass`.

    python bench/startup.py [--quick] [--repeat 15]

Modules are counted in a fresh interpreter, less those that `python -c pass` has loaded. Times are medians of user CPU
and wall milliseconds of whole processes. Packages that starting should not need are listed by name where they are
loaded: HTTP clients, web servers, renderers, template engines, vendor SDKs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from measuring import NICEEVAL, measure

HEAVY = {
    "HTTP client": ("httpx", "httpx2", "requests", "aiohttp", "urllib3", "http.client", "websockets", "grpc"),
    "web server": ("starlette", "uvicorn", "fastapi", "flask", "django", "tornado", "http.server"),
    "renderer": ("rich", "textual", "prompt_toolkit", "pygments", "markdown_it"),
    "template engine": ("jinja2", "mako"),
    "validator or parser": ("pydantic", "jsonschema", "yaml"),
    "event loop": ("asyncio",),
    "vendor SDK": ("openai", "anthropic", "google.genai", "boto3", "litellm", "langchain", "opentelemetry", "docker"),
}

REPORT = """
import sys
before = set(sys.modules)
{code}
print(*sorted(set(sys.modules) - before), file=sys.stderr)
"""

HELP = """
import sys
from niceeval._cli.main import entry
entry(["--help"])
"""


@dataclass(frozen=True, slots=True)
class Start:
    """A way to start: how it is called here, the code whose modules count, and the command that is timed."""

    name: str
    code: str
    command: Sequence[str]


def imported(code: str) -> Start:
    return Start(code, code, [sys.executable, "-c", code])


STARTS = (
    imported("pass"),
    imported("import niceeval"),
    imported("from niceeval import define_eval"),
    imported("from niceeval import define_eval, define_experiment"),
    imported("from niceeval import EvalContext"),
    Start("niceeval --help", HELP, [NICEEVAL, "--help"]),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--repeat", type=int, help="processes of each kind, of which the median counts (15; quick: 3)")
    options = parser.parse_args()
    repeat = options.repeat or (3 if options.quick else 15)
    print(f"{'':<52}{'modules':>8}{'user ms':>9}{'wall ms':>9}{'more wall ms':>14}")
    nothing = 0.0
    for start in STARTS:
        user, wall = _times(start.command, repeat)
        nothing = nothing or wall
        modules = _modules(start.code)
        print(f"{start.name:<52}{len(modules):>8}{user:>9.1f}{wall:>9.1f}{wall - nothing:>14.1f}")
        for kind, names in HEAVY.items():
            if found := [name for name in names if name in modules]:
                print(f"    {kind}: {', '.join(found)}")


def _times(command: Sequence[str], repeat: int) -> tuple[float, float]:
    """Median user CPU and wall time in milliseconds, after one run that only warms the caches."""
    measure(command, Path.cwd())
    costs = [measure(command, Path.cwd()) for _ in range(repeat)]
    return median(cost.user for cost in costs) * 1000, median(cost.wall for cost in costs) * 1000


def _modules(code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", REPORT.format(code=code)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stderr.split()


if __name__ == "__main__":
    main()
