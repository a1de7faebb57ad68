"""Getting a CLI into a sandbox: look for it, install it where it is not there, and look again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from niceeval._base.errors import AdapterError
from niceeval._base.plain_text import shorten
from niceeval._model.sandbox import CommandResult, Sandbox

PROBE_TIMEOUT: Final = 120.0
"""Seconds that a CLI may take to say its version; some load everything they have for it."""
INSTALL_TIMEOUT: Final = 900.0
"""Seconds that an installation may take; these packages are hundreds of megabytes."""
MAX_SAID: Final = 600
"""Characters of an installer's output that an error quotes."""

NEWEST: Final = "newest"
"""The `version` that means: install the newest one, also where another is there."""

_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)*(?:[-+.]?[0-9A-Za-z][0-9A-Za-z.]*)?")

_PROBE = """
cli=$(command -v -- "$1") || exit 3
printf '%s\\n' "$cli"
"""

_NPM = """
command -v npm >/dev/null || { echo "npm is not in the sandbox" >&2; exit 3; }
mkdir -p "$1" && cd "$1" && export npm_config_cache="$1/.npm" &&
npm install --no-audit --no-fund --no-update-notifier --loglevel=error --prefix "$1" "${@:2}" && rm -rf "$1/.npm"
"""

_PYPI = """
target=$1 minimum=$2
for python in python3 python3.13 python3.12 python3.14 python3.11; do
  if "$python" -c "import sys, venv; sys.exit(sys.version_info < ($minimum))" 2>/dev/null; then
    "$python" -m venv "$target" && exec "$target/bin/python" -m pip install --quiet --no-cache-dir "${@:3}"
    exit 1
  fi
done
command -v uv >/dev/null || { echo "neither Python ${minimum/,/.} nor uv is in the sandbox" >&2; exit 3; }
uv venv --quiet --python "${minimum/,/.}" "$target" &&
exec uv pip install --quiet --python "$target/bin/python" "${@:3}"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CliPackage:
    """A command-line agent as it is published: its `command`, and the `package` in the `registry` that brings it.

    `version_script` is bash that prints the version; the command is in `$cli`. `python`: the oldest Python that a
    package from PyPI needs, such as `"3,12"`.
    """

    name: str
    command: str
    registry: Literal["npm", "pypi"]
    package: str
    version_script: str = '"$cli" --version'
    python: str = "3,11"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledCli:
    """A CLI in a sandbox: the command's absolute path, and the version that it says it is."""

    path: str
    version: str
    installed_now: bool = False


async def ensure_cli(
    sandbox: Sandbox,
    package: CliPackage,
    *,
    version: str | None = None,
    command: str | None = None,
    extra: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> InstalledCli:
    """The CLI, ready in the sandbox.

    `version` None: the one that is there, whichever; the newest is installed where there is none. A number: exactly
    that one, installed beside another. `"newest"`: the newest that the registry has. `command`: a path in the sandbox,
    which is used and never installed. `extra`: packages that are installed with it.

    Raises AdapterError (`cli-missing`, `cli-version`) and SandboxError.
    """
    found = await _probe(sandbox, package, command or package.command, env)
    if command is not None:
        if found is None:
            raise _missing(package, f"{command} is not there", "give the path of the command in the sandbox")
        return _checked(package, found, version, f"{command} is")
    if found is not None and not extra and _fits(found.version, version):
        return found
    target = f"{sandbox.private_dir}/cli/{_folder_name(package, version, extra)}"
    inside = f"{target}/bin/" if package.registry == "pypi" else f"{target}/node_modules/.bin/"
    found = await _probe(sandbox, package, inside + package.command, env)
    if found is not None and (version == NEWEST or _fits(found.version, version)):
        return found
    say(f"installing {package.package} {version or NEWEST}")
    await _install(sandbox, package, target, version, extra, env)
    found = await _probe(sandbox, package, inside + package.command, env)
    if found is None:
        raise _missing(package, f"it has no command {package.command} after installing", "see its documentation")
    checked = _checked(package, found, version, "installed was")
    return InstalledCli(path=checked.path, version=checked.version, installed_now=True)


async def _probe(
    sandbox: Sandbox, package: CliPackage, command: str, env: Mapping[str, str] | None
) -> InstalledCli | None:
    script = f"set -- {_quoted(command)}\n{_PROBE}\n{package.version_script}"
    result = await sandbox.run_shell(script, env=env, timeout=PROBE_TIMEOUT)
    path, _, said = result.stdout.partition("\n")
    if result.exit_code == 3 and not path:
        return None
    version = _VERSION.search(said)
    if version is None:
        raise _missing(
            package, f"{command} did not say its version: {_said(result)}", f"run `{command} --version` in the sandbox"
        )
    return InstalledCli(path=path, version=version[0])


async def _install(
    sandbox: Sandbox,
    package: CliPackage,
    target: str,
    version: str | None,
    extra: tuple[str, ...],
    env: Mapping[str, str] | None,
) -> None:
    pinned = version if version not in (None, NEWEST) else None
    if package.registry == "npm":
        # Without a tag npm takes an older version whose `engines` fit the sandbox's node, and says nothing.
        words, script = [target, f"{package.package}@{pinned or 'latest'}"], _NPM
    else:
        words, script = [target, package.python, f"{package.package}{f'=={pinned}' if pinned else ''}"], _PYPI
    quoted = " ".join(map(_quoted, (*words, *extra)))
    result = await sandbox.run_shell(f"set -- {quoted}\n{script}", env=env, timeout=INSTALL_TIMEOUT)
    if result.exit_code != 0:
        wanted = f"{package.package} {version or ''}".strip()
        raise _missing(
            package,
            f"installing {wanted} failed: {_said(result)}",
            "put the CLI into the image, or give the sandbox a network that reaches the registry",
        )


def _folder_name(package: CliPackage, version: str | None, extra: tuple[str, ...]) -> str:
    with_them = f"-{hashlib.sha256(repr(extra).encode()).hexdigest()[:8]}" if extra else ""
    return f"{package.command}-{version or NEWEST}{with_them}"


def _fits(version: str, wanted: str | None) -> bool:
    return wanted is None or version == wanted


def _checked(package: CliPackage, found: InstalledCli, wanted: str | None, what: str) -> InstalledCli:
    if wanted in (None, NEWEST) or found.version == wanted:
        return found
    problem = f"version {wanted} was asked for; {what} {found.version}"
    raise AdapterError("cli-version", cli=package.name, problem=problem, fix="correct version=, or the image")


def _missing(package: CliPackage, problem: str, fix: str) -> AdapterError:
    return AdapterError("cli-missing", cli=package.name, problem=problem, fix=fix)


def _said(result: CommandResult) -> str:
    if result.timed_out:
        return "it did not end in time"
    text = " ".join((result.stderr.strip() or result.stdout.strip()).split())
    return shorten(text[-MAX_SAID:], MAX_SAID) or f"exit code {result.exit_code}"


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
