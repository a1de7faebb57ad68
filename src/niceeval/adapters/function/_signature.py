"""How a function wants to be called: decided by the names of its parameters, once, when the agent is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from niceeval.adapter import AdapterError

_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_FORMS: Final = "it may be fn(text), fn(text, history) or fn(input, ctx)"


@dataclass(frozen=True, slots=True)
class Form:
    """What a function is given: first the text or the whole `TurnInput`, then `second`."""

    whole_input: bool = False
    second: Literal["history", "ctx"] | None = None

    def call(self, fn: Callable[..., Any], first: object, second: object) -> Any:
        """Call it."""
        return fn(first) if self.second is None else fn(first, second)


def form_of(fn: Callable[..., Any], agent: str) -> Form:
    """Raises AdapterError `agent-invalid`, naming the parameter that nothing is known of."""
    if not callable(fn):
        raise _invalid(agent, f"{type(fn).__name__} cannot be called", "give a function")
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except ValueError:  # some functions of C say nothing of themselves
        return Form()
    names = [parameter.name for parameter in parameters if parameter.kind in _POSITIONAL]
    second = names[1] if len(names) > 1 and names[1] in ("history", "ctx") else None
    _require_callable(parameters, 1 if second is None else 2, agent)
    if second == "ctx" and names[0] == "text":
        raise _invalid(agent, "with ctx the first parameter is the whole TurnInput, not a text", "write fn(input, ctx)")
    return Form(whole_input=second == "ctx", second=second)  # type: ignore[arg-type]


def _require_callable(parameters: list[inspect.Parameter], given: int, agent: str) -> None:
    try:
        inspect.Signature(parameters).bind(*range(given))
    except TypeError as error:
        shown = inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in parameters])
        raise _invalid(agent, f"the function takes {shown}: {error}", _FORMS) from None


def _invalid(agent: str, problem: str, fix: str) -> AdapterError:
    return AdapterError("agent-invalid", problem=f"agent {agent}: {problem}", fix=fix)
