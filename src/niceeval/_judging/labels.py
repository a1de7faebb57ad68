"""A file of examples that people have labelled: what a judge is asked, and what people said of each."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from niceeval._base.arguments import described
from niceeval._base.errors import AuthorError, NiceevalError, Place, ProjectError
from niceeval._base.places import shown_path
from niceeval._judging import recipes
from niceeval._judging.recipes import Recipe
from niceeval._model.judge import JudgeConfig, JudgeMaterial
from niceeval.loaders import DataError, parse_yaml

MAX_FILE: Final = 64 * 1024 * 1024
"""Bytes that a file of labels may have."""
MAX_EXAMPLES: Final = 100_000

_ASKED: Final[Mapping[str, tuple[str, ...]]] = {
    "closed_qa": ("criteria",),
    "factuality": (),
    "summarizes": (),
    "rubric": ("label", "criteria", "scale"),
}
"""What the file says of each question, beside `ask`."""
_OF_EXAMPLE: Final[Mapping[str, str | None]] = {
    "closed_qa": None,
    "factuality": "expected",
    "summarizes": "source",
    "rubric": None,
}
"""What each example says of its own case."""
_JUDGE: Final = ("model", "base_url", "api_key_env", "timeout", "max_concurrency")
_LABELS: Final[Mapping[str, bool]] = {"pass": True, "fail": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One labelled example. `number` counts from 1, `passes` is what people said of it."""

    number: int
    recipe: Recipe
    material: JudgeMaterial
    passes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """A file of labels. `recipe` is the question without a case, `passes_at` the score from which a verdict is pass.

    `digest` is of the file's bytes.
    """

    file: str
    digest: str
    recipe: Recipe
    passes_at: float
    judge: JudgeConfig | None
    examples: tuple[Example, ...]


def read_labels(path: Path) -> Labels:
    """Read a file of labels. Raises ProjectError (`judge-labels`), which names the example."""
    shown = shown_path(path)
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= MAX_FILE else b""
    except OSError as error:
        raise _bad(shown, f"cannot be read: {error.strerror or error}") from None
    if size > MAX_FILE:
        raise _bad(shown, f"has {size:,} bytes; it may have {MAX_FILE:,}")
    try:
        text = data.decode("utf-8-sig")
        value = parse_yaml(text)
    except UnicodeDecodeError:
        raise _bad(shown, "is not UTF-8") from None
    except DataError as error:
        raise _bad(shown, error.problem, error.line) from None
    return _labels(shown, hashlib.sha256(data).hexdigest(), value)


def _labels(shown: str, digest: str, value: object) -> Labels:
    if not isinstance(value, dict):
        raise _bad(shown, f"is {described(value)}; it is a mapping with ask and examples")
    ask = value.get("ask")
    if not isinstance(ask, str) or ask not in _ASKED:
        raise _bad(shown, f"ask is {described(ask)}; it is one of {', '.join(_ASKED)}")
    _only(shown, "", value, ("ask", "passes_at", "judge", "examples", *_ASKED[ask]))
    examples = value.get("examples")
    if not isinstance(examples, list) or not examples:
        raise _bad(shown, f"examples is {described(examples)}; it is a list of labelled examples")
    if len(examples) > MAX_EXAMPLES:
        raise _bad(shown, f"has {len(examples):,} examples; it may have {MAX_EXAMPLES:,}")
    read = tuple(_example(shown, ask, value, number, one) for number, one in enumerate(examples, 1))
    return Labels(
        file=shown,
        digest=digest,
        recipe=read[0].recipe,
        passes_at=_line(shown, value.get("passes_at", 1)),
        judge=_judge(shown, value.get("judge")),
        examples=read,
    )


def _example(shown: str, ask: str, asked: Mapping[str, Any], number: int, value: object) -> Example:
    where = f"example {number}: "
    if not isinstance(value, dict):
        raise _bad(shown, f"{where}is {described(value)}; it is a mapping with output and label")
    own = _OF_EXAMPLE[ask]
    _only(shown, where, value, ("input", "output", "label", *([own] if own else [])))
    label = value.get("label")
    if not isinstance(label, str) or label not in _LABELS:
        raise _bad(shown, f"{where}label is {described(label)}; it is pass or fail")
    texts: dict[str, str] = {}
    for name, fallback in (("output", None), ("input", "")):
        text = value.get(name, fallback)
        if not isinstance(text, str):
            raise _bad(shown, f"{where}{name} is {described(text)}; it is text")
        texts[name] = text
    try:
        recipe = _recipe(ask, asked, value)
    except AuthorError as error:
        raise _bad(shown, f"{where if own else ''}{error.fields['argument']} {error.fields['problem']}") from None
    return Example(number=number, recipe=recipe, material=JudgeMaterial(**texts), passes=_LABELS[label])


def _recipe(ask: str, asked: Mapping[str, Any], example: Mapping[str, Any]) -> Recipe:
    """The question of an example. Raises AuthorError (`bad-argument`), since the recipes check what they are given."""

    def said(name: str) -> Any:
        return asked.get(name)

    if ask == "closed_qa":
        return recipes.closed_qa(said("criteria"))
    if ask == "rubric":
        return recipes.rubric(said("label"), said("criteria"), said("scale"))
    case: Any = example.get(_OF_EXAMPLE[ask] or "")
    return recipes.factuality(case) if ask == "factuality" else recipes.summarizes(case)


def _line(shown: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1 or math.isnan(value):
        raise _bad(shown, f"passes_at is {described(value)}; it is a score above 0, up to 1")
    return float(value)


def _judge(shown: str, value: object) -> JudgeConfig | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _bad(shown, f"judge is {described(value)}; it is a mapping with model")
    _only(shown, "judge: ", value, _JUDGE)
    try:
        return JudgeConfig(**{"model": None, **value})
    except NiceevalError as error:
        raise _bad(shown, f"judge: {error.fields.get('argument')} {error.fields.get('problem')}") from None


def _only(shown: str, where: str, value: Mapping[Any, Any], known: Sequence[str]) -> None:
    """A key that is not known would be a setting that is silently not kept."""
    unknown = [key for key in value if key not in known]
    if unknown:
        raise _bad(shown, f"{where}{described(unknown[0])} is not known here; there are {', '.join(known)}")


def _bad(shown: str, problem: str, line: int | None = None) -> ProjectError:
    return ProjectError("judge-labels", place=Place(shown, line or 1), file=shown, problem=problem)
