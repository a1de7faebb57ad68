"""What command-line agents share: a CLI that is there, a turn that is bounded, keys that are nowhere."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import stat
import tomllib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval._base.errors import AdapterError, NiceevalError, ProjectError
from niceeval._sandbox.labels import labels_of
from niceeval.adapter import (
    Agent,
    AgentSession,
    ErrorEvent,
    InputFile,
    Message,
    RetryableSendError,
    SandboxAgentContext,
    Turn,
    TurnInput,
    Usage,
    complete_evidence_coverage,
)
from niceeval.backends.local import open_backend
from niceeval.cli_agent import (
    CliOptions,
    CliPackage,
    CliRun,
    CliTurn,
    Hook,
    McpServer,
    Plugin,
    Skill,
    define_cli_agent,
    ensure_cli,
    merged,
    toml_lines,
)
from niceeval.cli_agent.failing import raise_if_unanswered
from niceeval.cli_agent.turns import LOG_HEAD, LOG_TAIL
from niceeval.sandbox import Sandbox, SandboxRequest, local_sandbox
from niceeval.turn_building import Collected, TurnBuilder, TurnDiagnostic

PACKAGE = CliPackage(name="tool", command="tool", registry="npm", package="@its/tool")
NPM = """#!/bin/sh
echo "$@" >> {log}
while [ "$1" != --prefix ]; do shift; done
mkdir -p "$2/node_modules/.bin"
printf '#!/bin/sh\\necho "tool 3.2.1"\\n' > "$2/node_modules/.bin/tool"
chmod +x "$2/node_modules/.bin/tool"
"""
FAILING_NPM = "#!/bin/sh\necho 'npm error 404 no such package' >&2\nexit 1\n"


def program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def in_sandbox(body: Callable[[Sandbox], Awaitable[Any]], path: Path) -> Any:
    """Run the body with a sandbox of this machine, whose programs are those of `path` and the system's."""

    async def main() -> Any:
        backend = await open_backend(local_sandbox(env={"PATH": f"{path}:/usr/bin:/bin"}))
        sandbox = await backend.create(SandboxRequest(labels=labels_of(run="test", lifetime=600), lifetime=600))
        try:
            return await body(sandbox)
        finally:
            await sandbox.stop()

    return asyncio.run(main())


# Getting a CLI -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "wanted", "installs", "version"),
    [
        ("1.0.0", None, [], "1.0.0"),
        ("1.0.0", "1.0.0", [], "1.0.0"),
        ("1.0.0", "3.2.1", ["@its/tool@3.2.1"], "3.2.1"),
        ("1.0.0", "newest", ["@its/tool@latest"], "3.2.1"),
        (None, None, ["@its/tool@latest"], "3.2.1"),
        (None, "3.2.1", ["@its/tool@3.2.1"], "3.2.1"),
    ],
)
def test_it_is_installed_where_it_is_not_there(
    tmp_path: Path, there: str | None, wanted: str | None, installs: list[str], version: str
) -> None:
    """What the image has is used where it will do; what was installed once is found the second time."""
    log = tmp_path / "npm.log"
    program(tmp_path / "bin", "npm", NPM.format(log=log))
    if there is not None:
        program(tmp_path / "bin", "tool", f"#!/bin/sh\necho tool v{there} '(build 7)'\n")

    async def body(sandbox: Sandbox) -> None:
        first = await ensure_cli(sandbox, PACKAGE, version=wanted)
        second = await ensure_cli(sandbox, PACKAGE, version=wanted)
        assert (first.version, second.version, second.path) == (version, version, first.path)
        assert (first.installed_now, second.installed_now) == (bool(installs), False)

    in_sandbox(body, tmp_path / "bin")
    asked = [line.split()[-1] for line in log.read_text().splitlines()] if log.exists() else []
    assert asked == installs


@pytest.mark.parametrize(
    ("programs", "arguments", "code", "says"),
    [
        ({}, {"command": "/opt/tool"}, "cli-missing", "/opt/tool is not there"),
        ({"npm": FAILING_NPM}, {}, "cli-missing", "npm error 404 no such package"),
        ({"npm": NPM.format(log="/dev/null")}, {"version": "9.9.9"}, "cli-version", "version 9.9.9 was asked for"),
        ({"tool": "#!/bin/sh\necho broken >&2; exit 1\n"}, {}, "cli-missing", "did not say its version: broken"),
    ],
)
def test_a_cli_that_cannot_be_had(
    tmp_path: Path, programs: dict[str, str], arguments: dict[str, Any], code: str, says: str
) -> None:
    """The error says what was tried and what came of it."""
    (tmp_path / "bin").mkdir()
    for name, text in programs.items():
        program(tmp_path / "bin", name, text)
    with pytest.raises(AdapterError) as caught:
        in_sandbox(lambda sandbox: ensure_cli(sandbox, PACKAGE, **arguments), tmp_path / "bin")
    assert caught.value.code == code
    assert says in str(caught.value)
    assert caught.value.next_step()


