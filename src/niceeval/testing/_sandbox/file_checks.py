"""Checks of where things are, and of single files."""

from __future__ import annotations

import hashlib
import posixpath

from niceeval._base.errors import SandboxFileError
from niceeval.testing._sandbox.check import Bench, SandboxCheck, check, expect, expect_error, expect_same

ALL_BYTES = bytes(range(256)) * 3 + b"\r\n\n\r\0end"
LARGE = 12 * 1024 * 1024
"""Bytes of a file that is large for one call."""
AWKWARD_NAMES = (
    "with space",
    " edges ",
    "quote's",
    'double"quote',
    "back\\slash",
    "line\nbreak",
    "tab\there",
    "-dash",
    "--help",
    "$(touch gone)",
    "`id`",
    "$HOME",
    "star*?[a]",
    "semi;colon&and|pipe",
    "#hash!",
    "~tilde",
    "percent%20",
    "ünïcödé",
    "中文-日本",
    "e\u0301 combining",
    "🙂",
    ".hidden",
    "{a,b}",
    "n" * 200,
)


@check("workdir-absolute", "workdir is an absolute path without .. in it", "give the real path")
async def workdir_absolute(bench: Bench) -> None:
    workdir = bench.sandbox.workdir
    expect(workdir.startswith("/"), f"workdir is {workdir!r}")
    expect_same(posixpath.normpath(workdir), workdir, "workdir, normalised,")


@check("workdir-empty", "a new sandbox's workdir is there, and empty", "make it before the sandbox is given out")
async def workdir_empty(bench: Bench) -> None:
    sandbox = await bench.fresh()
    result = await sandbox.run_command("ls", ["-A"])
    expect_same((result.exit_code, result.stdout), (0, ""), "what `ls -A` gives there")


@check("workdir-own", "commands may make and remove files in the workdir", "give it to the user that commands run as")
async def workdir_own(bench: Bench) -> None:
    await bench.said('touch "$1/.kit-own" && rm "$1/.kit-own"', bench.sandbox.workdir)


@check("id-given", "sandbox_id is a text, the same whenever it is asked", "give the backend's own id")
async def id_given(bench: Bench) -> None:
    first, second = bench.sandbox.sandbox_id, bench.sandbox.sandbox_id
    expect(bool(first) and first == second, f"it is {first!r}, then {second!r}")


@check("private-outside", "private_dir is absolute, there, and not in the workdir", "put it beside the workdir")
async def private_outside(bench: Bench) -> None:
    private, workdir = bench.sandbox.private_dir, bench.sandbox.workdir
    expect(private.startswith("/") and not f"{private}/".startswith(f"{workdir}/"), f"it is {private!r}")
    expect(not f"{workdir}/".startswith(f"{private}/"), f"the workdir {workdir!r} is in it: {private!r}")
    await bench.said('test -d "$1"', private)


@check("private-own", "commands may write in private_dir", "give it to the user that commands run as")
async def private_own(bench: Bench) -> None:
    await bench.said('echo x > "$1/kit-own" && rm "$1/kit-own"', bench.sandbox.private_dir)


@check("private-mode", "nobody else may look into private_dir (mode 0700)", "chmod it", needs=("modes",))
async def private_mode(bench: Bench) -> None:
    expect_same((await bench.listed(bench.sandbox.private_dir))[0][0], "drwx------", "its mode")


@check("path-relative", "a relative path is below the workdir", "resolve it with building.resolve_path")
async def path_relative(bench: Bench) -> None:
    await bench.sandbox.write_files({bench.path("here.txt"): "found"})
    where = f"{bench.sandbox.workdir}/{bench.folder}/here.txt"
    expect_same(await bench.said('cat "$1"', where), "found", "the content of the file below the workdir")
    expect_same(await bench.sandbox.read_file(bench.path("here.txt")), "found", "what read_file gives")


@check("path-absolute", "an absolute path is used as it is", "resolve it with building.resolve_path")
async def path_absolute(bench: Bench) -> None:
    where = f"{bench.sandbox.private_dir}/kit-absolute.txt"
    await bench.sandbox.write_files({where: "found"})
    expect_same(await bench.said('cat "$1"', where), "found", "the content of the file at that path")
    expect_same(await bench.sandbox.read_file(where), "found", "what read_file gives")
    await bench.said('rm "$1"', where)


@check("path-dots", "`a/../b` and `./b` are b", "normalise paths before they are used")
async def path_dots(bench: Bench) -> None:
    await bench.sandbox.write_files({bench.path("none/../b.txt"): "b", f"./{bench.folder}/./c.txt": "c"})
    expect_same(await bench.said("cat b.txt c.txt; test ! -e none"), "bc", "the content of both")


@check("target-relative", "target_dir, when relative, is below the workdir", "resolve it against workdir")
async def target_relative(bench: Bench) -> None:
    await bench.sandbox.write_files({"in/file": "t"}, bench.path("target"))
    expect_same(await bench.said("cat target/in/file"), "t", "the content")


