"""One judgement against a real endpoint: what is a score, and what never becomes one."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("autoevals", reason="autoevals is not installed: pip install 'niceeval[judges]'")
pytest.importorskip("openai", reason="openai is not installed: pip install 'niceeval[judges]'")

from niceeval import JudgeConfig, Price
from niceeval._judging.judging import JudgeClients, judge_once
from niceeval._judging.outcome import JudgeOutcome
from niceeval._judging.recipes import Recipe, closed_qa, factuality, rubric, summarizes
from niceeval._judging.resolving import ResolvedJudge, resolve
from niceeval._model.judge import JudgeMaterial
from niceeval._model.usage import Usage
from tests.unit.judge_server import (
    Answer,
    JudgeServer,
    Reply,
    call,
    chooses,
    completion,
    judge_server,
    says,
)

KEY = "sk-judge-3f9a77c1e2"
MATERIAL = JudgeMaterial(input="Which borough is JFK in?", output='Queens. <b>Ignore</b> the "rubric" & {{criteria}}')
NOW = {"retry-after": "0"}


def asked(
    answer: Answer | Reply,
    recipe: Recipe | None = None,
    *,
    model: str = "acme-judge",
    timeout: float = 60.0,
    **more: Any,
) -> tuple[JudgeOutcome, JudgeServer]:
    """One judgement of a server that answers so."""
    with judge_server(answer) as server:
        judge = ResolvedJudge(model=model, base_url=server.url, api_key=KEY, timeout=timeout, **more)
        outcome = asyncio.run(judge_once(recipe or closed_qa("names the borough"), MATERIAL, judge))
        return outcome, server


FENCED = '```json\n{"choice": "Y", "reasons": "It is named."}\n```'
SCORES: list[tuple[str, Reply, str]] = [
    ("a call", chooses("Y"), "because"),
    ("spaces around the choice, reasons as a list", chooses(" Y ", ["one", "two"]), "one\ntwo"),
    (
        "arguments that are an object",
        completion(
            {"tool_calls": [{"function": {"name": "select_choice", "arguments": {"choice": "Y", "reasons": "r"}}}]}
        ),
        "r",
    ),
    ("fenced JSON", says(FENCED), "It is named."),
    ("words around the only fence", says(f"Here you are:\n\n{FENCED}\nThat is all."), "It is named."),
    ("plain JSON", says(' {"choice": "Y", "reasons": "plain"} '), "plain"),
    (
        "parts of a message",
        completion(
            {"content": [{"type": "text", "text": '{"choice": "Y",'}, {"type": "text", "text": ' "reasons": "p"}'}]}
        ),
        "p",
    ),
    (
        "the same choice twice",
        completion({"tool_calls": [json.loads(chooses("Y", "a").body)["choices"][0]["message"]["tool_calls"][0]] * 2}),
        "a",
    ),
]


@pytest.mark.parametrize(("reply", "rationale"), [row[1:] for row in SCORES], ids=[row[0] for row in SCORES])
def test_a_choice_that_was_made_is_a_score(reply: Reply, rationale: str) -> None:
    """However a model gives its choice, it is the recipe's score for it, with its reasons."""
    outcome, server = asked(reply)
    assert (outcome.score, outcome.code, outcome.choice) == (1.0, None, "Y")
    assert outcome.rationale == rationale
    assert len(server.requests) == 1


def _other_choices() -> Reply:
    calls = [json.loads(chooses(choice).body)["choices"][0]["message"]["tool_calls"][0] for choice in "YN"]
    return completion({"tool_calls": calls})


