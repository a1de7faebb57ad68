"""Checks of whole folders, on their way in and on their way out."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

from niceeval._base.errors import SandboxFileError
from niceeval.testing._sandbox.check import Bench, SandboxCheck, check, expect_error, expect_same
from niceeval.testing._sandbox.file_checks import ALL_BYTES

SPARSE = 64 * 1024 * 1024
"""Bytes that a file with a hole claims to have."""
_NAMES = ("with space", "ünï-中🙂", "quote's", "$(id)", "-dash", "a" * 150)


def _made(top: Path, files: dict[str, bytes | str]) -> Path:
    for name, content in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return top


def _tree(top: Path) -> dict[str, bytes | str]:
    """Every path below a folder: a file's bytes, a link's target after `->`, `folder` for a folder."""
    found: dict[str, bytes | str] = {}
    for folder, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = Path(folder, name)
            key = path.relative_to(top).as_posix()
            if path.is_symlink():
                found[key] = f"-> {os.readlink(path)}"
            else:
                found[key] = "folder" if path.is_dir() else path.read_bytes()
    return found


async def _upload(bench: Bench, files: dict[str, bytes | str], ignore: tuple[str, ...] = ()) -> None:
    source = await asyncio.to_thread(_made, bench.host / "source", files)
    await bench.sandbox.upload_directory(source, bench.path("in"), ignore=ignore)


async def _downloaded(bench: Bench) -> dict[str, bytes | str]:
    await bench.sandbox.download_directory(bench.path("out"), bench.host / "got")
    return await asyncio.to_thread(_tree, bench.host / "got")


@check("upload-tree", "a folder's files arrive byte for byte, in their folders", "send one archive")
async def upload_tree(bench: Bench) -> None:
    await _upload(bench, {"top": ALL_BYTES, "a/b/c/leaf": "leaf", "a/empty": ""})
    expect_same(await bench.sandbox.read_bytes(bench.path("in/top")), ALL_BYTES, "the bytes of one")
    expect_same(await bench.said("cat in/a/b/c/leaf; find in -type f | wc -l | tr -d ' '"), "leaf3\n", "the rest")


@check("upload-default", "without target_dir a folder's content goes into the workdir", "target_dir is workdir then")
async def upload_default(bench: Bench) -> None:
    sandbox = bench.sandbox
    source = await asyncio.to_thread(_made, bench.host / "source", {f"{bench.folder}/plain": "x"})
    await sandbox.upload_directory(str(source))
    expect_same(await bench.said("cat plain"), "x", "the content")


@check("upload-empty", "empty folders arrive, and an empty folder is no error", "send folders too")
async def upload_empty(bench: Bench) -> None:
    (bench.host / "source/empty/inner").mkdir(parents=True)
    await _upload(bench, {})
    await bench.said("test -d in/empty/inner")
    await bench.sandbox.upload_directory(bench.host / "source/empty/inner", bench.path("made"))
    await bench.said("test -d made")


@check("upload-modes", "executable files stay executable, and others do not become so", "keep modes", needs=("modes",))
async def upload_modes(bench: Bench) -> None:
    source = _made(bench.host / "source", {"run": "#!/bin/sh\necho ran\n", "plain": "x"})
    (source / "run").chmod(0o755)
    (source / "plain").chmod(0o644)
    await _upload(bench, {})
    expect_same(await bench.said("in/run; test -x in/plain || echo plain"), "ran\nplain\n", "what runs")


@check("upload-links", "links arrive as links, also those that lead out", "never follow them", needs=("symlinks",))
async def upload_links(bench: Bench) -> None:
    _made(bench.host, {"secret": "of the host", "source/a/real": "real"})
    links = {"good": "a/real", "a/up": "../a", "out": str(bench.host / "secret"), "dangling": "nowhere"}
    for name, target in links.items():
        (bench.host / "source" / name).symlink_to(target)
    await _upload(bench, {})
    seen = {name: (await bench.said('readlink "in/$1"', name)).strip() for name in links}
    expect_same(seen, links, "where the links lead")
    expect_same(await bench.said("cat in/good in/a/up/real"), "realreal", "what they lead to")


@check("upload-special", "pipes and sockets of this machine are left out, and do not hold it up", "send regular files")
async def upload_special(bench: Bench) -> None:
    (bench.host / "source").mkdir()
    os.mkfifo(bench.host / "source/pipe")
    await _upload(bench, {"file": "x"})
    expect_same(await bench.said("ls in"), "file\n", "what arrived")


@check("upload-ignored", "what a pattern ignores does not arrive, at any depth", "use building's Ignored")
async def upload_ignored(bench: Bench) -> None:
    files: dict[str, bytes | str] = {
        "keep.py": "",
        "gone.pyc": "",
        "a/gone.pyc": "",
        "node_modules/x": "",
        "a/node_modules/y/z": "",
        "a/node_modules.txt": "",
        "b/node_modules_not/x": "",
        ".git/config": "",
        "a/build": "a file",
        "c/build/out": "",
    }
    await _upload(bench, files, ("node_modules/", "*.pyc", ".git/", "build/"))
    seen = sorted((await bench.said("cd in && find . -type f")).split())
    wanted = ["./a/build", "./a/node_modules.txt", "./b/node_modules_not/x", "./keep.py"]
    expect_same(seen, wanted, "what arrived")


@check("upload-names", "names may hold spaces, quotes, unicode", "send them in an archive (PAX)")
async def upload_names(bench: Bench) -> None:
    await _upload(bench, {f"{name}/{name}": name for name in _NAMES})
    for name in _NAMES:
        expect_same(await bench.sandbox.read_file(bench.path(f"in/{name}/{name}")), name, f"the content of {name!r}")


@check("upload-merges", "what is there already stays, and files of the same name are replaced", "remove nothing")
async def upload_merges(bench: Bench) -> None:
    await bench.said("mkdir -p in/a && echo old > in/a/same && echo stays > in/a/other")
    await _upload(bench, {"a/same": "new"})
    expect_same(await bench.said("cat in/a/same in/a/other"), "newstays\n", "the contents")


@check(
    "upload-owner", "what arrives belongs to the user that commands run as", "set it in the archive", needs=("owners",)
)
async def upload_owner(bench: Bench) -> None:
    await _upload(bench, {"a/file": "x"})
    user = (await bench.said("id -u")).strip()
    owners = [owner for _, owner in await bench.listed("in", "in/a", "in/a/file")]
    expect_same(owners, [user] * 3, "the owners")
    await bench.said("echo more >> in/a/file && touch in/a/beside in/beside && rm -r in")


@check("upload-missing", "a folder that is not there, or a file, is a SandboxFileError", "look at it first")
async def upload_missing(bench: Bench) -> None:
    sandbox = bench.sandbox
    _made(bench.host, {"file": "x"})
    await expect_error(sandbox.upload_directory(bench.host / "no"), SandboxFileError, "a folder that is not there")
    await expect_error(sandbox.upload_directory(bench.host / "file"), SandboxFileError, "a file")


@check("upload-many", "a thousand files go in one call", "send one archive")
async def upload_many(bench: Bench) -> None:
    await _upload(bench, {f"d{number % 30}/{number}": str(number) for number in range(1000)})
    expect_same((await bench.said("find in -type f | wc -l")).strip(), "1000", "the number of files")


@check("upload-sparse", "a file of 64 MB with a hole in it arrives in its size", "stream it; keep nothing in memory")
async def upload_sparse(bench: Bench) -> None:
    await asyncio.to_thread(_sparse, bench.host / "source")
    await _upload(bench, {})
    seen = await bench.said("wc -c < in/sparse | tr -d ' '; head -c 5 in/sparse; tail -c 3 in/sparse; rm in/sparse")
    expect_same(seen, f"{SPARSE}\nbeginend", "its size and its ends")


def _sparse(folder: Path) -> None:
    folder.mkdir()
    with open(folder / "sparse", "wb") as file:
        file.write(b"begin")
        file.seek(SPARSE - 3)
        file.write(b"end")


@check("download-tree", "a folder's files come byte for byte, with empty folders", "fetch one archive")
async def download_tree(bench: Bench) -> None:
    await bench.sandbox.write_files({bench.path("out/bytes"): ALL_BYTES, bench.path("out/a/b"): "b"})
    await bench.said("mkdir -p out/empty")
    wanted = {"bytes": ALL_BYTES, "a": "folder", "a/b": b"b", "empty": "folder"}
    expect_same(await _downloaded(bench), wanted, "what came")


@check("download-names", "names may hold spaces, quotes, unicode", "fetch them in an archive (PAX)")
async def download_names(bench: Bench) -> None:
    await bench.sandbox.write_files({bench.path(f"out/{name}"): name for name in _NAMES})
    expect_same(await _downloaded(bench), {name: name.encode() for name in _NAMES}, "what came")


@check("download-modes", "executable files stay executable", "keep modes", needs=("modes",))
async def download_modes(bench: Bench) -> None:
    await bench.said("mkdir out && echo x > out/run && chmod 755 out/run && echo x > out/plain && chmod 444 out/plain")
    await _downloaded(bench)
    seen = [bool((bench.host / "got" / name).stat().st_mode & 0o100) for name in ("run", "plain")]
    expect_same(seen, [True, False], "whether they may be executed")


@check("download-links", "links inside the folder come as links", "do not follow them", needs=("symlinks",))
async def download_links(bench: Bench) -> None:
    await bench.said("mkdir -p out/a && echo real > out/a/real && ln -s a/real out/good && ln -s ../a out/a/up")
    wanted = {"a": "folder", "a/real": b"real\n", "good": "-> a/real", "a/up": "-> ../a"}
    expect_same(await _downloaded(bench), wanted, "what came")


@check(
    "download-escapes",
    "links that lead out of the folder are left out",
    "use archives.unpack",
    needs=("symlinks",),
)
async def download_escapes(bench: Bench) -> None:
    script = """mkdir -p out/a && echo x > out/file && cd out &&
        ln -s /etc/passwd absolute && ln -s ../.. up && ln -s ../../.. a/far && ln -s a/../../x sly && ln -s / root &&
        ln -s .. a/top && ln -s a/top/../.. chain"""
    await bench.said(script)
    wanted = {"a": "folder", "file": b"x\n", "a/top": "-> .."}
    expect_same(await _downloaded(bench), wanted, "what came")


@check("download-hard-links", "a file with two names comes under both", "copy what an archive calls a link")
async def download_hard_links(bench: Bench) -> None:
    await bench.said("mkdir -p out/sub && echo x > out/one && ln out/one out/sub/two")
    wanted = {"one": b"x\n", "sub": "folder", "sub/two": b"x\n"}
    expect_same(await _downloaded(bench), wanted, "what came")


@check("download-outside", "nothing is written through a link that is on this machine already", "follow no links")
async def download_outside(bench: Bench) -> None:
    _made(bench.host, {"other/file": "mine"})
    (bench.host / "got").mkdir()
    (bench.host / "got/sub").symlink_to(bench.host / "other")
    (bench.host / "got/leaf").symlink_to(bench.host / "other/file")
    await bench.sandbox.write_files({bench.path("out/sub/file"): "theirs", bench.path("out/leaf"): "theirs"})
    with contextlib.suppress(SandboxFileError):  # Refusing the whole is as safe.
        await bench.sandbox.download_directory(bench.path("out"), bench.host / "got")
    expect_same((bench.host / "other/file").read_text(), "mine", "a file outside the folder")
    expect_same(sorted(os.listdir(bench.host / "other")), ["file"], "the files outside the folder")


@check("download-special", "pipes are left out, and do not hold it up", "take regular files, folders and links")
async def download_special(bench: Bench) -> None:
    await bench.said("mkdir out && echo x > out/file && mkfifo out/pipe")
    expect_same(await _downloaded(bench), {"file": b"x\n"}, "what came")


@check("download-again", "files that are there already are replaced, and others stay", "write over them")
async def download_again(bench: Bench) -> None:
    _made(bench.host / "got", {"same": "a long old content", "other": "stays"})
    await bench.sandbox.write_files({bench.path("out/same"): "new"})
    expect_same(await _downloaded(bench), {"same": b"new", "other": b"stays"}, "what is there then")


@check("download-missing", "a folder that is not there, or a file, is a SandboxFileError", "look at it first")
async def download_missing(bench: Bench) -> None:
    await bench.said("echo x > file")
    for name in ("no", "file"):
        fetching = bench.sandbox.download_directory(bench.path(name), bench.host / name)
        await expect_error(fetching, SandboxFileError, f"download_directory({name!r})")


@check("download-large", "a file of 32 MB comes whole", "stream it; keep nothing in memory")
async def download_large(bench: Bench) -> None:
    await bench.said("mkdir out && head -c 33554432 /dev/zero | tr '\\0' x > out/large && echo end >> out/large")
    await bench.sandbox.download_directory(bench.path("out"), bench.host / "got")
    large = bench.host / "got/large"
    expect_same(large.stat().st_size, 33_554_436, "its size")
    expect_same((await asyncio.to_thread(large.read_bytes))[-6:], b"xxend\n", "its end")


@check(
    "round-trip",
    "a folder that goes in and comes out is the same",
    "keep bytes, links and folders",
    needs=("symlinks",),
)
async def round_trip(bench: Bench) -> None:
    source = _made(bench.host / "source", {"a/bytes": ALL_BYTES, "中/b": "", "c d/e": "x" * 100_000})
    (source / "link").symlink_to("a/bytes")
    (source / "empty").mkdir()
    await bench.sandbox.upload_directory(source, bench.path("out"))
    expect_same(await _downloaded(bench), _tree(source), "what came back")


TRANSFER_CHECKS: tuple[SandboxCheck, ...] = tuple(
    value for value in globals().values() if isinstance(value, SandboxCheck)
)