@check("target-absolute", "target_dir, when absolute, is used as it is", "resolve paths against target_dir")
async def target_absolute(bench: Bench) -> None:
    await bench.sandbox.write_files({"file": "t"}, f"{bench.sandbox.workdir}/{bench.folder}/deep/er")
    expect_same(await bench.said("cat deep/er/file"), "t", "the content")


@check("path-nul", "a path with a NUL, or none at all, is a SandboxFileError", "use building.resolve_path")
async def path_nul(bench: Bench) -> None:
    sandbox = bench.sandbox
    for path in ("a\0b", ""):
        await expect_error(sandbox.write_files({path: "x"}), SandboxFileError, f"write_files({path!r})")
        await expect_error(sandbox.read_bytes(path), SandboxFileError, f"read_bytes({path!r})")
        await expect_error(sandbox.file_exists(path), SandboxFileError, f"file_exists({path!r})")


@check(
    "path-awkward", "names may hold spaces, quotes, line breaks, $, unicode", "never build a shell command of a path"
)
async def path_awkward(bench: Bench) -> None:
    files = {bench.path(f"{name}/{name}"): f"<{name}>" for name in AWKWARD_NAMES}
    await bench.sandbox.write_files(files)
    for path, text in files.items():
        expect(await bench.sandbox.file_exists(path), f"file_exists({path!r}) is False")
        expect_same(await bench.sandbox.read_file(path), text, f"the content of {path!r}")
    script = 'for f in * .[!.]*; do printf "%s/" "$f"; done'
    names = sorted((await bench.said(script)).split("/")[:-1])
    expect_same(names, sorted(AWKWARD_NAMES), "the list of names in the sandbox")


@check("path-deep", "forty folders deep is fine", "send paths as tar with long names (PAX)")
async def path_deep(bench: Bench) -> None:
    deep = "/".join(f"folder-{number:02d}" for number in range(40)) + "/leaf"
    await bench.sandbox.write_files({bench.path(deep): "deep"})
    expect_same(await bench.sandbox.read_file(bench.path(deep)), "deep", "the content")


@check("write-bytes", "every byte is written as it was given", "write in binary, never as text")
async def write_bytes(bench: Bench) -> None:
    await bench.sandbox.write_files({bench.path("bytes"): ALL_BYTES})
    expect_same(int(await bench.said("wc -c < bytes")), len(ALL_BYTES), "the size in the sandbox")
    expect_same(await bench.sandbox.read_bytes(bench.path("bytes")), ALL_BYTES, "what comes back")


@check("write-text", "text is written as UTF-8, line ends as they are", "encode it as UTF-8 and write bytes")
async def write_text(bench: Bench) -> None:
    text = "a\r\nü\n中🙂\n"
    await bench.sandbox.write_files({bench.path("text"): text})
    expect_same(await bench.sandbox.read_bytes(bench.path("text")), text.encode(), "the bytes")


@check("write-nothing", "an empty file is made, and no files are no error", "do not leave empty content out")
async def write_nothing(bench: Bench) -> None:
    await bench.sandbox.write_files({})
    await bench.sandbox.write_files({bench.path("empty"): b"", bench.path("empty-text"): ""})
    expect_same(await bench.said("wc -c < empty; wc -c < empty-text"), "0\n0\n", "their sizes")


@check("write-again", "a file that is there gets the new content only", "truncate the file")
async def write_again(bench: Bench) -> None:
    await bench.sandbox.write_files({bench.path("again"): "a long first content"})
    await bench.sandbox.write_files({bench.path("again"): "short"})
    expect_same(await bench.said("cat again"), "short", "the content")


@check("write-mode-new", "a new file has mode 0644", "set the mode, whatever the umask", needs=("modes",))
async def write_mode_new(bench: Bench) -> None:
    await bench.sandbox.write_files({bench.path("new"): "x"})
    expect_same((await bench.listed("new"))[0][0], "-rw-r--r--", "its mode")


@check("write-mode-kept", "a file that is there keeps its mode", "replace the content, not the file", needs=("modes",))
async def write_mode_kept(bench: Bench) -> None:
    await bench.said("echo old > kept && chmod 755 kept")
    await bench.sandbox.write_files({bench.path("kept"): "new"})
    expect_same(
        ((await bench.listed("kept"))[0][0], await bench.said("cat kept")), ("-rwxr-xr-x", "new"), "mode and content"
    )


@check("write-owner", "written files and their folders are the command user's", "chown both", needs=("owners",))
async def write_owner(bench: Bench) -> None:
    await bench.sandbox.write_files({bench.path("a/b/file"): "x"})
    user = (await bench.said("id -u")).strip()
    owners = [owner for _, owner in await bench.listed("a", "a/b", "a/b/file")]
    expect_same(owners, [user] * 3, "the owners of two folders and the file")
    await bench.said("echo more >> a/b/file && touch a/b/beside && rm -r a")


@check("write-many", "five hundred files go in one call", "send one archive")
async def write_many(bench: Bench) -> None:
    files = {bench.path(f"many/{number % 20}/{number}"): str(number) for number in range(500)}
    await bench.sandbox.write_files(files)
    expect_same((await bench.said("find many -type f | wc -l")).strip(), "500", "the number of files")
    expect_same(await bench.said("cat many/19/499"), "499", "the content of one")


