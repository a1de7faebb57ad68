"""Telling a CLI that could not reach its model from an agent that did badly."""

from __future__ import annotations

import re
from typing import Final

from niceeval._base.errors import AdapterError
from niceeval._base.plain_text import shorten
from niceeval._model.events import ErrorEvent
from niceeval._model.failure import RetryableSendError
from niceeval.turn_building import Collected

MAX_SAID: Final = 600
"""Characters of a CLI's last error that are quoted."""

RATE_LIMITED: Final = "rate-limited"
"""The code of the diagnostic by which a parser says that the model's service limited the rate."""

_RATE_LIMIT = re.compile(
    r"\b(429|529)\b|rate.?limit|overloaded|too many requests|request a quota increase", re.IGNORECASE
)
_KEY = re.compile(r"\b(401|403)\b|unauthori[sz]ed|api.?key|authentication|log ?in", re.IGNORECASE)


def raise_if_unanswered(collected: Collected, *, cli: str, exit_code: int | None, last_words: str, fresh: bool) -> None:
    """Where a turn failed before its model had answered anything, nothing was learnt of the agent.

    Raises RetryableSendError where the model's service refused for its rate and the conversation is `fresh`, so that
    sending again repeats nothing; else AdapterError (`cli-failed`).
    """
    turn = collected.turn
    answered = any(not isinstance(event, ErrorEvent) for event in turn.events)
    if turn.status != "failed" or answered or (turn.usage is not None and turn.usage.output_tokens):
        return
    errors = [event.message for event in turn.events if isinstance(event, ErrorEvent)]
    said = shorten(" ".join((errors[-1] if errors else last_words).split()), MAX_SAID)
    limited = any(diagnostic.code == RATE_LIMITED for diagnostic in collected.diagnostics)
    if fresh and (limited or _RATE_LIMIT.search(said)):
        raise RetryableSendError(f"{cli}: {said}")
    fix = "see the turn's log; run the same command by hand in the sandbox"
    if _KEY.search(said):
        fix = "check the key's variable (api_key_env=) and base_url="
    raise AdapterError("cli-failed", cli=cli, exit_code=exit_code, said=said, fix=fix)
