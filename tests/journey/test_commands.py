"""The commands besides `exp`: what they print, what they write, what they leave alone, and how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from niceeval._cli.main import entry
from niceeval._cli.scaffold import BEGIN, BLOCK, END
from tests.unit.project_files import AGENT, EVAL, EXPERIMENT, forget_adapters, write_files

Run = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run one command line in the test's folder; gives exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def command(line: str) -> tuple[int, str, str]:
        forget_adapters()
        capsys.readouterr()
        code = entry(line.split())
        out, err = capsys.readouterr()
        return code, out, err

    return command


def files_in(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text("utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".niceeval" not in path.parts and "__pycache__" not in path.parts
    }


def test_init_makes_a_project_that_runs_green(run: Run, tmp_path: Path) -> None:
    """At once, offline, without a key."""
    code, out, _ = run("init")
    assert (code, out.splitlines()[-1]) == (0, "next: niceeval exp")
    assert out.startswith("created  niceeval_config.py evals/hello_eval.py experiments/local.py adapters/order_bot.py")
    code, out, _ = run("exp")
    assert (code, out.splitlines()[-1]) == (0, "PASSED (exit 0)")


def test_init_again_changes_nothing(run: Run, tmp_path: Path) -> None:
    """And says so."""
    run("init")
    before = files_in(tmp_path)
    code, out, _ = run("init")
    assert (code, out.splitlines()[0]) == (0, "kept     .gitignore (is current) AGENTS.md (is current)")
    assert files_in(tmp_path) == before


def test_init_overwrites_no_file_of_the_users(run: Run, tmp_path: Path) -> None:
    """A project that has evals gets no examples; one file that is there stays as it is."""
    write_files(tmp_path, {"evals/mine_eval.py": EVAL, "CLAUDE.md": "# Mine\n"})
    run("init")
    assert sorted(files_in(tmp_path)) == [".gitignore", "AGENTS.md", "CLAUDE.md", "evals/mine_eval.py"]
    assert files_in(tmp_path)["CLAUDE.md"] == "# Mine\n\n" + BLOCK


def test_init_keeps_a_file_that_is_in_the_way(run: Run, tmp_path: Path) -> None:
    """The others are created."""
    write_files(tmp_path, {"niceeval_config.py": "mine = 1\n"})
    _, out, _ = run("init")
    assert "kept     niceeval_config.py (exists)" in out
    assert files_in(tmp_path)["niceeval_config.py"] == "mine = 1\n"


OLD_BLOCK = f"{BEGIN.partition(' (')[0]} (as an older version wrote it) -->\nold words\n{END}"

BLOCKS = [
    ("", BLOCK),
    ("# A", "# A\n\n" + BLOCK),
    ("# A\n", "# A\n\n" + BLOCK),
    (f"# A\n\n{OLD_BLOCK}\n\n# B\n", "# A\n\n" + BLOCK + "\n# B\n"),
    (f"# A\r\n{OLD_BLOCK}\r\n".replace("\n", "\r\n").replace("\r\r", "\r"), f"# A\n{BLOCK}".replace("\n", "\r\n")),
]


@pytest.mark.parametrize(("before", "after"), BLOCKS, ids=["empty", "no line end", "text", "older", "windows"])
def test_the_managed_block_replaces_only_itself(run: Run, tmp_path: Path, before: str, after: str) -> None:
    """What stands around it stays, line ends included; a second time nothing changes."""
    agents = tmp_path / "AGENTS.md"
    agents.write_bytes(before.encode())
    run("init")
    assert agents.read_bytes().decode() == after
    _, out, _ = run("init")
    assert "AGENTS.md (is current)" in out


@pytest.mark.parametrize("text", [f"{BEGIN}\nmine", f"{END}\n{BEGIN}", f"{BLOCK}{END}"], ids=["open", "turned", "two"])
def test_marks_that_do_not_pair_are_left_alone(run: Run, tmp_path: Path, text: str) -> None:
    """Guessing where the block ends could delete the user's text."""
    write_files(tmp_path, {"AGENTS.md": text})
    before = (tmp_path / "AGENTS.md").read_text()
    _, out, _ = run("init")
    assert "kept     AGENTS.md (its niceeval marks do not pair)" in out
    assert (tmp_path / "AGENTS.md").read_text() == before


