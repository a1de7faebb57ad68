"""The change ledger: what an agent changed inside its sends, whatever the workdir is like, and nothing else."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from niceeval._model.changes import Changes
from niceeval._sandbox.changes import MAX_PATHS
from niceeval.sandbox import DiffRules, SandboxError
from tests.unit.ledger_world import World, busybox_tools, in_world, needs_git, said

pytestmark = needs_git

COMMIT = "git -c user.name=a -c user.email=a@b commit -q -m x"
BEFORE = r"""
mkdir -p src docs empty
printf 'one\ntwo\nthree\n' > src/app.py
seq 1 50 > docs/guide.txt
printf 'echo hi\n' > run.sh
printf 'x\n' > gone.txt
printf 'x\n' > place
printf 'same\n' > same.txt
printf 'a\r\nb\r\n' > dos.txt
"""

ROWS: dict[str, tuple[str, dict[str, str | None]]] = {
    "a new file": ("echo hi > new.txt", {"new.txt": "hi\n"}),
    "an empty new file": (": > new.txt", {"new.txt": ""}),
    "a changed file": ("echo four >> src/app.py", {"src/app.py": "one\ntwo\nthree\nfour\n"}),
    "a change of the same size and time": (
        (
            "touch -r src/app.py ../stamp; printf 'ONE\\ntwo\\nthree\\n' > src/app.py; "
            "touch -r ../stamp src/app.py; rm ../stamp"
        ),
        {"src/app.py": "ONE\ntwo\nthree\n"},
    ),
    "changed and restored": ("echo x >> src/app.py; printf 'one\\ntwo\\nthree\\n' > src/app.py", {}),
    "created and removed": ("echo x > t; rm t", {}),
    "touched only": ("touch src/app.py", {}),
    "a deleted file": ("rm gone.txt", {"gone.txt": "(deleted)"}),
    "a deleted folder": ("rm -r src", {"src/app.py": "(deleted)"}),
    "a renamed file": (
        "mv docs/guide.txt docs/manual.txt",
        {"docs/guide.txt": "(deleted)", "docs/manual.txt": "".join(f"{number}\n" for number in range(1, 51))},
    ),
    "a mode": ("chmod +x run.sh", {"run.sh": "(mode)"}),
    "a mode and its text": ("chmod +x run.sh; echo ho > run.sh", {"run.sh": "ho\n"}),
    "a file that becomes a folder": (
        "rm place; mkdir place; echo x > place/in",
        {"place": "(deleted)", "place/in": "x\n"},
    ),
    "a file that becomes an empty folder": ("rm place; mkdir place", {"place": "(deleted)"}),
    "a folder that becomes a file": ("rm -r src; echo x > src", {"src": "x\n", "src/app.py": "(deleted)"}),
    "a folder that becomes a link": (
        "mv src other; ln -s other src",
        {"src": "(symlink)", "src/app.py": "(deleted)", "other/app.py": "one\ntwo\nthree\n"},
    ),
    "a link": ("ln -s /etc/passwd link; ln -s nowhere dangling", {"link": "(symlink)", "dangling": "(symlink)"}),
    "a file that becomes a link": ("ln -sf same.txt place", {"place": "(symlink)"}),
    "pipes and unreadable files": ("mkfifo pipe; rm place; mkfifo place", {"pipe": "(special)", "place": "(special)"}),
    "binary content": ("printf 'a\\0b' > bin", {"bin": "(binary)"}),
    "a large file": ("head -c 2000000 /dev/zero > big", {"big": "(oversized)"}),
    "line ends stay": (
        "printf 'a\\r\\n' > new; printf 'c\\r\\n' >> dos.txt",
        {"new": "a\r\n", "dos.txt": "a\r\nb\r\nc\r\n"},
    ),
    "ignored folders": (
        "mkdir -p node_modules/x sub/dist; echo x > node_modules/x/y; echo x > sub/dist/z; echo x > m.pyc",
        {},
    ),
    "a file that is named like an ignored folder": ("echo x > dist", {"dist": "x\n"}),
    "the workdir's own ignore files mean nothing": (
        "echo '*' > .gitignore; echo x > hidden",
        {".gitignore": "*\n", "hidden": "x\n"},
    ),
    "the workdir's own attributes mean nothing": (
        (
            "printf '* text eol=crlf filter=evil diff=evil working-tree-encoding=UTF-16 ident\\n' > .gitattributes;"
            "printf '$Id$\\n' > id; echo five >> same.txt"
        ),
        {
            ".gitattributes": "* text eol=crlf filter=evil diff=evil working-tree-encoding=UTF-16 ident\n",
            "id": "$Id$\n",
            "same.txt": "same\nfive\n",
        },
    ),
    "a commit": (f"git init -q; git add -A; {COMMIT}; echo x > new; git add -A; {COMMIT}", {"new": "x\n"}),
    "a rewritten history": (
        (
            f"git init -q; git add -A; {COMMIT}; echo x > new; git add -A; {COMMIT}; git reset -q --hard HEAD~1; "
            "git gc -q; git clean -qfdx; echo y > new2"
        ),
        {"new2": "y\n"},
    ),
    "a repository in the workdir": (
        f"mkdir lib; cd lib; git init -q; echo x > code.py; git add -A; {COMMIT}; echo y > loose.py",
        {"lib/code.py": "x\n", "lib/loose.py": "y\n"},
    ),
    "a work tree with a .git file": ("mkdir w; echo 'gitdir: /nowhere' > w/.git; echo x > w/f", {"w/f": "x\n"}),
    "names": (
        (
            "echo 1 > -n; echo 2 > ' a  b '; echo 3 > \"$(printf 'l\\nine')\"; echo 4 > '*?[x]'; "
            "echo 5 > 'q\"\\'; echo 6 > ö; "
            "mkdir -- --; echo 7 > --/-"
        ),
        {"-n": "1\n", " a  b ": "2\n", "l\nine": "3\n", "*?[x]": "4\n", 'q"\\': "5\n", "ö": "6\n", "--/-": "7\n"},
    ),
    "a name that is no UTF-8": ("echo x > \"$(printf 'caf\\351')\"", {"caf\\xe9": "x\n"}),
    "names that git is careful with": (
        "echo 1 > git~1; echo 2 > 'a\\b'; echo 3 > .gitmodules; echo 4 > CON",
        {"git~1": "1\n", "a\\b": "2\n", ".gitmodules": "3\n", "CON": "4\n"},
    ),
    "a workdir that was moved away and made again": (
        'd=$PWD; cd ..; mv "$d" "$d.old"; mkdir "$d"; cp -p "$d.old/same.txt" "$d/"; rm -r "$d.old"; echo x > "$d/new"',
        {
            "new": "x\n",
            "src/app.py": "(deleted)",
            "docs/guide.txt": "(deleted)",
            "run.sh": "(deleted)",
            "gone.txt": "(deleted)",
            "place": "(deleted)",
            "dos.txt": "(deleted)",
        },
    ),
}


WITH_BUSYBOX = [
    "a file that becomes a folder",
    "a renamed file",
    "pipes and unreadable files",
    "a large file",
    "ignored folders",
    "a repository in the workdir",
    "names",
    "a name that is no UTF-8",
]
"""What depends on an image's tools."""


