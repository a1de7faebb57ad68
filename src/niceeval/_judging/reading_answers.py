"""Reading a chat completion for the choice that it makes. What is no clear choice is a problem, never a score."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from niceeval._base.plain_text import clean_text, shorten
from niceeval._judging.outcome import MAX_RATIONALE, call_failed, unparsable
from niceeval._model.usage import Usage

TOOL: Final = "select_choice"
"""The function by which a model answers."""

_FENCED = re.compile(r"```[A-Za-z0-9_-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL)
_SHOWN = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The choice of a recipe's that a model made, and its reasons."""

    choice: str
    rationale: str | None = None


def completion(body: str) -> dict[str, Any]:
    """A body as the chat completion that it is.

    Raises JudgeProblem: unparsable where it is none, call failed where the service reports an error in it.
    """
    if not body.strip():
        raise unparsable("the answer is empty")
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise unparsable(f"the answer is no chat completion: {_shown(body)}") from None
    if not isinstance(value, dict):
        raise unparsable(f"the answer is no chat completion: {_shown(body)}")
    if value.get("error"):
        raise call_failed(f"the service answered with an error: {_shown(json.dumps(value['error']))}")
    return value


def choice_of(response: Mapping[str, Any], choices: Collection[str]) -> Choice:
    """The one choice that a chat completion makes.

    It is the argument of the function that was offered, or, from models that do not call functions, a JSON object that
    is the whole text, or the only fenced block of it. Raises JudgeProblem (unparsable).
    """
    message = _message(response)
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        made = [_of_call(call, choices) for call in calls]
        if len({choice.choice for choice in made}) > 1:
            raise unparsable("it makes more than one choice: " + ", ".join(choice.choice for choice in made))
        return made[0]
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal.strip():
        raise unparsable(f"the model refused: {_shown(refusal)}")
    return _of_text(_content(message), choices)


def usage_of(response: Mapping[str, Any]) -> Usage | None:
    """The tokens that a chat completion reports; None where it reports none."""
    found = response.get("usage")
    if not isinstance(found, dict):
        return None
    prompt, written = _count(found, "prompt_tokens"), _count(found, "completion_tokens")
    if prompt is None and written is None:
        return None
    cached = _count(found.get("prompt_tokens_details"), "cached_tokens")
    return Usage(
        input_tokens=None if prompt is None else max(prompt - (cached or 0), 0),
        output_tokens=written,
        cache_read_tokens=cached,
        reasoning_tokens=_count(found.get("completion_tokens_details"), "reasoning_tokens"),
        requests=1,
    )


def _message(response: Mapping[str, Any]) -> Mapping[str, Any]:
    listed = response.get("choices")
    first = listed[0] if isinstance(listed, list) and listed else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(message, dict):
        raise unparsable("the answer holds no message")
    return message


def _of_call(call: object, choices: Collection[str]) -> Choice:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise unparsable("it calls something that is no function")
    if function.get("name") != TOOL:
        raise unparsable(f"it calls {_shown(str(function.get('name')))} and not {TOOL}")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            raise unparsable(f"the arguments of its choice are no JSON: {_shown(arguments)}") from None
    return _of_value(arguments, choices)


def _of_text(text: str, choices: Collection[str]) -> Choice:
    fenced = _FENCED.findall(text)
    candidate = fenced[0] if len(fenced) == 1 else text
    try:
        value = json.loads(candidate)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise unparsable(
            f"it makes no choice: {_shown(text)}" if text.strip() else "it makes no choice and says nothing"
        )
    return _of_value(value, choices)


def _of_value(value: object, choices: Collection[str]) -> Choice:
    choice = value.get("choice") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(choice, str):
        raise unparsable("its choice is not there, or no text")
    if choice.strip() not in choices:
        raise unparsable(f"it chose {_shown(choice)}, which is none of {', '.join(choices)}")
    reasons = value.get("reasons")
    if isinstance(reasons, list):
        reasons = "\n".join(str(reason) for reason in reasons)
    rationale = clean_text(reasons, MAX_RATIONALE)[0] if isinstance(reasons, str) and reasons.strip() else None
    return Choice(choice=choice.strip(), rationale=rationale)


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _count(found: object, name: str) -> int | None:
    value = found.get(name) if isinstance(found, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _shown(text: str) -> str:
    return shorten(" ".join(clean_text(text[:2_000], 2_000)[0].split()), _SHOWN)