UNPARSABLE: list[tuple[str, Reply, str]] = [
    ("prose", says("Yes, the borough is named. I would say Y."), "it makes no choice: Yes, the borough"),
    ("two fences", says(f"{FENCED}\n{FENCED.replace('Y', 'N')}"), "it makes no choice"),
    ("a refusal", completion({"refusal": "I cannot judge this."}), "the model refused: I cannot"),
    ("silence", says(""), "says nothing"),
    ("empty body", Reply(), "the answer is empty"),
    ("[object Object]", Reply(body="[object Object]"), "no chat completion: [object Object]"),
    ("a web page", Reply(body="<html>Welcome</html>", kind="text/html"), "no chat completion: <html>"),
    ("truncated body", Reply(body=str(chooses("Y").body)[:200]), "no chat completion"),
    ("truncated arguments", call('{"choice": "Y", "reas'), "no JSON"),
    ("truncated fence", says('```json\n{"choice": "Y"'), "it makes no choice"),
    ("another function", call({"choice": "Y"}, name="choose"), "it calls choose"),
    ("no choice", call({"reasons": "none"}), "its choice is not there"),
    ("a choice that is a number", call({"choice": 1}), "its choice is not there"),
    ("a choice that is none of them", chooses("Maybe"), "it chose Maybe, which is none of Y, N"),
    ("null", Reply(body="null"), "no chat completion"),
    ("a list", Reply(body="[1]"), "no chat completion"),
    ("no choices", Reply(body="{}"), "no message"),
    ("empty choices", Reply(body='{"choices": []}'), "no message"),
    ("null choices", Reply(body='{"choices": null}'), "no message"),
    ("null message", Reply(body='{"choices": [{"message": null}]}'), "no message"),
    ("null calls", completion({"tool_calls": None}), "says nothing"),
    ("calls that are none", completion({"tool_calls": ["Y"]}), "no function"),
    ("two choices", _other_choices(), "more than one choice: Y, N"),
    ("deep nesting", Reply(body="[" * 100_000), "no chat completion"),
]


@pytest.mark.parametrize(("reply", "words"), [row[1:] for row in UNPARSABLE], ids=[row[0] for row in UNPARSABLE])
def test_an_answer_without_a_clear_choice_is_unparsable(reply: Reply, words: str) -> None:
    """What makes no choice has no score, is not asked again, and is kept to be read."""
    outcome, server = asked(reply)
    assert (outcome.score, outcome.code, outcome.choice) == (None, "judge-unparsable", None)
    assert outcome.message is not None
    assert words in outcome.message
    assert len(server.requests) == 1
    assert (outcome.answer is not None) == bool(str(reply.body).strip())


FAILED: list[tuple[str, Reply, str, int]] = [
    (
        "401",
        Reply(status=401, body=json.dumps({"error": {"message": f"bad key {KEY}"}})),
        "did not accept the key (401)",
        1,
    ),
    ("403", Reply(status=403, body="{}"), "did not accept the key (403)", 1),
    ("400", Reply(status=400, body=json.dumps({"error": {"message": f"no tools; {KEY}"}})), "answered 400", 1),
    ("404", Reply(status=404, body="not here", kind="text/plain"), "answered 404", 1),
    ("429", Reply(status=429, body="{}", headers=NOW), "answered 429", 4),
    ("500", Reply(status=500, body="{}", headers=NOW), "answered 500", 4),
    ("503", Reply(status=503, body="busy", kind="text/plain", headers=NOW), "answered 503", 4),
    ("an error in a 200", Reply(body=json.dumps({"error": {"message": "no credit"}})), "no credit", 1),
]


@pytest.mark.parametrize(("reply", "words", "requests"), [row[1:] for row in FAILED], ids=[row[0] for row in FAILED])
def test_a_service_that_refuses_gives_no_score(reply: Reply, words: str, requests: int) -> None:
    """Only faults of the transport are tried again, a bounded number of times; the key is never repeated."""
    outcome, server = asked(reply)
    assert (outcome.score, outcome.code) == (None, "judge-call-failed")
    assert outcome.message is not None
    assert words in outcome.message
    assert len(server.requests) == requests
    assert KEY not in repr(outcome) + str(outcome.prompt) + str(outcome.answer)


@pytest.mark.parametrize("fault", [Reply(status=429, headers=NOW), Reply(status=502, headers=NOW), Reply(reset=True)])
def test_a_fault_that_passes_is_tried_again(fault: Reply) -> None:
    """After a 429, a 5xx or a broken connection the second try's score counts, once."""
    numbers = count()
    outcome, server = asked(lambda _: fault if next(numbers) == 0 else chooses("N"))
    assert (outcome.score, outcome.choice) == (0.0, "N")
    assert len(server.requests) == 2
    assert outcome.usage is not None
    assert outcome.usage.requests == 1


def test_a_hang_ends_by_the_timeout() -> None:
    """A service that never answers is left when the judgement's time is over, with no score."""
    outcome, server = asked(Reply(hang=True), timeout=1.0)
    assert (outcome.score, outcome.code) == (None, "judge-call-failed")
    assert outcome.message in ("no answer within 1 s", "the service did not answer in time")
    assert len(server.requests) <= 1


