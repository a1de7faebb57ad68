"""Tools that an adapter runs itself: what the model is told of them, and what running one comes to."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from niceeval._base.errors import AdapterError
from niceeval._base.json_values import normalise_json
from niceeval._base.plain_text import shorten
from niceeval._model.failure import EvalFatalError, ExperimentFatalError
from niceeval._model.json_types import JsonValue

MAX_DESCRIPTION: Final = 4_000
"""Characters of a function's docstring that the model is given."""
MAX_ERROR: Final = 2_000
"""Characters of a tool's error that the model is given."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """One tool: `function(**arguments)`, sync or async, and what the model is told of it.

    `parameters` is the JSON Schema of an object. A plain function given to an adapter becomes one, with the schema of
    its annotations and its docstring as description.
    """

    name: str
    function: Callable[..., Any]
    parameters: Mapping[str, Any]
    description: str = ""

    def told(self) -> dict[str, Any]:
        """What a model is told of it: name, description and parameters."""
        said = {"description": self.description} if self.description else {}
        return {"name": self.name, **said, "parameters": dict(self.parameters)}


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What one call came to."""

    status: Literal["completed", "failed"]
    output: JsonValue

    @property
    def text(self) -> str:
        """The output as the model is given it."""
        return self.output if isinstance(self.output, str) else json.dumps(self.output, ensure_ascii=False)


class ClientTools:
    """The tools of one agent, by name. `approve` names those that a human is asked about first.

    Raises AdapterError `agent-invalid` for a function that says too little, a name that occurs twice, and a name in
    `approve` that is no tool.
    """

    def __init__(
        self, tools: Iterable[Callable[..., Any] | ToolDefinition], approve: Sequence[str], agent: str
    ) -> None:
        self._agent = agent
        self._tools: dict[str, tuple[ToolDefinition, type[msgspec.Struct] | None]] = {}
        for given in tools:
            definition, arguments = self._defined(given)
            if definition.name in self._tools:
                raise self._invalid(f"two tools are called {definition.name}", "give each a name of its own")
            self._tools[definition.name] = (definition, arguments)
        if isinstance(approve, str):
            raise self._invalid(f"approve is {approve!r}", "give the names of tools: approve=('name',)")
        unknown = [name for name in approve if name not in self._tools]
        if unknown:
            raise self._invalid(f"approve names {unknown[0]!r}, which is no tool", f"the tools are {self._known()}")
        self._approve = frozenset(approve)

    def __bool__(self) -> bool:
        return bool(self._tools)

    def definitions(self) -> list[ToolDefinition]:
        """What the model is told, in the order that was given."""
        return [definition for definition, _ in self._tools.values()]

    def asks(self, name: str) -> bool:
        """Whether a human is asked before this tool is run."""
        return name in self._approve

    async def run(self, name: str, arguments: object) -> ToolOutcome:
        """Run one call; an error of the tool, or arguments that do not fit, are an outcome that failed.

        A plain function runs in a thread. `EvalFatalError` and `ExperimentFatalError` are raised.
        """
        if name not in self._tools:
            return ToolOutcome("failed", f"there is no tool {shorten(name, 80)}; the tools are {self._known()}")
        definition, form = self._tools[name]
        if not isinstance(arguments, Mapping):
            return ToolOutcome("failed", "the arguments are no JSON object")
        try:
            given = _converted(arguments, form)
        except msgspec.ValidationError as error:
            return ToolOutcome("failed", shorten(f"the arguments do not fit: {error}", MAX_ERROR))
        if inspect.iscoroutinefunction(definition.function):
            result = _called(definition.function, given)
        else:
            result = await asyncio.to_thread(_called, definition.function, given)
        return result if isinstance(result, ToolOutcome) else await _outcome(result)

    def _defined(self, given: object) -> tuple[ToolDefinition, type[msgspec.Struct] | None]:
        if isinstance(given, ToolDefinition):
            definition, arguments = given, None
        elif callable(given):
            definition, arguments = self._from_function(given)
        else:
            raise self._invalid(f"a tool is {type(given).__name__}", "give functions, or ToolDefinition(...)")
        if not _NAME.fullmatch(definition.name):
            fix = "letters, digits, _ and -, at most 64: give ToolDefinition(name=...)"
            raise self._invalid(f"a tool is called {definition.name!r}", fix)
        return definition, arguments

    def _from_function(self, function: Callable[..., Any]) -> tuple[ToolDefinition, type[msgspec.Struct]]:
        name = getattr(function, "__name__", type(function).__name__)
        try:
            arguments = _arguments_of(function, name)
            parameters = _schema_of(arguments)
        except (TypeError, ValueError, NameError) as error:
            raise self._invalid(
                f"the parameters of the tool {name} have no JSON Schema: {error}",
                "annotate each with a plain type, or give ToolDefinition(name=..., function=..., parameters=...)",
            ) from None
        described = shorten(inspect.getdoc(function) or "", MAX_DESCRIPTION)
        return ToolDefinition(name=name, function=function, parameters=parameters, description=described), arguments

    def _known(self) -> str:
        return ", ".join(self._tools) or "none"

    def _invalid(self, problem: str, fix: str) -> AdapterError:
        return AdapterError("agent-invalid", problem=f"agent {self._agent}: {problem}", fix=fix)


def _arguments_of(function: Callable[..., Any], name: str) -> type[msgspec.Struct]:
    """A struct with a field for each parameter. Raises TypeError, ValueError or NameError."""
    hints = typing.get_type_hints(function, include_extras=True) if inspect.isroutine(function) else {}
    fields: list[Any] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            raise TypeError(f"{parameter} cannot be given by name")
        kind = hints.get(parameter.name, Any)
        if parameter.default is inspect.Parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, kind, msgspec.field(default_factory=_left_out)))
    return msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)


def _left_out() -> Any:
    """The value of a parameter that has a default, and is not given."""
    return None


def _schema_of(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    (root,), parts = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    schema = dict(parts.pop(root["$ref"].removeprefix("#/$defs/")))
    schema.pop("title", None)
    return {**schema, "$defs": parts} if parts else schema


def _converted(arguments: Mapping[str, Any], form: type[msgspec.Struct] | None) -> dict[str, Any]:
    if form is None:
        return dict(arguments)
    fitting = msgspec.convert(dict(arguments), form)
    # What the model left out stays out, so that the function's own defaults hold.
    return {name: getattr(fitting, name) for name in form.__struct_fields__ if name in arguments}


def _called(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """What it comes to, or the awaitable that it returned."""
    try:
        result = function(**arguments)
    except (EvalFatalError, ExperimentFatalError):
        raise
    except Exception as error:
        return _failed(error)
    return result if inspect.isawaitable(result) else _completed(result)


async def _outcome(running: Any) -> ToolOutcome:
    try:
        return _completed(await running)
    except (EvalFatalError, ExperimentFatalError):
        raise
    except Exception as error:
        return _failed(error)


def _completed(result: object) -> ToolOutcome:
    plain, _ = normalise_json(result)
    return ToolOutcome("completed", plain)


def _failed(error: Exception) -> ToolOutcome:
    said = str(error).strip()
    return ToolOutcome(
        "failed", shorten(f"{type(error).__name__}: {said}" if said else type(error).__name__, MAX_ERROR)
    )
