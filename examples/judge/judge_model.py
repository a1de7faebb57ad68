"""The judge: a scripted model behind a real HTTP server. It chooses by the words that it sees, so it needs no key.

With a judge of your own, this file is not needed.
"""

from __future__ import annotations

from niceeval.testing import ModelServer, model_server
from niceeval.testing.scenarios import ModelRequest, Scenario, Step, call, tool


def judge(request: ModelRequest) -> Step:
    """One choice for each question, as a model would make it: by what the prompt says."""
    prompt = request.user_text
    if "expert answer" in prompt:
        same = "Queens" in _between(prompt, "[Submission]:", "[END DATA]")
        return _choose("C", "the same borough") if same else _choose("D", "another borough, or none")
    if "[BEGIN SUMMARY]" in prompt:
        said = _between(prompt, "[BEGIN SUMMARY]", "[END SUMMARY]")
        return _choose("A" if "1948" in said else "B", "the year is a main point")
    if "[BEGIN RUBRIC]" in prompt:
        return _choose("warm" if "glad" in _between(prompt, "[BEGIN ANSWER]", "[END ANSWER]") else "plain", "its words")
    names = "Queens" in _between(prompt, "[Submission]:", "[Criterion]:")
    return _choose("Y", "it names a borough") if names else _choose("N", "it names no borough")


def _choose(choice: str, reasons: str) -> Step:
    return call(tool("select_choice", choice=choice, reasons=reasons))


def _between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0]


class JudgeModel:
    """`start` and `stop` are an experiment's `setup` and `teardown`."""

    def __init__(self) -> None:
        self._server: ModelServer | None = None

    def url(self) -> str:
        """Where it listens. `niceeval judge check` has no experiment that would have started it."""
        if self._server is None:
            self.start()
        assert self._server is not None
        return self._server.openai_url

    def start(self) -> None:
        self._server = model_server(Scenario("judge", [judge], repeats=True)).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()


JUDGE = JudgeModel()