def test_a_link_stays_a_link(run: Run, tmp_path: Path) -> None:
    """CLAUDE.md is often one to AGENTS.md; the block is there once."""
    write_files(tmp_path, {"AGENTS.md": "# A\n"})
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    run("init")
    assert (tmp_path / "CLAUDE.md").is_symlink()
    assert (tmp_path / "AGENTS.md").read_text().count(END) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [("*.pyc", "*.pyc\n.niceeval/\n.env\n"), ("/.niceeval\n.env\n", "/.niceeval\n.env\n")],
    ids=["missing", "there"],
)
def test_results_and_credentials_are_ignored_by_git(run: Run, tmp_path: Path, before: str, after: str) -> None:
    """Once."""
    (tmp_path / ".gitignore").write_text(before)
    run("init")
    assert (tmp_path / ".gitignore").read_text() == after


PROJECT: Mapping[str, str] = {
    "adapters/bots.py": AGENT,
    "evals/weather/brooklyn_eval.py": EVAL.replace("()", "(description='Looked up', tags=['smoke'])", 1),
    "evals/sql_eval.py": EVAL.replace("()", "(cases=list(range(24)))", 1).replace("(t)", "(t, row)"),
    "experiments/compare/bub.py": EXPERIMENT.replace("bot())", "bot(), model='gpt-5.4', runs=2, evals=['sql'])"),
}


def test_list_shows_evals_and_folds_cases(run: Run, tmp_path: Path) -> None:
    """With description, tags and place."""
    write_files(tmp_path, PROJECT)
    code, out, err = run("list")
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["sql", "(24", "cases)", "0000", "...", "0023", "evals/sql_eval.py:3"],
        ["weather/brooklyn", "Looked", "up", "[smoke]", "evals/weather/brooklyn_eval.py:3"],
    ]


def test_list_as_json_has_every_case(run: Run, tmp_path: Path) -> None:
    """And nothing but JSON on stdout, whatever the files print."""
    write_files(tmp_path, {**PROJECT, "evals/noisy_eval.py": "print('noise')\n" + EVAL})
    code, out, _ = run("list --json --tag smoke")
    assert (code, [one["id"] for one in json.loads(out)]) == (0, ["weather/brooklyn"])
    assert len(json.loads(run("list --json")[1])) == 26


def test_exp_list_shows_experiments(run: Run, tmp_path: Path) -> None:
    """With agent, model, how many evals each selects, and runs."""
    write_files(tmp_path, PROJECT)
    code, out, _ = run("exp list")
    assert (code, out.split()) == (0, ["compare/bub", "bot", "gpt-5.4", "24", "evals", "runs", "2"])
    (found,) = json.loads(run("exp list --json")[1])
    assert (found["id"], found["evals"], found["earlyExit"]) == ("compare/bub", 24, True)


def test_exp_list_shows_a_budget_where_there_is_one(run: Run, tmp_path: Path) -> None:
    """In dollars; an experiment without one has none beside it."""
    path = "experiments/compare/bub.py"
    limited = PROJECT[path].replace("define_experiment(", "define_experiment(budget=4.0, ")
    write_files(tmp_path, {**PROJECT, "experiments/compare/capped.py": limited})
    code, out, _ = run("exp list")
    assert (code, [line.split()[-4:] for line in out.splitlines()]) == (
        0,
        [["24", "evals", "runs", "2"], ["runs", "2", "budget", "$4.00"]],
    )
    assert [one.get("budget") for one in json.loads(run("exp list --json")[1])] == [None, 4.0]


def test_a_list_shows_what_loaded_and_ends_in_one_where_something_did_not(run: Run, tmp_path: Path) -> None:
    """The rest still lists."""
    write_files(tmp_path, {**PROJECT, "evals/bad_eval.py": "1 / 0"})
    code, out, err = run("list")
    assert (code, len(out.splitlines())) == (1, 2)
    assert err.startswith("error[load-failed]: ZeroDivisionError: division by zero\n  evals/bad_eval.py:1:1\n")


def test_a_long_list_is_counted_off_a_terminal(run: Run, tmp_path: Path) -> None:
    """16 KiB, then the number of the others and the command for them."""
    many = "\n".join(f"@define_eval(description='{'x' * 60}')\nasync def e{n:04}(t): ...\n" for n in range(400))
    write_files(tmp_path, {"evals/many_eval.py": "from niceeval import define_eval\n" + many})
    _, out, _ = run("list")
    assert len(out.encode()) <= 16_384
    shown, last = out.splitlines()[:-1], out.splitlines()[-1]
    assert last == f"+ {400 - len(shown)} more: niceeval list --json"


