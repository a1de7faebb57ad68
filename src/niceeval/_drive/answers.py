"""Human in the loop: choosing the request that is meant, and answering each pending one exactly once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from niceeval._base.errors import AuthorError
from niceeval._base.plain_text import shorten
from niceeval._judge.unset import UNSET
from niceeval._model.events import InputRequest
from niceeval._model.matching import describe, matches
from niceeval._model.turn_input import InputResponse


@dataclass(frozen=True, slots=True)
class Picked:
    """The one request that matched, or None; what was wanted and what was pending, as text."""

    request: InputRequest | None
    expected: str
    received: str


def pick_request(
    pending: Sequence[InputRequest],
    *,
    id: str | None,
    prompt: Any,
    display: Any,
    action: str | None,
    input: Any,
    option_ids: Sequence[str] | None,
) -> Picked:
    """Exactly one pending request has to meet every condition.

    Raises AuthorError: `bad-argument` for `option_ids` that are no list, `bad-matcher` for a condition that gives no
    answer.
    """
    if isinstance(option_ids, str):
        raise AuthorError(
            "bad-argument",
            call="require_input_request",
            argument="option_ids",
            problem=f"is the text {option_ids!r:.60}",
            fix="give a list of option ids",
        )
    found = [
        request
        for request in pending
        if (id is None or request.id == id)
        and (action is None or request.action == action)
        and (prompt is UNSET or _says(request.prompt, prompt))
        and (display is UNSET or _says(request.display, display))
        and (input is UNSET or matches(input, request.input, root="input"))
        and (option_ids is None or set(option_ids) <= {option.id for option in request.options or ()})
    ]
    said = [f'id "{id}"' if id else "", f"action {action}" if action else ""]
    said += [
        f"{name} {_text(value)}" for name, value in (("prompt", prompt), ("display", display)) if value is not UNSET
    ]
    said += [describe(input, root="input")] if input is not UNSET else []
    said += ["options " + ", ".join(option_ids)] if option_ids else []
    wanted = ", ".join(part for part in said if part)
    expected = "exactly one pending request" + (f" with {wanted}" if wanted else "")
    received = ", ".join(_named(request) for request in pending[:5]) or "no pending request"
    if len(found) > 1:
        received = f"{len(found)} match: {received}"
    return Picked(found[0] if len(found) == 1 else None, expected, received)


def answers_to(
    pending: Sequence[InputRequest], answers: Sequence[InputResponse | str], text: str | None
) -> tuple[InputResponse, ...]:
    """One response per pending request, in the requests' order.

    Raises AuthorError: `unknown-option` for an option that was not offered, `bad-response` for a missing or a double
    answer, an answer to a request that is not pending, or a bare string where several are.
    """
    if not pending:
        raise _bad("nothing is pending: the last turn of this session does not wait", "await a turn that asks first")
    given = [*answers, *([] if text is None else [_FreeText(text)])]
    if not given:
        raise _bad(f"no answer is given; pending: {_ids(pending)}", 'request.choose("...") or request.reply("...")')
    by_id: dict[str, InputResponse] = {}
    for answer in given:
        response = _response(pending, answer)
        if response.request_id in by_id:
            raise _bad(f"request {response.request_id} is answered twice", "answer each request once")
        by_id[response.request_id] = response
    missing = [request for request in pending if request.id not in by_id]
    if missing:
        raise _bad(f"no answer for {_ids(missing)}", "answer every pending request, or use respond_all")
    return tuple(by_id[request.id] for request in pending)


def require_name(call: str, argument: str, value: object, *, empty: bool = False) -> str:
    """The value as text. Raises AuthorError (`bad-argument`)."""
    if not isinstance(value, str) or not (value or empty):
        raise AuthorError(
            "bad-argument", call=call, argument=argument, problem=f"is {type(value).__name__}", fix="give text"
        )
    return value


@dataclass(frozen=True, slots=True)
class _FreeText:
    text: str


def _response(pending: Sequence[InputRequest], answer: object) -> InputResponse:
    if isinstance(answer, InputResponse):
        request = next((request for request in pending if request.id == answer.request_id), None)
        if request is None:
            raise _bad(f"request {answer.request_id} is not pending; pending: {_ids(pending)}", "answer these")
        if (answer.option_id is None) == (answer.text is None) or not isinstance(answer.text or "", str):
            raise _bad(
                f"the answer to request {answer.request_id} is not exactly one option or one text",
                'request.choose("...") or request.reply("...")',
            )
        return request.choose(answer.option_id) if answer.option_id is not None else answer
    if not isinstance(answer, (str, _FreeText)):
        raise _bad(f"{answer!r:.60} is no answer", 'request.choose("...") or request.reply("...")')
    if len(pending) > 1:
        raise _bad(f"{len(pending)} requests are pending ({_ids(pending)})", "answer each with request.choose(...)")
    request = pending[0]
    if isinstance(answer, _FreeText):
        return _response(pending, request.reply(answer.text))
    return request.choose(answer) if request.options else request.reply(answer)


def _says(text: str | None, wanted: object) -> bool:
    if text is None:
        return False
    if isinstance(wanted, str):
        return wanted in text
    return matches(wanted, text)


def _text(value: object) -> str:
    return f"/{value.pattern}/" if isinstance(value, re.Pattern) else shorten(repr(value), 80)


def _named(request: InputRequest) -> str:
    options = ", ".join(option.id for option in request.options or ())
    return request.id + (f" ({request.action})" if request.action else "") + (f" [{options}]" if options else "")


def _ids(requests: Sequence[InputRequest]) -> str:
    return ", ".join(request.id for request in requests)


def _bad(problem: str, fix: str) -> AuthorError:
    return AuthorError("bad-response", problem=problem, fix=fix)