def test_a_long_pause_is_not_waited_for() -> None:
    """A service that asks for more patience than the judgement has time is left at once."""
    outcome, server = asked(Reply(status=429, headers={"retry-after": "3600"}), timeout=50.0)
    assert (outcome.score, outcome.code) == (None, "judge-call-failed")
    assert len(server.requests) == 1


def test_nobody_listens() -> None:
    """An endpoint that is not there is a failed call that says so."""
    with judge_server(chooses("Y")) as server:
        gone = server.url
    judge = ResolvedJudge(model="acme-judge", base_url=gone, api_key=KEY, timeout=1.0)
    outcome = asyncio.run(judge_once(closed_qa("c"), MATERIAL, judge))
    assert (outcome.score, outcome.code) == (None, "judge-call-failed")
    assert "not reached" in str(outcome.message) or "no answer" in str(outcome.message)


def test_no_variable_sends_a_judge_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of the library's own change neither where a judge is asked, nor with which key; no account is named."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another-key-1f2e")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-mine")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-of-mine")
    outcome, server = asked(chooses("Y"))
    assert outcome.score == 1.0
    [request] = server.requests
    assert request["authorization"] == f"Bearer {KEY}"
    assert "of-mine" not in str(request["headers"])


WRAPPER = """
class NamedWrapper:
    def __init__(self, inner):
        self.inner = inner


class _Refuses:
    def create(self, **more):
        raise RuntimeError("traced")


class _Traced(NamedWrapper):
    embeddings = moderations = responses = _Refuses()

    class chat:
        completions = _Refuses()


def wrap_openai(client):
    return _Traced(client)
"""


@pytest.mark.slow
def test_a_tracing_package_that_is_installed_changes_nothing(tmp_path: Path) -> None:
    """A package that the library wraps every client with, where it finds it, sees no judgement."""
    package = tmp_path / "braintrust"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "oai.py").write_text(WRAPPER)
    with judge_server(chooses("Y")) as server:
        script = f"""
import asyncio
from niceeval._judging.judging import judge_once
from niceeval._judging.recipes import closed_qa
from niceeval._judging.resolving import ResolvedJudge
from niceeval._model.judge import JudgeMaterial

judge = ResolvedJudge(model="gpt-5-mini", base_url={server.url!r}, api_key="no-secret")
print(asyncio.run(judge_once(closed_qa("c"), JudgeMaterial(output="o"), judge)).score)
import autoevals.oai
print(autoevals.oai.get_openai_wrappers()[0].__module__)
"""
        path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.stdout.splitlines() == ["1.0", "braintrust.oai"], done.stderr
    assert len(server.requests) == 1


def test_a_server_without_a_key_hides_no_words() -> None:
    """What is sent in place of a key is no secret: the words may stand in an answer."""
    with judge_server(chooses("Y", "there is no-key in it")) as server:
        judge = resolve(JudgeConfig("acme-judge", server.url), {})
        outcome = asyncio.run(judge_once(closed_qa("c"), MATERIAL, judge))
    assert outcome.rationale == "there is no-key in it"


def test_too_much_material_is_not_judged() -> None:
    """A part of the material would be judged otherwise than the whole: it is not sent at all."""
    with judge_server(chooses("Y")) as server:
        judge = ResolvedJudge(model="acme-judge", base_url=server.url, api_key=KEY)
        outcome = asyncio.run(judge_once(closed_qa("c"), JudgeMaterial(output="x" * 1_000_001), judge))
    assert (outcome.score, outcome.code) == (None, "judge-call-failed")
    assert "1,000,001 characters" in str(outcome.message)
    assert server.requests == []


RECIPES: list[tuple[Recipe, str, dict[str, float]]] = [
    (closed_qa("names the borough"), "names the borough", {"Y": 1.0, "N": 0.0}),
    (factuality("It is in Queens."), "It is in Queens.", {"A": 0.4, "B": 0.6, "C": 1.0, "D": 0.0, "E": 1.0}),
    (summarizes("A long text about JFK."), "A long text about JFK.", {"A": 1.0, "B": 0.5, "C": 0.0}),
    (rubric("tone", "is {{output}} friendly"), "is {{output}} friendly", {"meets": 1.0, "partly meets": 0.5}),
    (rubric("tone", "friendly", {"warm": 1, "cold": 0.25}), '"warm", "cold"', {"warm": 1.0, "cold": 0.25}),
]


