"""`define_sandbox`: a sandbox of the user's own making."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from niceeval._model.sandbox import Sandbox, SandboxSpec
from niceeval.sandbox.arguments import SpecArguments

CUSTOM_BACKEND = "niceeval.sandbox.custom_backend"
"""The module that makes sandboxes by calling the user's `create`."""


def define_sandbox(
    *,
    name: str,
    create: Callable[..., Awaitable[Sandbox]],
    recommended_concurrency: int = 5,
    warm_pool: int = 0,
) -> SandboxSpec:
    """A sandbox that `await create(timeout=..., runtime=...)` makes: any object with the methods of `Sandbox`.

    `timeout`: seconds that it may be needed at most. `runtime`: labels that say whose it is, as a mapping of text to
    text; put them on what you start, so that it can be found again. `recommended_concurrency`: attempts at the same
    time where nobody says how many. `niceeval.testing.check_sandbox` tells whether the object keeps the contract.

    Raises ProjectError (`bad-argument`).
    """
    values = {
        "name": name,
        "create": create,
        "recommended_concurrency": recommended_concurrency,
        "warm_pool": warm_pool,
    }
    arguments = SpecArguments("define_sandbox", values)
    said = arguments.text("name")
    if said is None or arguments.function("create") is None:
        missing = "name" if said is None else "create"
        raise arguments.error(missing, "is None", 'define_sandbox(name="mine", create=make_it)')
    return SandboxSpec(
        name=said,
        backend=CUSTOM_BACKEND,
        options={"name": said},
        shown=said,
        recommended_concurrency=arguments.required_count("recommended_concurrency"),
        warm_pool=arguments.pool(),
        create=create,
    )
