"""Giving Codex plugins of this machine: it installs them from a marketplace, which is a folder with a list."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from niceeval.adapter import AdapterError
from niceeval.cli_agent import CliArguments, CliSetup, Plugin
from niceeval.turn_building import text_of

MARKET: Final = "niceeval"
MANIFESTS: Final = (".codex-plugin/plugin.json", ".claude-plugin/plugin.json")
"""Where a plugin says what it is called; the first that is there counts."""
MAX_MANIFEST: Final = 1_000_000
"""Bytes of a manifest that are read."""


def plugin_names(arguments: CliArguments) -> dict[str, Plugin]:
    """The plugins by the names in their manifests. Raises ProjectError (`bad-argument`)."""
    found: dict[str, Plugin] = {}
    for plugin in arguments.parts("plugins", Plugin):
        name = _name(Path(plugin.path))
        if name is None:
            problem = f"has {plugin.name!r}, which is no plugin of Codex: its name is in no {MANIFESTS[0]}"
            raise arguments.error("plugins", problem, 'write {"name": "...", "version": "1.0.0"} there')
        if name in found:
            raise arguments.error("plugins", f"has two plugins called {name!r}", "give one of them another name")
        found[name] = plugin
    return found


async def install(setup: CliSetup, plugins: dict[str, Plugin]) -> None:
    """Install them in the attempt's home. It needs no network. Raises AdapterError (`cli-missing`) and SandboxError."""
    folder = f"{setup.home}/given-plugins"
    listed = [{"name": name, "source": {"source": "local", "path": f"./{name}"}} for name in plugins]
    await setup.write_home(
        {"given-plugins/.agents/plugins/marketplace.json": json.dumps({"name": MARKET, "plugins": listed})}
    )
    for name, plugin in plugins.items():
        await setup.sandbox.upload_directory(plugin.path, f"{folder}/{name}")
    await _told(setup, ["plugin", "marketplace", "add", folder])
    for name in plugins:
        await _told(setup, ["plugin", "add", f"{name}@{MARKET}"])


async def _told(setup: CliSetup, words: Sequence[str]) -> None:
    run = await setup.run(words)
    if run.exit_code != 0:
        first = next((line for line in run.stderr.splitlines() if line.lower().startswith("error")), run.last_words)
        raise AdapterError(
            "cli-missing",
            cli=setup.agent,
            problem=f"`codex {' '.join(words[:2])}` ended with exit code {run.exit_code}: {first[:300]}",
            fix="plugins need a version that has `codex plugin`, such as 0.171.0; try the command by hand",
        )


def _name(folder: Path) -> str | None:
    for place in MANIFESTS:
        try:
            with open(folder / place, "rb") as file:
                given = json.loads(file.read(MAX_MANIFEST))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError):
            return None
        name = text_of(given, "name")
        return name if name and name.replace("-", "").replace("_", "").replace(".", "").isalnum() else None
    return None
