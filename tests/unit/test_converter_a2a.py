"""A2A's answers, as the SDK's objects and as they are on the wire, into turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval.adapter import InputRequested, Turn
from niceeval.converters import a2a

types: Any = pytest.importorskip("a2a.types", reason="pip install 'niceeval[a2a]'")

from google.protobuf.json_format import ParseDict  # noqa: E402

Json = dict[str, Any]


def message(text: str, id: str = "m1", role: str = "ROLE_AGENT") -> Json:
    return {"messageId": id, "role": role, "parts": [{"text": text}]}


def status(state: str, text: str | None = None, id: str = "s1") -> Json:
    said = {} if text is None else {"message": message(text, id)}
    return {"taskId": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state}", **said}}


def update(state: str, text: str | None = None, id: str = "s1") -> Json:
    return {"statusUpdate": status(state, text, id)}


def artifact(*parts: Json, id: str = "a1", append: bool = False) -> Json:
    return {"artifactUpdate": {"taskId": "t", "artifact": {"artifactId": id, "parts": list(parts)}, "append": append}}


def task(state: str, **more: Any) -> Json:
    return {"task": {"id": "t", "contextId": "c", "status": status(state)["status"], **more}}


BEGUN = task("SUBMITTED", history=[message("hello", "u1", "ROLE_USER")])
DONE = update("COMPLETED")

TURNS: Mapping[str, tuple[list[Json], list[str], str]] = {
    "success": ([BEGUN, update("WORKING", "Looking."), DONE], ["Message(Looking.)"], "completed"),
    "a message, no task": ([{"message": message("Hello.")}], ["Message(Hello.)"], "completed"),
    "empty answer": ([BEGUN, DONE], [], "completed"),
    "an artifact in pieces": (
        [BEGUN, artifact({"text": "One "}), artifact({"text": "two."}, append=True), DONE],
        ["Message(One two.)"],
        "completed",
    ),
    "an artifact that is replaced": (
        [BEGUN, artifact({"text": "One."}), artifact({"text": "Two."}), DONE],
        ["Message(Two.)"],
        "completed",
    ),
    "pieces of two artifacts": (
        [
            BEGUN,
            artifact({"text": "One "}),
            artifact({"text": "Other "}, id="a2"),
            artifact({"text": "more."}, append=True),
            artifact({"text": "thing."}, id="a2", append=True),
            DONE,
        ],
        ["Message(One more.)", "Message(Other thing.)"],
        "completed",
    ),
    "an end that repeats": (
        [BEGUN, artifact({"text": "It is fine."}), update("COMPLETED", "It is fine.")],
        ["Message(It is fine.)"],
        "completed",
    ),
    "a whole task": (
        [
            task(
                "COMPLETED",
                history=[message("hello", "u1", "ROLE_USER"), message("Looking.", "m1")],
                artifacts=[{"artifactId": "a1", "parts": [{"text": "Fine."}]}],
            )
        ],
        ["Message(Looking.)", "Message(Fine.)"],
        "completed",
    ),
    "a question": (
        [BEGUN, update("INPUT_REQUIRED", "Which?")],
        ["Message(Which?)", "InputRequested(Which?)"],
        "waiting",
    ),
    "a question without words": (
        [BEGUN, update("INPUT_REQUIRED")],
        ["InputRequested(input is required)"],
        "waiting",
    ),
    "a login": ([BEGUN, update("AUTH_REQUIRED")], ["InputRequested(authentication is required)"], "waiting"),
    "a failure": (
        [BEGUN, update("FAILED", "No stock.")],
        ["Message(No stock.)", "ErrorEvent(the task is failed: No stock.)"],
        "failed",
    ),
    "a failure without words": ([BEGUN, update("REJECTED")], [], "failed"),
}


def objects(responses: list[Json]) -> list[Any]:
    return [ParseDict(response, types.StreamResponse()) for response in responses]


def shown(turn: Turn) -> list[str]:
    return [f"{type(event).__name__}({_word(event)})" for event in turn.events]


def _word(event: Any) -> str:
    return event.request.prompt if isinstance(event, InputRequested) else getattr(event, "text", None) or event.message


@pytest.mark.parametrize(("responses", "events", "ending"), TURNS.values(), ids=TURNS.keys())
def test_answers(responses: list[Json], events: list[str], ending: str) -> None:
    """Each answer gives its events, whether it comes as objects or as JSON."""
    turn = a2a.to_turn(objects(responses))
    assert (shown(turn), turn.status, turn.evidence_coverage) == (events, ending, None)
    assert a2a.to_turn(responses) == turn


def test_version_0_3() -> None:
    """What is on the wire in version 0.3 is read as well."""
    said = {"kind": "message", "messageId": "m1", "role": "agent", "parts": [{"kind": "text", "text": "Which?"}]}
    responses = [
        {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "submitted"}},
        {
            "kind": "artifact-update",
            "taskId": "t",
            "artifact": {
                "artifactId": "a",
                "parts": [{"kind": "data", "data": {"n": 1}}, {"kind": "file", "file": {}}],
            },
        },
        {"kind": "status-update", "taskId": "t", "status": {"state": "input-required", "message": said}},
    ]
    turn = a2a.to_turn(responses)
    assert shown(turn) == ['Message({"n": 1})', "Message(Which?)", "InputRequested(Which?)"]
    assert levels(turn) == {"messages": "partial"}
    assert shown(a2a.to_turn([said])) == ["Message(Which?)"]


def test_data() -> None:
    """The last data part is the turn's data where that is wanted; the SDK's floats are whole numbers again."""
    responses = [BEGUN, artifact({"data": {"n": [3, 0.5, True]}}), artifact({"data": {"n": 4}}, id="a2"), DONE]
    turn = a2a.to_turn(objects(responses), wants_data=True)
    assert (repr(turn.data), shown(turn)) == ("{'n': 4}", [])
    assert shown(a2a.to_turn(objects(responses))) == ['Message({"n": [3, 0.5, true]})', 'Message({"n": 4})']


def test_what_an_earlier_turn_had() -> None:
    """A task that goes on repeats what it had: what is known is not said again."""
    reading = a2a.Reading()
    for response in [BEGUN, artifact({"text": "One."}), update("INPUT_REQUIRED", "Which?")]:
        reading.add(response)
    assert (reading.task_id, reading.context_id, reading.asks) == ("t", "c", True)
    whole = task(
        "COMPLETED",
        history=[message("Which?", "s1"), message("On it.", "m9")],
        artifacts=[{"artifactId": "a1", "parts": [{"text": "One."}]}],
    )
    assert shown(a2a.to_turn([whole], known=reading.ids)) == ["Message(On it.)"]


def levels(turn: Turn) -> dict[str, str]:
    return {channel: found.level for channel, found in (turn.evidence_coverage or {}).items()}


def test_what_is_missing() -> None:
    """An answer without an end, in an unknown state, or of unknown kinds is partial; none of it is a success."""
    rows: dict[str, tuple[list[Any], str]] = {
        "nothing": ([], "failed"),
        "no end": ([BEGUN, update("WORKING")], "failed"),
        "a state that is new": ([{"statusUpdate": {"status": {"state": "TASK_STATE_PAUSED"}}}], "completed"),
    }
    for name, (responses, ending) in rows.items():
        turn = a2a.to_turn(responses)
        assert (turn.status, levels(turn).get("status")) == (ending, "partial"), name
    for odd in ({"hologram": {}}, "text", {"kind": "hologram"}):
        assert levels(a2a.to_turn([BEGUN, odd, DONE]))["messages"] == "partial"


def test_an_error() -> None:
    """An error of the agent's own fails the turn; a stream that raises keeps what has come."""
    reading = a2a.Reading()
    reading.add(update("WORKING", "Looking."))
    reading.failed("it is on fire")
    assert shown(reading.finish().turn) == ["Message(Looking.)", "ErrorEvent(it is on fire)"]

    async def responses() -> AsyncIterator[Any]:
        yield objects([update("WORKING", "Looking.")])[0]
        raise ConnectionError("reset")

    turn = asyncio.run(a2a.to_turn_stream(responses()))
    assert (shown(turn), turn.status, levels(turn)["messages"]) == (["Message(Looking.)"], "failed", "partial")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = ["task", "message", "statusUpdate", "artifactUpdate", "kind", "status", "history", "artifacts", "artifact"]
FIELDS += ["parts", "role", "state", "messageId"]


@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON | st.dictionaries(st.sampled_from(FIELDS), JSON)) | JSON))
def test_whatever_a_server_sends(responses: list[Any]) -> None:
    """No answer raises."""
    assert a2a.to_turn(responses).status in ("completed", "failed", "waiting")


def test_situations() -> None:
    """What the protocol can show of a run is said for each of the ten situations."""
    from niceeval.converters import ui_message_stream

    assert list(a2a.situations) == list(ui_message_stream.situations)
    assert all(a2a.situations.values())
