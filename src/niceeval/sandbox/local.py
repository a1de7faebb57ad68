"""`local_sandbox`: a temporary folder on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from niceeval._model.sandbox import SandboxSpec
from niceeval.sandbox.arguments import SpecArguments


def local_sandbox(
    *,
    isolation: Literal["none", "bubblewrap"] = "none",
    network: Literal["bridge", "none"] = "bridge",
    env: Mapping[str, str] | None = None,
    warm_pool: int = 0,
) -> SandboxSpec:
    """A temporary folder on this machine, for smoke tests; **it isolates nothing**, and a run says so.

    With `isolation="bubblewrap"` commands see the machine's programs read-only, the workdir and nothing else of it, and
    with `network="none"` no network; the program `bwrap` must be installed. Without it the agent has your rights, your
    files and your network: use it for agents that you would run by hand. `env` is set for every command.

    Raises ProjectError (`bad-argument`).
    """
    values = {"isolation": isolation, "network": network, "env": env, "warm_pool": warm_pool}
    arguments = SpecArguments("local_sandbox", values)
    isolated = arguments.one_of("isolation", ("none", "bubblewrap"))
    reached = arguments.one_of("network", ("bridge", "none"))
    if reached == "none" and isolated == "none":
        raise arguments.error("network", 'cannot be "none" without isolation', 'isolation="bubblewrap"')
    return SandboxSpec(
        name="local",
        backend="niceeval.backends.local",
        options={"isolation": isolated, "network": reached, "env": arguments.texts("env")},
        shown="local" if isolated == "none" else f"local ({isolated})",
        recommended_concurrency=4,
        warm_pool=arguments.pool(),
    )