async def changed_by(world: World, script: str) -> dict[str, str | None]:
    """What a send changes in which the agent runs the script."""
    await world.run(BEFORE)
    await world.workspace.prepare()
    await world.agent(script)
    return said(await world.workspace.changes())


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_what_the_agent_changes_in_a_send(name: str) -> None:
    """Exactly that, by content."""
    script, wanted = ROWS[name]
    assert in_world(lambda world: changed_by(world, script)) == wanted


@pytest.fixture(scope="module")
def busybox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a small image."""
    return busybox_tools(tmp_path_factory.mktemp("tools") / "bin")


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_BUSYBOX)
def test_an_image_needs_no_more_than_busybox_and_git(name: str, busybox: Path) -> None:
    """The same, with the tools of a small image."""
    script, wanted = ROWS[name]
    assert in_world(lambda world: changed_by(world, script), tools=busybox) == wanted


def test_what_the_eval_writes_is_never_the_agents() -> None:
    """Before, between and after the sends; a file of both is the agent's as its last send left it."""

    async def test(world: World) -> dict[str, str | None]:
        await world.run("echo first > base.txt")
        await world.workspace.prepare()
        await world.run("echo eval > eval1.txt; echo second > base.txt; echo e > both.txt; echo e > doomed.txt")
        await world.agent("echo agent > agent.txt; echo a >> both.txt; echo a > undone.txt")
        await world.run("echo eval > eval2.txt; echo e >> both.txt; echo third > base.txt; echo e > late.txt")
        await world.agent("rm doomed.txt undone.txt; echo a > more.txt; mv late.txt later.txt")
        await world.run("echo eval > eval3.txt; rm agent.txt; echo e > more.txt")
        return said(await world.workspace.changes())

    assert in_world(test) == {
        "agent.txt": "agent\n",
        "both.txt": "e\na\n",
        "doomed.txt": "(deleted)",
        "more.txt": "a\n",
        "late.txt": "(deleted)",
        "later.txt": "e\n",
    }