# A turn ------------------------------------------------------------------------------------------------------------


async def one_turn(turn: CliTurn) -> tuple[CliRun, Collected]:
    run = await turn.run(["--ask"], stdin=turn.prompt)
    builder = TurnBuilder(complete_evidence_coverage)
    builder.message(run.stdout)
    turn.continues_as("conversation-1")
    return run, builder.build()


def tool_agent(**options: Any) -> Agent:
    return define_cli_agent(
        name="tool",
        package=PACKAGE,
        evidence_coverage=complete_evidence_coverage,
        turn=one_turn,
        options=CliOptions(**options),
        home_env=lambda home: {"TOOL_HOME": home},
    )


def drive(
    agent: Agent, text: str, path: Path, files: tuple[InputFile, ...] = ()
) -> tuple[Turn, list[str], list[tuple[Any, ...]]]:
    """One attempt of one turn: the turn, its log, its diagnostics."""
    logs: list[str] = []
    diagnostics: list[tuple[Any, ...]] = []

    async def body(sandbox: Sandbox) -> Turn:
        context = SandboxAgentContext(
            session=AgentSession(),
            model=None,
            reasoning_effort=None,
            flags={},
            experiment_id="e",
            eval_id="v",
            attempt=0,
            log=logs.append,
            progress=lambda message, **_: None,
            diagnostic=lambda *said: diagnostics.append(said),
            sandbox=sandbox,
        )
        assert agent.setup is not None
        assert agent.teardown is not None
        await agent.setup(context)  # type: ignore[misc]
        turn = await agent.send(TurnInput(text=text, files=files), context)  # type: ignore[misc]
        assert context.session.id == "conversation-1"
        await agent.teardown(context)  # type: ignore[misc]
        assert not os.listdir(f"{sandbox.private_dir}/agents")
        assert os.listdir(sandbox.workdir) == []
        return turn

    return in_sandbox(body, path), logs, diagnostics


def tool(tmp_path: Path, script: str) -> Path:
    program(tmp_path / "bin", "tool", f'#!/bin/sh\n[ "$1" = --version ] && exec echo 1.0.0\n{script}\n')
    return tmp_path / "bin"


def test_a_key_is_in_the_commands_environment_and_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in its arguments nor in a file of its home; its variable's name is the agent's secret."""
    monkeypatch.setenv("SOME_PASS", "hush-hush-1")
    agent = tool_agent(secrets={"TOOL_KEY": "SOME_PASS"})
    assert agent.secret_env == ("SOME_PASS",)
    script = 'echo "$TOOL_KEY" | md5sum; echo "args: $*"; grep -rl hush-hush "$TOOL_HOME"; cat'
    turn, logs, diagnostics = drive(agent, "the prompt", tool(tmp_path, script))
    (message,) = turn.events
    assert isinstance(message, Message)
    digest = hashlib.md5(b"hush-hush-1\n", usedforsecurity=False).hexdigest()
    assert message.text.splitlines() == [f"{digest}  -", "args: --ask", "the prompt"]
    assert "hush-hush" not in repr((turn, logs, diagnostics))
    assert [said[:3] for said in diagnostics] == [("cli-version", "info", "tool 1.0.0")]


def test_a_key_that_is_not_set_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is installed or run."""
    monkeypatch.delenv("SOME_PASS", raising=False)
    with pytest.raises(AdapterError) as caught:
        drive(tool_agent(secrets={"TOOL_KEY": "SOME_PASS"}), "x", tool(tmp_path, "cat"))
    assert caught.value.code == "cli-key"
    assert str(caught.value) == "agent tool needs SOME_PASS, which is not set"


def test_the_log_keeps_the_beginning_and_the_end(tmp_path: Path) -> None:
    """Standard error without styles, each line bounded, with how much is left out."""
    script = "for i in $(seq 1 3000); do printf '\\033[31mline %s\\033[0m\\n' $i >&2; done; printf 'last' >&2; echo ok"
    _, logs, _ = drive(tool_agent(), "x", tool(tmp_path, script))
    assert logs[:2] == ["line 1", "line 2"]
    assert logs[-2:] == ["line 3000", "last"]
    assert logs[LOG_HEAD] == f"({3001 - LOG_HEAD - LOG_TAIL:,} more lines of standard error)"
    assert len(logs) == LOG_HEAD + LOG_TAIL + 1


def test_attached_files_are_put_outside_the_working_folder(tmp_path: Path) -> None:
    """What is written there during a turn would count as the agent's change; names cannot lead elsewhere."""
    files = (
        InputFile(filename="../../a b.txt", mime_type="text/plain", data=b"one"),
        InputFile(filename="a b.txt", mime_type="text/plain", data=b"two"),
    )
    script = 'tee "$TOOL_HOME/asked"; sed -n "s/^Attached file: //p" "$TOOL_HOME/asked" | xargs cat'
    turn, _, _ = drive(tool_agent(), "Look.", tool(tmp_path, script), files)
    (message,) = turn.events
    assert isinstance(message, Message)
    assert message.text.startswith("Look.\n\nAttached file: /")
    assert message.text.endswith("onetwo")
    assert message.text.count("Attached file: ") == 2


