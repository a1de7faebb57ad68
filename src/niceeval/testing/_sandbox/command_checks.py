"""Checks of how a command is started, and how its end is told."""

from __future__ import annotations

import asyncio

from niceeval._base.errors import SandboxCommandError
from niceeval.testing._sandbox.check import Bench, SandboxCheck, check, expect, expect_error, expect_same

AWKWARD_ARGUMENTS = (
    "",
    " ",
    "two words",
    "'single'",
    '"double"',
    "back\\slash",
    "\\n",
    "line\nbreak\n",
    "\ttab",
    "-n",
    "--",
    "$HOME",
    "$(id)",
    "`id`",
    "*",
    "a;b&c|d<e>f",
    "!history",
    "#no comment",
    "{a,b}",
    "~",
    "%s%n",
    "ünïcödé 中文 🙂",
    "\x01\x1b[31m\x7f",
    "",
)
_TELL = 'for a in "$@"; do printf "%s\\001|" "$a"; done'
SIGNALS = {"TERM": 15, "KILL": 9, "SEGV": 11, "INT": 2}


@check("argv-exact", "arguments arrive exactly, whatever characters they hold", "pass the vector on; quote nothing")
async def argv_exact(bench: Bench) -> None:
    result = await bench.sandbox.run_command("sh", ["-c", _TELL, "sh", *AWKWARD_ARGUMENTS])
    expect_same(result.stdout.split("\x01|")[:-1], list(AWKWARD_ARGUMENTS), "what the program was given")


@check("argv-program", "the program's own name may hold spaces and quotes", "pass the vector on; quote nothing")
async def argv_program(bench: Bench) -> None:
    name = "odd 'name' $x"
    await bench.said('printf "#!/bin/sh\\necho ran \\"\\$1\\"\\n" > "$1" && chmod 755 "$1"', name)
    where = f"{bench.sandbox.workdir}/{bench.folder}/{name}"
    expect_same((await bench.sandbox.run_command(where, ["a b"])).stdout, "ran a b\n", "what it prints")


@check("argv-many", "a thousand arguments are fine", "do not put them into one shell text")
async def argv_many(bench: Bench) -> None:
    result = await bench.sandbox.run_command("sh", ["-c", "echo $#", "sh", *(str(n) for n in range(1000))])
    expect_same(result.stdout, "1000\n", "their number")


@check("argv-long", "an argument of 100 KB is fine", "pass it on as it is")
async def argv_long(bench: Bench) -> None:
    result = await bench.sandbox.run_command("sh", ["-c", 'printf %s "$1" | wc -c', "sh", "x" * 100_000])
    expect_same(result.stdout.strip(), "100000", "its length")


@check("argv-nul", "a NUL in an argument is a SandboxCommandError", "use building.checked_command")
async def argv_nul(bench: Bench) -> None:
    await expect_error(bench.sandbox.run_command("echo", ["a\0b"]), SandboxCommandError, "an argument with a NUL")
    await expect_error(bench.sandbox.run_command("ec\0ho"), SandboxCommandError, "a program with a NUL")


@check("start-missing", "a program that is not there is a SandboxCommandError", "tell it from an exit code of 127")
async def start_missing(bench: Bench) -> None:
    await expect_error(bench.sandbox.run_command("niceeval-kit-no-such"), SandboxCommandError, "an unknown program")
    await expect_error(bench.sandbox.run_command("/no/such/program"), SandboxCommandError, "an unknown path")


@check("start-refused", "a file that may not be executed is a SandboxCommandError", "tell it from an exit code of 126")
async def start_refused(bench: Bench) -> None:
    await bench.said("echo 'echo ran' > plain && chmod 644 plain")
    where = f"{bench.sandbox.workdir}/{bench.folder}/plain"
    await expect_error(bench.sandbox.run_command(where), SandboxCommandError, "a program of mode 0644")
    await expect_error(bench.sandbox.run_command(bench.sandbox.workdir), SandboxCommandError, "a folder as a program")


@check("start-codes", "a command that ends with 126 or 127 itself is a result", "look at how it started, not at codes")
async def start_codes(bench: Bench) -> None:
    for code in (126, 127):
        expect_same((await bench.sh(f"exit {code}")).exit_code, code, "its exit code")


@check("cwd-default", "commands run in the workdir", "set it for every command")
async def cwd_default(bench: Bench) -> None:
    seen = (await bench.sandbox.run_command("pwd")).stdout
    expect_same(seen, f"{bench.sandbox.workdir}\n", "what pwd prints")


@check("cwd-given", "cwd may be relative to the workdir, or absolute, or hold spaces", "resolve it against workdir")
async def cwd_given(bench: Bench) -> None:
    await bench.said('mkdir "sub folder"')
    wanted = f"{bench.sandbox.workdir}/{bench.folder}/sub folder"
    for cwd in (bench.path("sub folder"), wanted):
        expect_same((await bench.sandbox.run_command("pwd", cwd=cwd)).stdout, f"{wanted}\n", f"pwd with cwd={cwd!r}")