def test_many_problems_are_counted(run: Run, tmp_path: Path) -> None:
    """Ten in full."""
    write_files(tmp_path, {f"evals/bad{n}_eval.py": "1 / 0" for n in range(12)})
    code, _, err = run("list")
    assert (code, err.count("error[load-failed]"), err.splitlines()[-1]) == (1, 10, "+ 2 more errors")


def test_what_comes_from_files_cannot_steer_the_terminal(run: Run, tmp_path: Path) -> None:
    """Neither in a list nor in an error; and an error stays within 2 KiB."""
    nasty = "\\x1b[2J\\u202e" + "y" * 5000
    write_files(
        tmp_path,
        {
            "evals/a_eval.py": EVAL.replace("()", f"(description='{nasty}')", 1),
            "evals/b_eval.py": f"raise ValueError('{nasty}')",
        },
    )
    _, out, err = run("list")
    assert "\x1b" not in out + err
    assert "\u202e" not in out + err
    assert len(err.encode()) <= 2048


def test_a_secret_of_dotenv_is_not_printed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even by an error that quotes it."""
    monkeypatch.setenv("NICEEVAL_TEST_API_KEY", "")
    monkeypatch.delenv("NICEEVAL_TEST_API_KEY")
    raising = "import os\nraise ValueError(os.environ['NICEEVAL_TEST_API_KEY'])"
    write_files(tmp_path, {".env": "NICEEVAL_TEST_API_KEY=sk-very-secret", "evals/a_eval.py": raising})
    _, out, err = run("list")
    assert "error[load-failed]: ValueError: [redacted]" in err
    assert "sk-very-secret" not in out + err


def make_runs(root: Path) -> Path:
    """A results folder with two runs and things that are none; and something outside that a link points to."""
    outside = root / "outside"
    write_files(root, {"outside/2026-01-01T00-00-00-000Z/keep.txt": "x", "evals/a_eval.py": EVAL})
    results = root / ".niceeval"
    write_files(
        results,
        {
            "2026-07-02T03-10-24-123Z/summary.json": "{}",
            "2026-07-02T03-10-24-123Z-2/a/b/result.json": "{}",
            "notes/mine.txt": "x",
            "2026-07-03T00-00-00-000Z.txt": "x",
        },
    )
    (results / "2026-08-01T00-00-00-000Z").symlink_to(outside / "2026-01-01T00-00-00-000Z")
    (results / "2026-07-02T03-10-24-123Z" / "link").symlink_to(outside)
    return results


def test_clean_deletes_runs_and_nothing_else(run: Run, tmp_path: Path) -> None:
    """No other folder, no file, and nothing behind a link."""
    results = make_runs(tmp_path)
    code, out, _ = run("clean --yes")
    assert (code, out.startswith("deleted 2 runs (")) == (0, True)
    assert sorted(os.listdir(results)) == ["2026-07-03T00-00-00-000Z.txt", "2026-08-01T00-00-00-000Z", "notes"]
    assert (tmp_path / "outside/2026-01-01T00-00-00-000Z/keep.txt").read_text() == "x"


class Answering:
    """A stdin on which a person sits."""

    def __init__(self, answer: str) -> None:
        self._answer = answer

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self._answer


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 0), ("\n", 1, 2), ("", 1, 2), ("no\n", 1, 2)])
def test_clean_asks(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, left: int
) -> None:
    """On stderr, with count and size; anything but yes keeps everything."""
    results = make_runs(tmp_path)
    monkeypatch.setattr(sys, "stdin", Answering(answer))
    ended, _, err = run("clean")
    assert err.startswith("delete 2 runs (")
    runs = [name for name in os.listdir(results) if name.startswith("2026-07-02")]
    assert (ended, len(runs)) == (code, left)


def test_clean_refuses_a_results_folder_that_is_a_link(run: Run, tmp_path: Path) -> None:
    """What is behind it may be anybody's."""
    write_files(tmp_path, {"evals/a_eval.py": EVAL, "elsewhere/2026-07-02T03-10-24-123Z/x": "x"})
    (tmp_path / ".niceeval").symlink_to("elsewhere")
    code, _, err = run("clean --yes")
    assert (code, "cannot-write" in err) == (1, True)
    assert (tmp_path / "elsewhere/2026-07-02T03-10-24-123Z/x").exists()


