"""The help texts. `·` stands for the separator that the stream can show."""

from __future__ import annotations

from collections.abc import Mapping

from niceeval._base.terminal import Style

HELP: Mapping[str, str] = {
    "": """\
Usage: niceeval COMMAND [ARGS]        Measure agents; results stay in .niceeval/
  niceeval init                       scaffold a project that runs green at once
  niceeval exp compare                run the experiments of a group
  niceeval exp compare --dry          what would run, what is carried, and why
  niceeval show @k3f7qm2x             why an attempt failed
Commands: init · exp · exp list · list · show · why · clean · sandbox · adapter · judge
          (COMMAND --help)
Exit: 0 passed or skipped · 1 not · 2 niceeval broke · 130 interrupted
""",
    "exp": """\
Usage: niceeval exp [GROUP|EXPERIMENT] [EVAL-PREFIX ...]   (none: every one)
Choose  --tag TAG   --eval PREFIX (narrows without naming an experiment)
        --force (carry nothing)   --dry (print the plan, start nothing)
Sample  --runs N   --early-exit/--no-early-exit   --strict (soft lines count)
Limit   --max-concurrency N   --timeout S   --budget USD
Sandbox --keep-sandbox failed|all (left standing, to be entered)
Output  --quiet   --verbose (a line per attempt)   --json (stdout is one event a line)
Report  --junit PATH   --markdown PATH (a comment for a pull request)
""",
    "exp list": """\
Usage: niceeval exp list [--json]     The experiments that were found
""",
    "list": """\
Usage: niceeval list [--tag TAG] [--json]     The evals that were found
""",
    "show": """\
Usage: niceeval show [@LOCATOR | RUN | DIR] [--json]    Results in the terminal
  niceeval show                       the project's latest results, and what did not pass
  niceeval show @k3f7qm2x             one attempt: why, with its source and evidence
                                      (any case; its first four characters are enough)
  niceeval show 2026-07-02T03-10-24-123Z     one run of the project
  niceeval show some/results          a results folder, a run or a summary.json anywhere
  niceeval show some/results/@k3f7qm2x       one attempt of it
--json gives the same answer whole, as one document. Exit: 0 whenever it could read.
""",
    "why": """\
Usage: niceeval why @LOCATOR [--json]   What has changed since that result, by name
""",
    "init": """\
Usage: niceeval init                  Scaffold a project that runs green at once; refresh
                                      the managed block in AGENTS.md and CLAUDE.md
Never overwrites a file: what exists is kept.
""",
    "sandbox": """\
Usage: niceeval sandbox list | prune | enter      The sandboxes that stand
  niceeval sandbox list [--json]      what stands, whose it is, and what nobody needs any more
  niceeval sandbox prune [--yes] [--all]     remove what ended runs have left (asks first);
                                      --all: also what was kept, and what other hosts made
  niceeval sandbox enter @k3f7qm2x    a shell in the sandbox that an attempt has left standing
""",
    "sandbox list": """\
Usage: niceeval sandbox list [--json]      What stands: here, and where this project's sandboxes are made
Docker and local sandboxes of this machine; within a project also the engines (host=) and cloud services that its
experiments use, with their keys. What could not be asked is named.
""",
    "sandbox prune": """\
Usage: niceeval sandbox prune [--yes] [--all]     Remove what ended runs have left (asks first)
Never one whose run is alive here. --all: also what was kept, and what other hosts made.
""",
    "sandbox enter": """\
Usage: niceeval sandbox enter @LOCATOR     A shell in a sandbox kept by exp --keep-sandbox
""",
    "adapter": """\
Usage: niceeval adapter record EXPERIMENT --out DIR      Keep what an adapter saw, for tests
""",
    "adapter record": """\
Usage: niceeval adapter record EXPERIMENT --out DIR [--prompt TEXT ...]
  Runs the experiment's agent once in its sandbox, and keeps what its adapter saw there:
  every command's output, every file it read, the versions, and the turns they came to.
  niceeval adapter record cli/claude --out tests/recordings/claude-2.1.332
Each --prompt is one turn of the same conversation. A test goes through a recording with
check_recording(DIR, agent) from niceeval.testing: no sandbox, no key, nothing is run.
""",
    "judge": """\
Usage: niceeval judge check | correct  How far a model that grades agrees with people
  niceeval judge check labels/tone.yaml      try it on labelled examples, keep how it did
  niceeval judge correct judges/rubric-tone-3fa1b2c4d5.json 34/40
                                      what 34 passes of 40 are worth, given its errors
""",
    "judge check": """\
Usage: niceeval judge check LABELS [--model M] [--base-url URL] [--repeat N] [--no-swap]
                                      [--min-kappa K] [--no-store] [--json]
  Asks the judge about every example of a YAML file (ask, examples with output and label):
  agreement, Cohen's kappa, false passes and false fails, each with its 95% interval.
--repeat N judges each N times; the choices are also given in reverse, unless --no-swap.
What comes out is kept in judges/, where evals that gate by this judge look for it.
--min-kappa 0.6: below that it exits 1 and keeps nothing. The key is in NICEEVAL_JUDGE_KEY.
""",
    "judge correct": """\
Usage: niceeval judge correct RECORD PASSED/TOTAL [--json]
A pass rate that the judge gave, and what it is worth: corrected for the errors that its
calibration measured (Rogan-Gladen), with a 95% interval.
""",
    "clean": """\
Usage: niceeval clean [--yes]         Delete the results in .niceeval/ (asks first)
""",
}


def help_lines(command: str, style: Style) -> list[str]:
    """The help of a command ("" is niceeval itself)."""
    return HELP[command].replace("·", style.glyphs.dot).splitlines()
