"""The example's service behaves like an agent: tools, memory, approvals, structured answers, files."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

EXAMPLE = Path(__file__).parents[2] / "examples" / "weather_desk"


@pytest.fixture
def example_on_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield
    for name in ("desk", "service", "local_service"):
        sys.modules.pop(name, None)


@pytest.fixture
def client(example_on_path: None) -> Iterator[TestClient]:
    import service

    with TestClient(service.make_app()) as client:
        yield client


def take_turn(client: TestClient, text: str, **more: Any) -> dict[str, Any]:
    response = client.post("/api/turn", json={"text": text, **more})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def steps(answer: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [step for step in answer["steps"] if step["type"] == kind]


def replies(answer: dict[str, Any]) -> str:
    return " ".join(step["text"] for step in steps(answer, "reply"))


def test_weather_is_looked_up_with_the_tool(client: TestClient) -> None:
    """A question about weather is a call, its result, and a reply that says what the result said."""
    answer = take_turn(client, "What's the weather in Brooklyn today?")
    assert [step["type"] for step in answer["steps"]] == ["call", "result", "reply"]
    assert steps(answer, "call")[0]["input"] == {"city": "Brooklyn", "day": "today"}
    assert "21 °C" in replies(answer)
    assert answer["status"] == "completed"


def test_an_unknown_city_is_a_failed_call(client: TestClient) -> None:
    """The tool fails, and the reply does not make a forecast up."""
    answer = take_turn(client, "What's the weather in Atlantis?")
    assert steps(answer, "result")[0]["status"] == "error"
    assert "°C" not in replies(answer)


def test_a_session_remembers_its_city(client: TestClient) -> None:
    """A stated city is used later in the same session."""
    first = take_turn(client, "My city is Oslo")
    later = take_turn(client, "And tomorrow?", sessionId=first["sessionId"])
    assert steps(later, "call")[0]["input"] == {"city": "Oslo", "day": "tomorrow"}


def test_a_new_session_remembers_nothing(client: TestClient) -> None:
    """Another session's city is not used."""
    take_turn(client, "My city is Oslo")
    answer = take_turn(client, "And tomorrow?")
    assert steps(answer, "call") == []
    assert replies(answer) == "Which city?"


@pytest.mark.parametrize(
    ("option", "status", "said"), [("approve", "ok", "is sent"), ("reject", "declined", "did not send")]
)
def test_mail_waits_for_an_answer(client: TestClient, option: str, status: str, said: str) -> None:
    """The call is announced, waits, and gets its result from the human's answer."""
    asked = take_turn(client, "Mail the forecast for Oslo to kari@example.com")
    assert asked["status"] == "waiting"
    (approval,) = asked["pendingApprovals"]
    assert approval["input"]["to"] == "kari@example.com"
    answered = take_turn(
        client,
        option,
        sessionId=asked["sessionId"],
        responses=[{"requestId": approval["id"], "optionId": option}],
    )
    (result,) = steps(answered, "result")
    assert result["id"] == steps(asked, "call")[-1]["id"]
    assert result["status"] == status
    assert said in replies(answered)


def test_an_open_question_lapses(client: TestClient) -> None:
    """Going on without an answer declines the mail."""
    asked = take_turn(client, "Mail the forecast for Oslo to kari@example.com")
    after = take_turn(client, "What's the weather in Lagos?", sessionId=asked["sessionId"])
    assert steps(after, "result")[0] == {
        "type": "result",
        "id": steps(asked, "call")[-1]["id"],
        "status": "declined",
        "output": {"reason": "the question was left open"},
    }


def test_structured_answer_has_the_asked_properties(client: TestClient) -> None:
    """`data` holds what the schema names, directly or behind a reference, and nothing else."""
    direct = {"type": "object", "properties": {"city": {}, "celsius": {}}}
    for schema in (direct, {"$ref": "#/$defs/F", "$defs": {"F": direct}}):
        answer = take_turn(client, "The weather in Oslo, please", outputSchema=schema)
        assert answer["data"] == {"city": "Oslo", "celsius": 4}


def test_a_picture_is_measured_from_its_bytes(client: TestClient) -> None:
    """The size comes from the PNG's header; another file is a failed call."""
    picture = {"filename": "sky.png", "mimeType": "image/png"}
    sky = base64.b64encode((EXAMPLE / "evals/files/sky.png").read_bytes()).decode()
    assert "48 x 32 pixels" in replies(take_turn(client, "", files=[{**picture, "data": sky}]))
    other = take_turn(client, "", files=[{**picture, "data": base64.b64encode(b"no picture").decode()}])
    assert steps(other, "result")[0]["status"] == "error"


def test_the_style_changes_the_answer(client: TestClient) -> None:
    """The verbose style says more, and its usage says so."""
    concise = take_turn(client, "Weather in Brooklyn tomorrow?")
    verbose = take_turn(client, "Weather in Brooklyn tomorrow?", style="verbose")
    assert "umbrella" in replies(verbose)
    assert "umbrella" not in replies(concise)
    assert verbose["usage"]["outputWords"] == len(replies(verbose).split())
    assert concise["usage"]["outputWords"] < verbose["usage"]["outputWords"]


def test_the_whole_conversation_is_read_again(client: TestClient) -> None:
    """Input usage grows with what was said before."""
    first = take_turn(client, "Weather in Oslo?")
    second = take_turn(client, "And tomorrow?", sessionId=first["sessionId"])
    assert first["usage"]["inputWords"] == 3
    assert second["usage"]["inputWords"] == 3 + first["usage"]["outputWords"] + 2


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("no json", 400),
        ("[]", 400),
        ("{}", 422),
        ('{"text": "hi", "sessionId": "s-9999"}', 404),
        ('{"text": "", "responses": [{"requestId": "r", "optionId": "approve"}]}', 409),
        ('{"text": "", "files": [{"filename": "a", "mimeType": "b", "data": "%"}]}', 422),
    ],
)
def test_wrong_requests_are_refused(client: TestClient, body: str, status: int) -> None:
    """A request that cannot be meant gets its status code and a sentence."""
    response = client.post("/api/turn", content=body)
    assert response.status_code == status
    assert response.json()["error"]


def test_the_service_runs_as_a_process(example_on_path: None) -> None:
    """It takes a free port, answers over HTTP, and stops with the process that started it."""
    from local_service import LocalService

    service = LocalService()
    service.start()
    try:
        url = service.url()
        assert httpx2.get(f"{url}/health").json() == {"ok": True, "version": "1.0"}
    finally:
        service.stop()
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{url}/health")