def test_overlapping_sends_are_one_window() -> None:
    """From the first one's start to the last one's end: two sessions that work at once share the blame."""

    async def test(world: World) -> tuple[dict[str, str | None], int]:
        await world.workspace.prepare()
        await world.workspace.before_send()
        await asyncio.gather(world.agent("echo 1 > one.txt"), world.agent("echo 2 > two.txt"))
        await world.run("echo 3 > three.txt")
        await world.workspace.after_send()
        await world.run("echo eval > eval.txt")
        changes = await world.workspace.changes()
        return said(changes), changes.windows

    assert in_world(test) == ({"one.txt": "1\n", "two.txt": "2\n", "three.txt": "3\n"}, 3)


def test_a_patch_says_what_changed_and_added_lines_are_known_of_everything() -> None:
    """Also of renamed, binary and odd files; a new file's lines are all added, a renamed one's only the new ones."""

    async def test(world: World) -> tuple[dict[str, str], dict[str, str], dict[str, object]]:
        await world.run(BEFORE)
        await world.workspace.prepare()
        await world.agent(
            r"sed -i 's/two/TWO/' src/app.py; mv docs/guide.txt g.txt; echo 51 >> g.txt; printf '++ x\n-- y\n' > odd;"
            r"printf 'caf\351\n' > latin; printf 'a\0\ndiff --git a/x b/x\n' > bin; head -c 1500000 /dev/zero > big"
        )
        changes = await world.workspace.changes()
        stored = changes.stored
        assert stored.other_files["g.txt"].origin == "docs/guide.txt"
        assert list(changes.unread) == ["big"]
        return stored.patches, dict(changes.added), {path: file.size for path, file in stored.other_files.items()}

    patches, added, sizes = in_world(test)
    assert patches["src/app.py"] == "--- a/src/app.py\n+++ b/src/app.py\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"
    assert patches.keys() == {"src/app.py", "g.txt"}
    assert added == {
        "src/app.py": "TWO",
        "g.txt": "51",
        "odd": "++ x\n-- y",
        "latin": "caf\ufffd",
        "bin": "a\0\ndiff --git a/x b/x",
    }
    assert sizes == {"g.txt": 144, "latin": 5, "bin": 22, "big": 1_500_000}


def test_rules_change_what_is_looked_at() -> None:
    """`include` takes a folder out of the default list, `ignore` adds names and paths from the workdir."""
    script = "mkdir -p dist docs/gen sub/docs/gen out; echo 1 > dist/a; echo 2 > x.lock; echo 3 > docs/gen/y; "
    script += "echo 4 > sub/docs/gen/z; echo 5 > top; mkdir -p sub/top .git; echo 6 > sub/top/in; echo x > .git/a"

    async def test(world: World) -> dict[str, str | None]:
        await world.workspace.prepare()
        await world.agent(script)
        return said(await world.workspace.changes())

    rules = DiffRules(include=("dist/",), ignore=("*.lock", "docs/gen/", "/top"))
    assert in_world(test, rules=rules) == {"dist/a": "1\n", "sub/docs/gen/z": "4\n", "sub/top/in": "6\n"}


def test_a_ledger_that_breaks_leaves_no_diff_and_stops_no_send() -> None:
    """The agent owns the machine: what it destroys makes the diff unknown, and never wrong."""

    async def test(world: World) -> str | None:
        await world.workspace.prepare()
        await world.agent(f"echo x > new; rm -rf {world.sandbox.private_dir}/ledger/git/objects")
        await world.agent("echo y > new")
        changes = await world.workspace.changes()
        assert changes.stored.generated_files == {}
        assert await world.workspace.diff() is None
        return changes.problem

    assert "cannot be read" in str(in_world(test))