@check("cwd-missing", "a cwd that is not there is a SandboxCommandError", "never run it somewhere else")
async def cwd_missing(bench: Bench) -> None:
    await expect_error(
        bench.sandbox.run_command("pwd", cwd=bench.path("no")), SandboxCommandError, "a cwd that is not there"
    )


@check("exit-code", "a command's exit code is a result, never an error", "hand it on")
async def exit_code(bench: Bench) -> None:
    seen = [(await bench.sh(f"exit {code}")).exit_code for code in (0, 1, 3, 255)]
    expect_same(seen, [0, 1, 3, 255], "the exit codes")


@check("exit-signal", "death by signal n is exit code 128 + n", "use building.exit_code_of")
async def exit_signal(bench: Bench) -> None:
    for name, number in SIGNALS.items():
        result = await bench.sh(f"kill -{name} $$; sleep 5")
        expect_same((result.exit_code, result.timed_out), (128 + number, False), f"the end by SIG{name}")


@check("result-plain", "a result of a plain command is not cut, not timed out, and took some time", "fill every field")
async def result_plain(bench: Bench) -> None:
    result = await bench.sh("sleep 0.2")
    flags = (result.truncated, result.timed_out, result.oom_killed)
    expect_same(flags, (False, False, False), "truncated, timed_out, oom_killed")
    expect(0.1 < result.duration < 60, f"duration is {result.duration}, for `sleep 0.2`: it is in seconds")


@check("shell-bash", "run_shell is bash", "run `bash -c` with the script as one argument", needs=("bash",))
async def shell_bash(bench: Bench) -> None:
    script = 'a=(x "y z"); [[ ${a[1]} == y* ]] && echo "${#a[@]}" "${a[1]}" | cat && echo {1..3}'
    expect_same((await bench.sandbox.run_shell(script)).stdout, "2 y z\n1 2 3\n", "what it prints")


@check("shell-plain", "run_shell takes a script of many lines, as bash -c does", "change no options of the shell")
async def shell_plain(bench: Bench) -> None:
    script = "false | true\necho $?\nfalse\ncat <<'END'\nit's $HOME\nEND\necho \"$UNSET_BY_KIT.\"\n# end"
    result = await bench.sandbox.run_shell(script)
    expect_same((result.stdout, result.exit_code), ("0\nit's $HOME\n.\n", 0), "its output and exit code")


@check("shell-fails", "a script that fails, or is none, is a result", "hand the exit code on")
async def shell_fails(bench: Bench) -> None:
    result = await bench.sandbox.run_shell("if then (")
    expect(result.exit_code != 0 and result.stderr != "", f"a broken script gave {result}")
    expect_same((await bench.sandbox.run_shell("no-such-program-of-kit")).exit_code, 127, "an unknown program's code")


@check("shell-long", "a script of 100 KB is fine", "pass it on as it is")
async def shell_long(bench: Bench) -> None:
    result = await bench.sandbox.run_shell(": 'padding'\n" * 8500 + "echo end")
    expect_same(result.stdout, "end\n", "what it prints")


@check("shell-options", "run_shell takes cwd, env and stdin as run_command does", "share one implementation")
async def shell_options(bench: Bench) -> None:
    script = 'pwd; echo "$KIT"; cat; echo err >&2; exit 4'
    result = await bench.sandbox.run_shell(script, cwd=bench.folder, env={"KIT": "k"}, stdin="in")
    wanted = (f"{bench.sandbox.workdir}/{bench.folder}\nk\nin", "err\n", 4)
    expect_same((result.stdout, result.stderr, result.exit_code), wanted, "the result")


@check("shell-apart", "nothing of one command's shell is left for the next", "start each by itself")
async def shell_apart(bench: Bench) -> None:
    await bench.sandbox.run_shell("cd /; export KIT_LEFT=1; kit_left() { :; }")
    result = await bench.sandbox.run_shell('pwd; echo "[$KIT_LEFT]"')
    expect_same(result.stdout, f"{bench.sandbox.workdir}\n[]\n", "what the next one sees")


@check("env-given", "variables arrive exactly, for this command only", "add them to the environment; quote nothing")
async def env_given(bench: Bench) -> None:
    values = {"KIT_A": "", "KIT_B": "a=b c", "KIT_C": "line\nbreak $HOME 'q' \"d\"", "KIT_D": "中文🙂"}
    script = 'printf "%s|" "$KIT_A" "$KIT_B" "$KIT_C" "$KIT_D"; printf "%s" "${KIT_A+set}"'
    result = await bench.sandbox.run_command("sh", ["-c", script], env=values)
    expect_same(result.stdout, "|".join(values.values()) + "|set", "what the command sees")
    after = await bench.sandbox.run_command("sh", ["-c", 'printf "[%s]" "$KIT_B"'])
    expect_same(after.stdout, "[]", "what the next command sees")


@check("env-refused", "a variable that can be none is a SandboxCommandError", "use building.checked_command")
async def env_refused(bench: Bench) -> None:
    for env in ({"A": "x\0y"}, {"A\0B": "x"}, {"A=B": "x"}, {"": "x"}):
        await expect_error(bench.sandbox.run_command("true", env=env), SandboxCommandError, f"env={env!r}")