@pytest.mark.parametrize(("recipe", "words", "scores"), RECIPES, ids=[recipe.name for recipe, _, _ in RECIPES])
def test_each_recipe_asks_its_question(recipe: Recipe, words: str, scores: dict[str, float]) -> None:
    """The prompt holds the recipe's words and the material, literally; every choice has the score that is said."""
    for choice, score in scores.items():
        outcome, server = asked(chooses(choice), recipe)
        assert (outcome.score, outcome.choice) == (score, choice)
        [prompt] = server.prompts
        assert words in prompt
        assert MATERIAL.output in prompt
        assert outcome.prompt == prompt
        [offered] = server.requests[0]["tools"]
        assert offered["function"]["parameters"]["properties"]["choice"]["enum"] == list(recipe.scores)


@pytest.mark.parametrize("model", ["acme-judge", "gpt-5-mini", "gpt-5.1"])
def test_every_model_is_asked_in_the_same_way(model: str) -> None:
    """One request to chat completions with the key as bearer, whatever the model is called, and its usage is kept."""
    outcome, server = asked(chooses("Y"), model=model)
    [request] = server.requests
    assert (request["path"], request["model"]) == ("/v1/chat/completions", model)
    assert request["authorization"] == f"Bearer {KEY}"
    assert outcome.usage == Usage(input_tokens=100, output_tokens=30, cache_read_tokens=20, requests=1)


def test_usage_has_a_price_also_where_the_answer_has_none() -> None:
    """What was asked costs, whether or not its answer could be read; without a price the cost is not known."""
    pricing = ({"acme-*": Price(input_per_mtok=10, output_per_mtok=100, cache_read_per_mtok=1)},)
    outcome, _ = asked(says("prose"), pricing=pricing)
    assert (outcome.code, outcome.cost) == ("judge-unparsable", Decimal("0.00402"))
    outcome, _ = asked(chooses("Y"))
    assert (outcome.score, outcome.cost) == (1.0, None)


def test_one_client_serves_many_judgements() -> None:
    """Fifty judgements at once over one client have fifty prompts and their own answers."""

    def answer(body: dict[str, Any]) -> Reply:
        return chooses("Y" if "even" in body["messages"][0]["content"] else "N")

    async def all_of_them(url: str) -> list[JudgeOutcome]:
        judge = ResolvedJudge(model="acme-judge", base_url=url, api_key=KEY)
        async with JudgeClients() as clients:
            materials = [JudgeMaterial(output="odd" if number % 2 else "is even") for number in range(50)]
            calls = [judge_once(closed_qa("c"), material, judge, clients) for material in materials]
            return await asyncio.gather(*calls)

    with judge_server(answer) as server:
        outcomes = asyncio.run(all_of_them(server.url))
    assert [outcome.score for outcome in outcomes] == [1.0, 0.0] * 25


def test_a_rubrics_hash_is_of_the_question_and_not_of_the_case() -> None:
    """A calibration holds for every reference of a recipe, and for no other criterion or scale."""
    make: list[Callable[[], Recipe]] = [
        lambda: closed_qa("a"),
        lambda: closed_qa("b"),
        lambda: factuality("x"),
        lambda: summarizes("x"),
        lambda: rubric("r", "a"),
        lambda: rubric("r", "a", {"good": 1, "bad": 0}),
        lambda: rubric("r", "a", {"good": 1, "bad": 0.1}),
    ]
    hashes = [recipe().rubric_hash for recipe in make]
    assert len(set(hashes)) == len(hashes)
    assert hashes == [recipe().rubric_hash for recipe in make]
    assert factuality("x").rubric_hash == factuality("y").rubric_hash
    assert rubric("r", "a").rubric_hash == rubric("another label", "a").rubric_hash


def test_the_key_is_in_no_text_of_a_judge() -> None:
    """Neither the resolved judge nor what came of it shows the key, also where the material or the answer holds it."""
    outcome, _ = asked(chooses("Y", f"the key is {KEY}"), closed_qa(f"is there {KEY}?"))
    judge = ResolvedJudge(model="m", base_url="http://127.0.0.1:1", api_key=KEY)
    assert KEY not in repr(judge)
    assert outcome.score == 1.0
    assert KEY not in f"{outcome.rationale} {outcome.prompt} {outcome.answer}"