def test_clean_without_runs(run: Run, tmp_path: Path) -> None:
    """Nothing to do is no mistake."""
    write_files(tmp_path, {"evals/a_eval.py": EVAL})
    assert run("clean") == (0, ".niceeval/ has no runs; nothing was deleted\n", "")


@pytest.mark.parametrize(
    "line", ["", "--help", "-h", "exp --help", "exp list -h", "list --help", "clean --help", "init --help"]
)
def test_help_is_an_answer(run: Run, line: str) -> None:
    """On stdout, exit code 0, outside a project too; no row wider than a terminal."""
    code, out, err = run(line)
    assert (code, err) == (0, "")
    assert out.startswith("Usage: niceeval ")
    assert max(map(len, out.splitlines())) <= 100


def test_the_version(run: Run) -> None:
    """One line."""
    from niceeval import __version__

    assert run("--version") == (0, f"niceeval {__version__}\n", "")


def test_a_fault_of_ours_is_called_one(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 2, no traceback but in the report; NICEEVAL_DEBUG shows it."""
    monkeypatch.setattr("niceeval._cli.listing.load_project", lambda start: 1 / 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, _, err = run("list")
    assert (code, "Traceback" in err) == (2, False)
    assert err.startswith("error[broke]: niceeval broke: ZeroDivisionError: division by zero\n")
    (report,) = tmp_path.glob("niceeval-broke-*.txt")
    assert "Traceback" in report.read_text("utf-8")
    assert str(report) in err
    monkeypatch.setenv("NICEEVAL_DEBUG", "1")
    assert "Traceback" in run("list")[2]


def test_ctrl_c_is_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it comes."""

    def interrupted(start: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("niceeval._cli.listing.load_project", interrupted)
    assert run("list")[0] == 130


def test_chinese_words_keep_codes_and_commands(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`error[code]`, `next:` and the command are the same in any language."""
    monkeypatch.setenv("NICEEVAL_LANG", "zh")
    code, _, err = run("exp")
    assert code == 1
    assert err.splitlines()[0].startswith("error[no-project]: 这里")
    assert err.splitlines()[-1] == "  next: niceeval init"


def in_a_process(args: list[str], folder: Path, **environ: str) -> subprocess.CompletedProcess[bytes]:
    source = Path(__file__).resolve().parents[2] / "src"
    env = {**os.environ, "PYTHONPATH": str(source), **environ}
    return subprocess.run([sys.executable, *args], cwd=folder, env=env, capture_output=True, check=False)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "cp936"])
def test_no_encoding_makes_it_raise(tmp_path: Path, encoding: str) -> None:
    """What a stream cannot hold is escaped; the exit code is the same."""
    write_files(tmp_path, {"evals/东京_eval.py": EVAL.replace("()", "(description='北京 ✓')", 1)})
    done = in_a_process(["-m", "niceeval", "list"], tmp_path, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"_eval.py:3" in done.stdout


def test_a_closed_pipe_ends_a_list_in_silence(tmp_path: Path) -> None:
    """`niceeval list | head -1`."""
    write_files(
        tmp_path, {"evals/a_eval.py": EVAL.replace("()", "(cases=list(range(24)))", 1).replace("(t)", "(t, row)")}
    )
    source = Path(__file__).resolve().parents[2] / "src"
    script = f"{sys.executable} -m niceeval list --json; echo $? >code"
    read, write = os.pipe()
    os.close(read)
    env = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env=env, stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert ((tmp_path / "code").read_text().strip(), done.stderr) == ("0", b"")


LIMITS = [
    ("import niceeval", 15),
    ("from niceeval import define_eval", 120),
    ("import niceeval._cli.main", 200),
]


@pytest.mark.parametrize(("code", "limit"), LIMITS, ids=[row[0] for row in LIMITS])
def test_importing_is_nearly_free(tmp_path: Path, code: str, limit: int) -> None:
    """Modules over an empty program; and never a web client, a server or YAML."""
    count = "import sys; print(len(sys.modules), *sys.modules)"
    nothing = in_a_process(["-c", count], tmp_path).stdout.split()
    modules = in_a_process(["-c", f"{code}\n{count}"], tmp_path).stdout.split()
    assert int(modules[0]) - int(nothing[0]) <= limit
    heavy = {b"asyncio", b"yaml", b"jsonschema", b"pydantic", b"httpx2", b"starlette", b"uvicorn", b"rich"}
    assert not heavy & set(modules)