@pytest.mark.parametrize(
    ("turn", "codes", "fresh", "error"),
    [
        (Turn(status="failed", events=[ErrorEvent(message="API Error: 401")]), [], True, "cli-failed"),
        (Turn(status="failed", events=[ErrorEvent(message="last status: 429 Too Many")]), [], True, "retry"),
        (Turn(status="failed", events=[ErrorEvent(message="it was refused")]), ["rate-limited"], True, "retry"),
        (Turn(status="failed", events=[ErrorEvent(message="429")]), [], False, "cli-failed"),
        (Turn(status="failed", events=[]), [], True, "cli-failed"),
        (Turn(status="failed", events=[Message(role="assistant", text="I")]), ["rate-limited"], True, None),
        (Turn(status="failed", events=[], usage=Usage(output_tokens=3)), [], True, None),
        (Turn(status="completed", events=[]), [], True, None),
    ],
)
def test_a_turn_that_failed_before_any_answer_says_nothing_of_the_agent(
    turn: Turn, codes: list[str], fresh: bool, error: str | None
) -> None:
    """It is an error, or sent again; once the model has answered, the turn failed."""
    collected = Collected(turn=turn, diagnostics=tuple(TurnDiagnostic(code=code, message="") for code in codes))
    raised: str | None = None
    try:
        raise_if_unanswered(collected, cli="tool", exit_code=1, last_words="nothing", fresh=fresh)
    except RetryableSendError:
        raised = "retry"
    except NiceevalError as caught:
        raised = caught.code
    assert raised == error


# What is added -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: McpServer(name="a b", command="x"), "name is 'a b'"),
        (lambda: McpServer(name="docs"), "one of them is given"),
        (lambda: McpServer(name="docs", command="x", url="https://y"), "one of them is given"),
        (lambda: McpServer(name="docs", command="x", bearer_token_env="T"), "goes with url"),
        (lambda: McpServer(name="docs", command="x", args="-y"), "args is '-y'"),  # type: ignore[arg-type]
        (lambda: Skill("nowhere"), "'nowhere' is no folder"),
        (lambda: Skill("."), "has no SKILL.md"),
        (lambda: Plugin("nowhere"), "'nowhere' is no folder"),
        (lambda: Hook(event="", command="x"), "event is ''"),
        (lambda: Hook(event="Stop", command="x", timeout=-1), "timeout is -1"),
    ],
)
def test_a_wrong_description_is_said_at_its_line(make: Callable[[], object], says: str) -> None:
    """The author's own line, not one of ours."""
    with pytest.raises(ProjectError) as caught:
        make()
    assert says in str(caught.value)
    assert caught.value.place is not None
    assert caught.value.place.file.endswith("test_cli_agent.py")


def test_a_skill_is_found_beside_the_file_and_counts_by_its_content(tmp_path: Path) -> None:
    """A changed skill is another agent version; the same skill elsewhere is not."""

    def version(folder: Path) -> str:
        agent = define_cli_agent(
            name="tool",
            package=PACKAGE,
            evidence_coverage=complete_evidence_coverage,
            turn=one_turn,
            options=CliOptions(version="1.0.0"),
            depends_on=[(Skill(folder),)],
        )
        assert callable(agent.version)
        return agent.version()

    for place in ("here", "there"):
        (tmp_path / place / "style").mkdir(parents=True)
        (tmp_path / place / "style" / "SKILL.md").write_text("Write short sentences.")
    here = version(tmp_path / "here" / "style")
    assert here.startswith("1.0.0; settings ")
    assert version(tmp_path / "there" / "style") == here
    (tmp_path / "here" / "style" / "SKILL.md").write_text("Write long sentences.")
    assert version(tmp_path / "here" / "style") != here


scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(exclude_categories=["Cs"]))
keys = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
tables = st.recursive(
    st.dictionaries(keys, scalars | st.lists(scalars, max_size=3), max_size=4),
    lambda inner: st.dictionaries(keys, scalars | inner, max_size=4),
    max_leaves=8,
)


@given(tables)
def test_toml_reads_back_as_it_was(table: dict[str, Any]) -> None:
    """Whatever is in settings, the configuration file says it."""
    assert tomllib.loads("\n".join([*toml_lines(table), ""])) == table


@given(tables, tables)
def test_what_an_author_sets_counts(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Merging keeps every value of the second, and of the first what the second does not set."""
    result = merged(ours, theirs)
    assert merged(result, theirs) == result
    assert set(result) == {*ours, *theirs}
    assert all(result[key] == value for key, value in theirs.items() if not isinstance(value, dict))
    json.dumps(result)
