"""The desk: instructions, and two functions that the model may call. The adapter runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from niceeval.adapter import Agent
from niceeval.adapters import chat_completions_agent, responses_agent

DUE = {"B-1": "Monday", "B-2": "Friday"}
DESK: dict[str, Any] = {
    "system": "You are the desk of a library. Look books up before you speak of them.",
    "api_key_env": None,  # the scripted model wants no key; by default it is read from OPENAI_API_KEY
    "approve": ["renew"],
}


def find_book(book: str) -> dict[str, str]:
    """When a book is due back."""
    if book not in DUE:
        raise LookupError(f"no book {book}")
    return {"book": book, "due": DUE[book]}


def renew(book: str, weeks: int = 4) -> str:
    """Lend a book for some weeks more."""
    return f"{book} is renewed for {weeks} weeks"


def over_chat_completions(url: Callable[[], str]) -> Agent:
    return chat_completions_agent(url, name="desk-chat", tools=[find_book, renew], **DESK)


def over_responses(url: Callable[[], str]) -> Agent:
    # The scripted model stores nothing, so each request has the whole conversation.
    return responses_agent(url, name="desk-responses", tools=[find_book, renew], history="client", **DESK)
