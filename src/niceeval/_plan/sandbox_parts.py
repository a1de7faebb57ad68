"""A sandbox's parts of an identity: what a spec says, option by option, so that a change can be named.

How many sandboxes are started ahead changes no attempt and is no part. Values of `env` may be secrets: of those only
digests are parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from niceeval._model.json_types import JsonValue
from niceeval._model.sandbox import SandboxSpec

_HIDDEN = "env"


def sandbox_parts(
    spec: SandboxSpec, shown: Callable[[object], str], hidden: Callable[[object], str]
) -> Iterator[tuple[str, str]]:
    """Name and text of each part. `shown` makes a part's text of a JSON value, `hidden` a digest of it."""
    yield "sandbox", shown(spec.name)
    for name, value in spec.options.items():
        yield from _option(f"sandbox.{name}", value, hidden if name == _HIDDEN else shown)


def _option(name: str, value: JsonValue, text: Callable[[object], str]) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        yield name, text(value)
        return
    for key, item in value.items():
        yield f"{name}.{key}", text(item)