@check("env-usual", "PATH and HOME are set; HOME is a folder that commands may write in", "set both where they are not")
async def env_usual(bench: Bench) -> None:
    await bench.said('test -n "$PATH" && test -d "$HOME" && echo x > "$HOME/.kit" && rm "$HOME/.kit"')


@check("env-over", "a given variable replaces the sandbox's own", "let the call's win")
async def env_over(bench: Bench) -> None:
    result = await bench.sandbox.run_command("sh", ["-c", 'echo "$HOME"'], env={"HOME": "/kit"})
    expect_same(result.stdout, "/kit\n", "HOME")


@check("stdin-none", "without stdin a command reads the end at once", "give it /dev/null")
async def stdin_none(bench: Bench) -> None:
    result = await bench.sandbox.run_command("cat", timeout=20)
    expect_same((result.stdout, result.exit_code, result.timed_out), ("", 0, False), "what `cat` gives")


@check("stdin-text", "stdin arrives as it was given, and ends", "write it, and close it")
async def stdin_text(bench: Bench) -> None:
    for text in ("", "one\ntwo", "ü 中 🙂\r\n"):
        result = await bench.sandbox.run_command("cat", stdin=text, timeout=20)
        expect_same((result.stdout, result.timed_out), (text, False), f"what `cat` makes of {text!r}")


@check("stdin-bytes", "stdin may be any bytes", "write them as they are")
async def stdin_bytes(bench: Bench) -> None:
    data = bytes(range(256)) * 40
    await bench.sandbox.run_command("sh", ["-c", "cat > got"], cwd=bench.folder, stdin=data, timeout=20)
    expect((await bench.sandbox.read_bytes(bench.path("got"))) == data, "the bytes that arrived are others")


@check("stdin-large", "eight MB of stdin arrive, and come back as output meanwhile", "write and read at the same time")
async def stdin_large(bench: Bench) -> None:
    data = b"0123456789abcde\n" * (512 * 1024)
    told = 0

    def count(text: str) -> None:
        nonlocal told
        told += len(text)

    result = await bench.sandbox.run_command("cat", stdin=data, on_stdout=count, timeout=60)
    expect_same((told, result.timed_out), (len(data), False), "the number of bytes that came back")


@check("stdin-unread", "a command that does not read its stdin ends as ever", "do not mind a closed pipe")
async def stdin_unread(bench: Bench) -> None:
    result = await bench.sandbox.run_command("sh", ["-c", "exit 3"], stdin=b"x" * 4_000_000, timeout=30)
    expect_same((result.exit_code, result.timed_out), (3, False), "its end")


@check("at-once", "sixteen commands run at the same time, each with its own output", "keep no state of a command")
async def at_once(bench: Bench) -> None:
    async def one(number: int) -> str:
        script = 'echo "$1"; cat; echo "$KIT" >&2; sleep 0.1; echo "$1"'
        env = {"KIT": f"e{number}"}
        result = await bench.sandbox.run_command(
            "sh", ["-c", script, "sh", f"n{number}"], env=env, stdin=f"i{number}\n"
        )
        return result.stdout + result.stderr

    seen = await asyncio.gather(*(one(number) for number in range(16)))
    expect_same(list(seen), [f"n{n}\ni{n}\nn{n}\ne{n}\n" for n in range(16)], "what they printed")


@check("at-once-files", "files are written and read while commands run", "keep no state of a call")
async def at_once_files(bench: Bench) -> None:
    async def one(number: int) -> bool:
        path = bench.path(f"file-{number}")
        await bench.sandbox.write_files({path: f"content {number}"})
        return await bench.sandbox.read_file(path) == f"content {number}"

    sleeping = asyncio.create_task(bench.sandbox.run_command("sleep", ["0.3"]))
    seen = await asyncio.gather(*(one(number) for number in range(20)))
    expect(all(seen), f"{seen.count(False)} of 20 files were read with another content")
    expect_same((await sleeping).exit_code, 0, "the exit code of the command")


@check("user-ordinary", "commands do not run as root", "run them as a user; root=True is for root", needs=("non_root",))
async def user_ordinary(bench: Bench) -> None:
    expect((await bench.said("id -u")).strip() != "0", "id -u says 0")


@check("user-root", "root=True runs one command as root, and only that", "raise it by the backend", needs=("root",))
async def user_root(bench: Bench) -> None:
    before = await bench.said("id -u")
    result = await bench.sandbox.run_command("id", ["-u"], root=True)
    expect_same(result.stdout, "0\n", "what `id -u` prints")
    shell = await bench.sandbox.run_shell('id -u; pwd; echo "$KIT"', root=True, env={"KIT": "k"}, cwd=bench.folder)
    wanted = f"0\n{bench.sandbox.workdir}/{bench.folder}\nk\n"
    expect_same(shell.stdout, wanted, "what a script of root prints")
    expect_same(await bench.said("id -u"), before, "what `id -u` prints afterwards")


COMMAND_CHECKS: tuple[SandboxCheck, ...] = tuple(
    value for value in globals().values() if isinstance(value, SandboxCheck)
)