@pytest.mark.parametrize(
    ("limit", "value"), [("MAX_PATHS", 3), ("MAX_RAW_BYTES", 1), ("MAX_PATCH_BYTES", 1), ("MAX_CONTENT_BYTES", 1)]
)
def test_more_than_is_looked_at_makes_the_diff_incomplete(
    limit: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was seen is kept, and what is missing is said: it never counts as unchanged."""
    monkeypatch.setattr(f"niceeval._sandbox.changes.{limit}", value)

    async def test(world: World) -> Changes:
        await world.workspace.prepare()
        await world.agent("for n in 1 2 3 4 5; do echo $n > $n; done")
        return await world.workspace.changes()

    changes = in_world(test)
    assert (changes.problem, bool(changes.gap)) == (None, True)
    assert set(changes.present()) <= {"1", "2", "3", "4", "5"}


def test_texts_beyond_what_is_stored_keep_their_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every changed path stays in the diff."""
    monkeypatch.setattr("niceeval._sandbox.changes.MAX_STORED_CHARS", 6)

    async def test(world: World) -> dict[str, str | None]:
        await world.workspace.prepare()
        await world.agent("echo four > a; echo four > b")
        return said(await world.workspace.changes())

    assert in_world(test) == {"a": "four\n", "b": "(oversized)"}


def test_a_folder_that_cannot_be_read_makes_the_diff_incomplete() -> None:
    """What is in it is not known, so nothing is said of it; what is known stays known."""
    if os.geteuid() == 0:
        pytest.skip("root can read every folder: run the tests as another user")

    async def test(world: World) -> tuple[list[str], str | None]:
        await world.workspace.prepare()
        await world.agent("echo x > new; mkdir shut; echo x > shut/in; chmod 000 shut")
        changes = await world.workspace.changes()
        await world.run("chmod 700 shut")
        return changes.paths(), changes.gap

    assert in_world(test) == (["new"], "some folders of the workdir could not be read")


def test_results_are_there_after_the_send_and_gone_before_the_next() -> None:
    """Tests that run in the sandbox find them; the agent never does, and they are no change."""

    async def test(world: World) -> dict[str, str | None]:
        await world.workspace.prepare()
        await world.workspace.before_send()
        await world.run("mkdir elsewhere; ln -s elsewhere __niceeval__")
        await world.workspace.after_send(b'{"totalTurns":1}')
        assert (world.root / "__niceeval__/results.json").read_bytes() == b'{"totalTurns":1}'
        assert list((world.root / "elsewhere").iterdir()) == []
        await world.agent("test ! -e __niceeval__ || echo seen > seen")
        return said(await world.workspace.changes())

    assert in_world(test) == {}


@pytest.mark.slow
def test_a_reset_gives_the_first_workdir_back(busybox: Path, tmp_path: Path) -> None:
    """Whatever became of it, ignored files and repositories too; a link in its place is not followed."""
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("mine")

    async def test(world: World) -> bool:
        await world.run(f"{BEFORE} mkdir -p node_modules/a; echo dep > node_modules/a/b; ln -s nowhere link")
        first = snapshot(world.root)
        await world.workspace.prepare()
        await world.agent(
            f"echo x >> src/app.py; rm -rf node_modules run.sh; git init -q; git add -A; {COMMIT}; mkdir -p dist/x; "
            "echo x > dist/x/y; chmod 500 dist/x; mkdir n; cd n; git init -q"
        )
        await world.workspace.reset()
        assert snapshot(world.root) == first
        await world.run(f'd=$PWD; cd ..; rm -rf "$d"; ln -s {kept} "$d"')
        await world.workspace.reset()
        assert not world.root.is_symlink()
        return snapshot(world.root) == first

    assert in_world(test, tools=busybox, reusable=True)
    assert (kept / "file").read_text() == "mine"


def test_a_sandbox_without_git_says_what_to_do(tmp_path: Path) -> None:
    """It is an error of its own, with the fix, where nothing can install it."""
    tools = busybox_tools(tmp_path / "bin", git=False)

    async def test(world: World) -> SandboxError:
        with pytest.raises(SandboxError) as raised:
            await world.workspace.prepare()
        return raised.value

    error = in_world(test, tools=tools)
    assert error.code == "sandbox-no-git"
    assert "apt-get install -y git" in error.next_step()


def snapshot(root: Path) -> dict[str, str]:
    """Every path below a folder with what it is."""
    found: dict[str, str] = {}
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        mode = oct(path.lstat().st_mode)
        held = os.readlink(path) if path.is_symlink() else path.read_text() if path.is_file() else ""
        found[name] = f"{mode} {held}"
    return found


HIDING = {
    "a flag that says unchanged": (
        "GIT_DIR=$P/ledger/git GIT_WORK_TREE=$PWD git update-index --assume-unchanged calc.py"
    ),
    "a filter of its own": (
        "cp calc.py $P/orig; mkdir -p $P/ledger/git/info; printf '* filter=x\\n' > $P/ledger/git/info/attributes; "
        'git -C $P/ledger/git config filter.x.clean "cat $P/orig"'
    ),
    "a link to another configuration": "rm -f $P/ledger/git/config; ln -s /dev/null $P/ledger/git/config",
    "times that were": "touch -d @1577836800 calc.py",
}


@pytest.mark.parametrize("how", HIDING)
def test_an_agent_that_knows_the_ledger_does_not_hide_a_change_in_it(how: str) -> None:
    """Flags, filters, configuration and times that it sets say nothing: every file is read anew."""

    async def test(world: World) -> Changes:
        await world.run("printf 'SAFE = 1\\n' > calc.py; touch -d @1577836800 calc.py")
        await world.workspace.prepare()
        private = world.sandbox.private_dir
        await world.agent(f"P={private}; {HIDING[how]}; printf 'EVIL = 1\\n' > calc.py; touch -d @1577836800 calc.py")
        return await world.workspace.changes()

    changes = in_world(test)
    assert changes.problem is not None or changes.stored.generated_files == {"calc.py": "EVIL = 1\n"}


def test_two_changes_within_one_second_are_two() -> None:
    """A file of the same size and time is not taken for the one that was there."""

    async def test(world: World) -> Changes:
        await world.run("printf 'SAFE = 1\\n' > calc.py")
        await world.workspace.prepare()
        for text in ("SAFE = 2", "EVIL = 1"):
            await world.agent(f"printf '{text}\\n' > calc.py; touch -d @1577836800 calc.py")
        return await world.workspace.changes()

    assert in_world(test).stored.generated_files == {"calc.py": "EVIL = 1\n"}


def test_names_that_look_like_one_another_are_two_files() -> None:
    """A byte that is no text, and a name that spells such a byte out, do not take each other's place."""

    async def test(world: World) -> Changes:
        await world.workspace.prepare()
        await world.agent("echo EVIL > '\\xe9.py'; printf 'ok\\n' > $'\\xe9.py'")
        return await world.workspace.changes()

    assert in_world(test).stored.generated_files == {"\\xe9.py": "ok\n", "\\\\xe9.py": "EVIL\n"}


@pytest.mark.parametrize(
    ("target", "unread"), [(".cache/calc.py", True), ("/etc/hostname", True), ("../x", True), ("kept.py", False)]
)
def test_a_link_to_what_is_not_looked_at_leaves_it_open_what_it_shows(target: str, unread: bool) -> None:
    """What stands behind it may be anything, so that no absence is proved; a link within the workdir hides nothing."""

    async def test(world: World) -> Changes:
        await world.run("echo kept > kept.py")
        await world.workspace.prepare()
        await world.agent(f"mkdir -p .cache; echo EVIL > .cache/calc.py; ln -sf {target} calc.py")
        return await world.workspace.changes()

    assert ("calc.py" in in_world(test).unread) is unread


@pytest.mark.slow
def test_an_agent_that_makes_very_many_files_does_not_stop_the_others() -> None:
    """Tens of thousands of changed paths are put together in a moment, and more than are kept is said."""

    async def test(world: World) -> Changes:
        await world.workspace.prepare()
        await world.agent(
            "for d in $(seq 30); do mkdir m$d; (cd m$d; for i in $(seq 1000); do echo x > $i; done); done"
        )
        return await world.workspace.changes()

    changes = in_world(test)
    assert changes.gap is not None
    assert len(changes.stored.generated_files) <= MAX_PATHS
