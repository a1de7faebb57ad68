"""English sentences: code -> (message, what to do next)."""

ERRORS: dict[str, tuple[str, str]] = {
    # The command line.
    "not-a-command": ('"{word}" is not a command{match}', "{command}"),
    "usage": ("{problem}", "{command}"),
    "no-project": ("no niceeval_config.py, evals/ or experiments/ here or above", "niceeval init"),
    "no-folder": (
        "the current folder is not there any more, or may not be read",
        "cd to the project, then run the same command again",
    ),
    "no-experiments": (
        "experiments/ has no experiment",
        "write experiments/local.py: experiment = define_experiment(...)",
    ),
    "unknown-experiment": ('no experiment or group "{word}"{close}', "{command}"),
    "eval-as-experiment": ('"{word}" is an eval; exp takes the experiment first', "{command}"),
    "nothing-selected": ("{problem}", "niceeval list"),
    "python-optimized": (
        "Python runs optimized, which takes every plain `assert` out: a check that fails would pass",
        "unset PYTHONOPTIMIZE, and run python without -O",
    ),
    "broke": ("niceeval broke: {error}", "{report}; NICEEVAL_DEBUG=1 shows our frames"),
    # Files of the project.
    "load-failed": ("{error}", "fix this file; {others}"),
    "no-eval": (
        "no function here has @define_eval; imported ones do not count",
        "decorate one, or rename the file",
    ),
    "no-experiment": (
        "no `experiment` or `experiments` here",
        "write experiment = define_experiment(...) in it, or move the file out of experiments/",
    ),
    "no-config": ("no `config` here", "write config = define_config(...) in it, or remove the file"),
    "dotenv": ("{problem}", "write NAME=value, with quotes around a value that holds spaces or #"),
    "folder-shadowed": ("`import {name}` finds {owner}, not {folder}/", "rename the folder if you import from it"),
    "eval-file-name": (
        "@define_eval in a file whose name does not end in _eval.py: nothing runs it",
        "rename it {name}",
    ),
    "duplicate-id": ("{id} is defined twice ({first} and {second})", "rename one {what}"),
    "empty-cases": ("cases= has no rows", "give at least one row, or remove cases="),
    "bad-case-key": ('case key "{key}" is not one path segment: {why}', "use letters, digits, '-', '_' and '.'"),
    "bad-id": ('"{id}" cannot be an id: {why}', "rename the file or the function"),
    "case-row": ("case {case}, field {field}: {problem}", "correct the row, or the annotation at {annotation}"),
    "not-async": ("eval {name} is {found}", "{fix}"),
    "wrong-parameters": ("eval {name} takes {found}; {wanted}", "write `{signature}`"),
    "bad-argument": ("{call}: {argument} {problem}", "{fix}"),
    "flags-not-json": ("flags.{path} is not JSON: {problem}", "use str, int, float, bool, None, list and dict only"),
    "loader-in-test": (
        "{loader} ran inside the eval, so its data cannot join the fingerprint",
        "move the call to module level",
    ),
    "data-file": ("{file}: {problem}", "correct the file, or the path given to {loader}"),
    # Testing.
    "model-server-address": (
        "a model server cannot listen on {host} port {port}: {reason}",
        "give host= an address of this machine, and port=0 for a free port",
    ),
    # Agents.
    "coverage-missing": (
        "agent {agent} says nothing about {channels}",
        '{channel}=Coverage.complete, or Coverage.unavailable("why")',
    ),
    "coverage-invalid": ("agent {agent}: {problem}", "{fix}"),
    "agent-version": (
        "agent {agent} could not say its version: {problem}",
        "give text, or a function that needs no running service; its results are not carried",
    ),
    "agent-invalid": ("{problem}", "{fix}"),
    "sandbox-not-set": (
        "agent {agent} needs a sandbox, and neither the experiment nor the config gives one",
        "sandbox=docker_sandbox(...) in define_experiment(...); from niceeval.sandbox import docker_sandbox",
    ),
    "sandbox-unavailable": ("{backend}: {problem}", "{fix}"),
    "sandbox-unsupported": ("{backend} cannot do this: {problem}", "{fix}"),
    "sandbox-failed": ("{backend}: {problem}", "{fix}"),
    "sandbox-no-git": ("{backend}: {problem}", "{fix}"),
    "sandbox-gone": ("{backend}: the sandbox is gone: {problem}", "{fix}"),
    "sandbox-command": ("{command}: {problem}", "{fix}"),
    "sandbox-file": ("{path}: {problem}", "{fix}"),
    "cli-missing": ("{cli} cannot be used: {problem}", "{fix}"),
    "cli-version": ("{cli}: {problem}", "{fix}"),
    "cli-key": (
        "agent {agent} needs {variable}, which is not set",
        "set {variable} in the environment or in .env; api_key_env=None where the CLI is logged in already",
    ),
    "cli-failed": ("{cli} ended with exit code {exit_code} before the model answered: {said}", "{fix}"),
    "cli-ended": ("{cli}: {problem}", "see what it needs to start: run its command in the sandbox"),
    "extra-missing": (
        "{wanted_by} needs the package {package}, which is not installed",
        "pip install 'niceeval[{extra}]'",
    ),
    "service-failed": (
        "{service}: {problem}",
        "see the service's log, and the address and key that the adapter was given",
    ),
    "agent-input": ("{agent}: {problem}", "{fix}"),
    "judge-labels": ("{file} {problem}", 'see docs/judges.md, "Labels"'),
    "judge-none": (
        "no judge is named for {file}",
        "judge: {{model: ...}} in it, judge= in niceeval_config.py, or --model",
    ),
    "judge-check": ("the judge {model} cannot be asked: {problem}", "correct base_url, or the key in {variable}"),
    "judge-store": ("the calibration cannot be kept in {folder}: {problem}", "make the folder writable, or --no-store"),
    "judge-record": ("{file} is no calibration of a judge", "niceeval judge check LABELS makes one, in judges/"),
    "recording": ("{folder}: {problem}", "{fix}"),
    "adapter-error": ("{error}", "fix the agent, or the adapter at the line above"),
    "turn-malformed": ("{agent} returned a turn that cannot be used: {problem}", "{fix}"),
    "timeout": ("{limit} passed in {phase}", "raise timeout=, or see where it hangs"),
    "setup-failed": ("{agent}: setup: {error}", "fix the agent's setup"),
    "experiment-setup-failed": ("setup of experiment {experiment}: {error}", "fix its setup; nothing of it was run"),
    "budget-unenforceable": ("the first attempt has no cost: {problem}", "{fix}, or drop the budget"),
    # Inside an eval.
    "author-error": ("{error}", "fix the eval"),
    "send-not-awaited": ("t.{call}(...) was not awaited: nothing was sent", "write `await t.{call}(...)`"),
    "sandbox-not-awaited": ("t.{call}(...) was not awaited: it did nothing", "write `await t.{call}(...)`"),
    "judge-not-awaited": (
        "settle() of a judge was not awaited: it judges only when it is",
        "write `score = await handle.settle()`, or leave it out: every judge is asked at the end",
    ),
    "deferred-value": (
        "t.{call} is known only when the eval function has returned",
        "give it to t.check(value, matcher); `await t.sandbox.read_file(path)` reads a file now",
    ),
    "deferred-inside": (
        "t.{call} is known only when the eval function has returned, and stands inside another value",
        "give it to t.check(value, matcher) by itself",
    ),
    "handle-as-bool": (
        "an assertion handle has no truth value; the call recorded itself",
        "remove `assert`",
    ),
    "unknown-option": ('request {request} has no option "{option}"; it has {options}', "{fix}"),
    "bad-response": ("{problem}", "{fix}"),
    "session-busy": (
        "this session is still waiting for the send at line {line}; a session is one conversation line",
        "await it first, or open another line with t.new_session()",
    ),
    "send-unfinished": (
        "t.{call}(...) was still running when the eval returned",
        "await it before the eval returns",
    ),
    "foreign-context": (
        "this belongs to another attempt, of eval {eval}",
        "use the `t` that this eval function was given, and keep none in a global",
    ),
    "task-unfinished": (
        "{task} was still running when the eval returned",
        "await it before the eval returns, or cancel it",
    ),
    "task-failed": ("a task that nobody awaited ended in {error}", "await it before the eval returns"),
    "recorded-late": (
        "this came after the eval had returned, and counts for nothing",
        "await what runs it before the eval returns",
    ),
    "too-many-turns": ("more than {limit} sends in one attempt", "send fewer, or split the eval"),
    "no-sandbox": (
        "t.sandbox needs a sandbox; agent {agent} is direct",
        "use define_sandbox_agent, or remove the call",
    ),
    "bad-file": ("{file}: {problem}", "give a path relative to the eval file, or an InputFile"),
    "bad-output-type": ("output={type}: {problem}", "use a model, a dataclass, a TypedDict or JsonSchema({{...}})"),
    "bad-matcher": ("{problem}", "{fix}"),
    "too-many-entries": ("more than {limit} assertions in one attempt", "record fewer, or check a whole list at once"),
    # Results.
    "no-results": ("{path} has no results", "niceeval exp"),
    "not-results": ("{path} is not a results folder, a run or a summary.json", "niceeval show"),
    "not-a-target": (
        '"{word}" is the id of an {kind}; show takes an attempt, a run or a folder of results',
        "{command}, its newest attempt",
    ),
    "unknown-locator": ("no attempt {locator} in {path}", "niceeval show"),
    "ambiguous-locator": ("{locator} is {candidates}", "niceeval show {first}"),
    "incompatible": ("{path}: schemaVersion {schema} by niceeval {version}", "{command}"),
    "unreadable": ("{path}: {problem}", "niceeval show"),
    "cannot-write": ("{path}: {problem}", "free or unlock it, then run the same command again"),
    "sandbox-needs-yes": (
        "prune asks before removing {what}, and stdin is no terminal",
        "niceeval sandbox prune --yes",
    ),
    "needs-yes": ("clean asks before deleting {what}, and stdin is no terminal", "niceeval clean --yes"),
}
