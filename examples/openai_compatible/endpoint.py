"""The endpoint: a scripted model behind a real HTTP server that speaks the protocols of OpenAI.

With a model of your own, this file is not needed: the adapters are given its address.
"""

from __future__ import annotations

import re

from niceeval.testing import ModelServer, model_server
from niceeval.testing.scenarios import ModelRequest, Scenario, Step, call, say, structured, tool

BOOKS = re.compile(r"B-\d+")


def answer(request: ModelRequest) -> Step:
    """What the model does: it looks books up, renews those that it is asked to renew, and says what came of it."""
    results = [entry.text for entry in request.entries[_latest_user(request) :] if entry.kind == "result"]
    books = BOOKS.findall(request.user_text)
    if results:
        return structured({"books": books}) if request.schema else say("; ".join(results))
    if books and "renew" in request.user_text.lower():
        return call(*(tool("renew", book=book) for book in books), text="I will ask for that.")
    if books:
        return call(*(tool("find_book", book=book) for book in books))
    earlier = " ".join(request.earlier_texts)
    return say(f"You asked: {earlier}" if earlier else "Good day. Which book?")


def _latest_user(request: ModelRequest) -> int:
    return max(place for place, entry in enumerate(request.entries) if entry.kind == "user")


class Endpoint:
    """`start` and `stop` are an experiment's `setup` and `teardown`."""

    def __init__(self) -> None:
        self._server: ModelServer | None = None

    def url(self) -> str:
        """Where it listens."""
        assert self._server is not None
        return self._server.openai_url

    def start(self) -> None:
        self._server = model_server(Scenario("desk", [answer], repeats=True)).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