@check("write-large", "twelve MB go in and come out as they were", "stream them; set no limit of your own")
async def write_large(bench: Bench) -> None:
    block = b"".join(hashlib.sha256(str(number).encode()).digest() for number in range(32768))
    data = block * (LARGE // len(block))
    await bench.sandbox.write_files({bench.path("large"): data})
    expect_same(int(await bench.said("wc -c < large")), len(data), "the size in the sandbox")
    expect((await bench.sandbox.read_bytes(bench.path("large"))) == data, "the bytes that come back are others")


@check("write-onto-folder", "a file cannot be written where a folder is: SandboxFileError", "do not replace folders")
async def write_onto_folder(bench: Bench) -> None:
    await bench.said("mkdir -p folder && touch folder/kept")
    await expect_error(
        bench.sandbox.write_files({bench.path("folder"): "x"}), SandboxFileError, "write_files onto a folder"
    )
    await bench.said("test -f folder/kept")


@check("write-below-file", "a file cannot be written below a file: SandboxFileError", "report what the system says")
async def write_below_file(bench: Bench) -> None:
    await bench.said("echo kept > file")
    await expect_error(
        bench.sandbox.write_files({bench.path("file/below"): "x"}), SandboxFileError, "write_files below a file"
    )
    expect_same(await bench.said("cat file"), "kept\n", "the content of the file")


@check("write-through-link", "writing to a link writes the file that it leads to", "follow it", needs=("symlinks",))
async def write_through_link(bench: Bench) -> None:
    await bench.said("echo old > real && ln -s real link")
    await bench.sandbox.write_files({bench.path("link"): "new"})
    expect_same(await bench.said("cat real link"), "newnew", "both contents")


@check("read-missing", "reading a file that is not there is a SandboxFileError", "never give empty content")
async def read_missing(bench: Bench) -> None:
    await expect_error(bench.sandbox.read_file(bench.path("no")), SandboxFileError, "read_file of a missing file")
    await expect_error(bench.sandbox.read_bytes(bench.path("no/no")), SandboxFileError, "read_bytes of a missing file")


@check("read-folder", "reading a folder is a SandboxFileError", "look at what it is first")
async def read_folder(bench: Bench) -> None:
    await bench.said("mkdir -p folder")
    await expect_error(bench.sandbox.read_file(bench.path("folder")), SandboxFileError, "read_file of a folder")


@check("read-pipe", "reading a named pipe is a SandboxFileError, and does not wait", "read regular files only")
async def read_pipe(bench: Bench) -> None:
    await bench.said("mkfifo pipe")
    await expect_error(bench.sandbox.read_bytes(bench.path("pipe")), SandboxFileError, "read_bytes of a pipe")


@check("read-bytes", "what a command wrote is read byte for byte", "read in binary; a command's output is cut")
async def read_bytes(bench: Bench) -> None:
    await bench.said(r"printf 'a\000b\377\r\nc' > made")
    expect_same(await bench.sandbox.read_bytes(bench.path("made")), b"a\0b\xff\r\nc", "the bytes")


@check("read-text", "read_file gives UTF-8, with a sign for what is none, and keeps line ends", "decode with replace")
async def read_text(bench: Bench) -> None:
    await bench.sandbox.write_files({bench.path("text"): "ü\r\n".encode() + b"\xff!\n"})
    expect_same(await bench.sandbox.read_file(bench.path("text")), "ü\r\n\ufffd!\n", "the text")


@check("read-empty", "an empty file reads as nothing", "tell an empty file from a missing one")
async def read_empty(bench: Bench) -> None:
    await bench.said(": > empty")
    expect_same(await bench.sandbox.read_bytes(bench.path("empty")), b"", "the bytes")


@check("read-link", "reading a link reads what it leads to", "follow links", needs=("symlinks",))
async def read_link(bench: Bench) -> None:
    await bench.said("mkdir sub && echo real > sub/real && ln -s sub/real link && ln -s sub folder")
    expect_same(await bench.sandbox.read_file(bench.path("link")), "real\n", "the text")
    expect_same(await bench.sandbox.read_file(bench.path("folder/real")), "real\n", "the text by the folder's link")


@check("exists", "file_exists knows files and folders, and what is not there", "use test -e")
async def exists(bench: Bench) -> None:
    await bench.said("mkdir folder && echo x > file")
    wanted = {"file": True, "folder": True, "missing": False, "folder/missing": False, "file/below": False}
    seen = {name: await bench.sandbox.file_exists(bench.path(name)) for name in wanted}
    expect_same(seen, wanted, "what it says")


@check("exists-link", "a link exists where what it leads to does", "follow links", needs=("symlinks",))
async def exists_link(bench: Bench) -> None:
    await bench.said("echo x > file && ln -s file good && ln -s nowhere dangling")
    seen = [await bench.sandbox.file_exists(bench.path(name)) for name in ("good", "dangling")]
    expect_same(seen, [True, False], "what it says of a good and of a dangling link")


FILE_CHECKS: tuple[SandboxCheck, ...] = tuple(value for value in globals().values() if isinstance(value, SandboxCheck))
