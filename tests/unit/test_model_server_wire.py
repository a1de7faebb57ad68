"""The scripted model server as plain HTTP clients and command-line agents use it: tool names, side requests, faults."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from niceeval._base.errors import AuthorError
from niceeval.testing import ModelServer, model_server
from niceeval.testing.scenarios import (
    READY_MADE,
    Operation,
    Scenario,
    call,
    cut,
    edit,
    fail,
    mcp,
    rate_limited,
    read,
    say,
    shell,
    slow,
    structured,
    task,
    tool,
    write,
)

LIMIT = 30
"""Seconds after which a wait is given up: a failure, not a measure."""


def post(server: ModelServer, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    """Status and JSON body of a request that is not streamed."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)
    raw = body if isinstance(body, bytes) else json.dumps(body)
    connection.request("POST", path, raw, {"content-type": "application/json", **headers})
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def messages(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}


@pytest.fixture(scope="module")
def ready() -> Iterator[ModelServer]:
    with model_server(*READY_MADE) as running:
        yield running


# Tool names --------------------------------------------------------------------------------------------------------


def properties(*names: str, required: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": list(required)}


CLAUDE = {
    "Bash": properties("command", "description", required=("command",)),
    "Read": properties("file_path"),
    "Write": properties("file_path", "content"),
    "Edit": properties("file_path", "old_string", "new_string"),
    "Agent": properties("description", "prompt", "subagent_type"),
    "mcp__echo__say": properties("text"),
}
OPENCODE = {
    "bash": properties("command", "description", required=("command", "description")),
    "read": properties("filePath"),
    "write": properties("filePath", "content"),
    "edit": properties("filePath", "oldString", "newString"),
    "task": properties("description", "prompt", "subagent_type"),
    "echo_say": properties("text"),
}
BUB = {
    "bash": properties("cmd"),
    "fs_read": properties("path"),
    "fs_write": properties("path", "content"),
    "fs_edit": properties("path", "old", "new"),
    "subagent": properties("prompt"),
    "mcp.echo.say": properties("text"),
}
GEMINI = {
    "run_shell_command": properties("command", "description"),
    "read_file": properties("absolute_path"),
    "write_file": properties("file_path", "content"),
    "replace": properties("file_path", "old_string", "new_string", "instruction", required=("instruction",)),
    "mcp_echo_say": properties("text"),
}


def anthropic_call(server: ModelServer, tools: Mapping[str, Any]) -> tuple[str, Any]:
    listed = [{"name": name, "input_schema": schema} for name, schema in tools.items()]
    status, answer = post(server, "/v1/messages", messages("go", tools=listed))
    assert status == 200, answer
    block = answer["content"][0]
    return block["name"], block["input"]


def chat_call(server: ModelServer, tools: Mapping[str, Any]) -> tuple[str, Any]:
    listed = [{"type": "function", "function": {"name": name, "parameters": s}} for name, s in tools.items()]
    status, answer = post(server, "/v1/chat/completions", messages("go", tools=listed))
    assert status == 200, answer
    function = answer["choices"][0]["message"]["tool_calls"][0]["function"]
    return function["name"], json.loads(function["arguments"])


def gemini_call(server: ModelServer, tools: Mapping[str, Any]) -> tuple[str, Any]:
    listed = [{"name": name, "parametersJsonSchema": schema} for name, schema in tools.items()]
    body = {"contents": [{"role": "user", "parts": [{"text": "go"}]}], "tools": [{"functionDeclarations": listed}]}
    status, answer = post(server, "/v1beta/models/m:generateContent?key=abcdef123", body)
    assert status == 200, answer
    called = answer["candidates"][0]["content"]["parts"][0]["functionCall"]
    return called["name"], called["args"]


Caller = Callable[[ModelServer, Mapping[str, Any]], tuple[str, Any]]
PATH, TEXT, OLD, NEW = "a b.txt", "it's", "x", "y"
TOLD = "scripted shell"
DONE_BY: list[tuple[Caller, Mapping[str, Any], Operation, str, dict[str, Any]]] = [
    (anthropic_call, CLAUDE, shell("ls"), "Bash", {"command": "ls", "description": TOLD}),
    (anthropic_call, CLAUDE, write(PATH, TEXT), "Write", {"file_path": PATH, "content": TEXT}),
    (anthropic_call, CLAUDE, edit(PATH, OLD, NEW), "Edit", {"file_path": PATH, "old_string": OLD, "new_string": NEW}),
    (anthropic_call, CLAUDE, read(PATH), "Read", {"file_path": PATH}),
    (
        anthropic_call,
        CLAUDE,
        task("help", "aid"),
        "Agent",
        {"prompt": "help", "description": "aid", "subagent_type": "general-purpose"},
    ),
    (anthropic_call, CLAUDE, mcp("echo", "say", text="hi"), "mcp__echo__say", {"text": "hi"}),
    (chat_call, OPENCODE, shell("ls"), "bash", {"command": "ls", "description": TOLD}),
    (chat_call, OPENCODE, write(PATH, TEXT), "write", {"filePath": PATH, "content": TEXT}),
    (chat_call, OPENCODE, edit(PATH, OLD, NEW), "edit", {"filePath": PATH, "oldString": OLD, "newString": NEW}),
    (chat_call, OPENCODE, read(PATH), "read", {"filePath": PATH}),
    (
        chat_call,
        OPENCODE,
        task("help", "aid"),
        "task",
        {"prompt": "help", "description": "aid", "subagent_type": "general"},
    ),
    (chat_call, OPENCODE, mcp("echo", "say", text="hi"), "echo_say", {"text": "hi"}),
    (chat_call, BUB, shell("ls"), "bash", {"cmd": "ls"}),
    (chat_call, BUB, write(PATH, TEXT), "fs_write", {"path": PATH, "content": TEXT}),
    (chat_call, BUB, edit(PATH, OLD, NEW), "fs_edit", {"path": PATH, "old": OLD, "new": NEW}),
    (chat_call, BUB, read(PATH), "fs_read", {"path": PATH}),
    (chat_call, BUB, task("help"), "subagent", {"prompt": "help"}),
    (chat_call, BUB, mcp("echo", "say", text="hi"), "mcp.echo.say", {"text": "hi"}),
    (gemini_call, GEMINI, shell("ls"), "run_shell_command", {"command": "ls", "description": TOLD}),
    (gemini_call, GEMINI, write(PATH, TEXT), "write_file", {"file_path": PATH, "content": TEXT}),
    (
        gemini_call,
        GEMINI,
        edit(PATH, OLD, NEW),
        "replace",
        {"file_path": PATH, "old_string": OLD, "new_string": NEW, "instruction": "scripted edit"},
    ),
    (gemini_call, GEMINI, read(PATH), "read_file", {"absolute_path": PATH}),
    (gemini_call, GEMINI, mcp("echo", "say", text="hi"), "mcp_echo_say", {"text": "hi"}),
    (chat_call, {}, tool("any_name", deep={"n": [1]}), "any_name", {"deep": {"n": [1]}}),
    (chat_call, {"bash": properties("command")}, read(PATH), "bash", {"command": "cat -- 'a b.txt'"}),
    (
        chat_call,
        {"bash": properties("command")},
        write(PATH, TEXT),
        "bash",
        {"command": """printf %s 'it'"'"'s' > 'a b.txt'"""},
    ),
    (
        chat_call,
        {"shell": {"type": "object", "properties": {"command": {"type": "array"}}}},
        shell("ls"),
        "shell",
        {"command": ["sh", "-c", "ls"]},
    ),
]


@pytest.mark.parametrize(("caller", "tools", "operation", "name", "arguments"), DONE_BY)
def test_an_operation_is_done_with_the_tool_that_is_offered(
    caller: Caller, tools: Mapping[str, Any], operation: Operation, name: str, arguments: dict[str, Any]
) -> None:
    """One script fits every agent: names and arguments are those of the request's tools."""
    with model_server(call(operation)) as server:
        found, given_arguments = caller(server, tools)
    assert found == name
    assert {key: value for key, value in given_arguments.items() if key in arguments} == arguments
    assert set(given_arguments) - set(arguments) <= {"description"}


CODEX_PATCHES = [
    (write("n.txt", "one\ntwo"), "*** Begin Patch\n*** Add File: n.txt\n+one\n+two\n*** End Patch"),
    (edit("n.txt", "one", "1"), "*** Begin Patch\n*** Update File: n.txt\n@@\n-one\n+1\n*** End Patch"),
]


@pytest.mark.parametrize(("operation", "patch"), CODEX_PATCHES)
def test_codex_files_are_patches(operation: Operation, patch: str) -> None:
    """A custom tool takes free text; without it, the shell that knows patches is given one."""
    shell_tool = {"type": "function", "name": "exec_command", "parameters": properties("cmd")}
    with model_server(call(operation)) as server:
        offered = [shell_tool, {"type": "custom", "name": "apply_patch"}]
        _, with_tool = post(server, "/v1/responses", {"model": "m", "input": "go", "tools": offered})
        _, without = post(server, "/v1/responses", {"model": "m", "input": "go", "tools": [shell_tool]})
    custom, function = with_tool["output"][0], without["output"][0]
    assert (custom["type"], custom["name"], custom["input"]) == ("custom_tool_call", "apply_patch", patch)
    command = json.loads(function["arguments"])["cmd"]
    assert command.startswith(("apply_patch <<", "printf %s"))
    assert function["name"] == "exec_command"


def test_codex_namespaces_come_back_with_the_call() -> None:
    """A tool that was offered in a namespace is called with it."""
    groups = [
        {
            "type": "namespace",
            "name": "multi_agent_v1",
            "tools": [{"type": "function", "name": "spawn_agent", "parameters": properties("message")}],
        },
        {
            "type": "namespace",
            "name": "mcp__echo",
            "tools": [{"type": "function", "name": "say", "parameters": properties("text")}],
        },
    ]
    with model_server(call(task("help"), mcp("echo", "say", text="hi"))) as server:
        _, answer = post(server, "/v1/responses", {"model": "m", "input": "go", "tools": groups})
    told = [(item["namespace"], item["name"], json.loads(item["arguments"])) for item in answer["output"]]
    assert told == [("multi_agent_v1", "spawn_agent", {"message": "help"}), ("mcp__echo", "say", {"text": "hi"})]


def test_tools_that_are_held_back_are_searched_for_first() -> None:
    """A search takes no step; what it brings is in the conversation, and is then called. A second one is not tried."""
    spawn = {"type": "function", "name": "spawn_agent", "parameters": properties("message")}
    group = {"type": "namespace", "name": "multi_agent_v1", "tools": [spawn]}
    search = {"type": "tool_search", "execution": "client", "parameters": properties("query", required=("query",))}
    history: list[Any] = [{"role": "user", "content": "SCENARIO:give"}]
    with model_server(Scenario("give", [call(task("help"), text="I give it away."), say("Given.")])) as server:
        body = {"model": "m", "tools": [search]}
        _, first = post(server, "/v1/responses", {**body, "input": history})
        (searched,) = first["output"]
        assert (searched["type"], searched["execution"]) == ("tool_search_call", "client")
        found = {"type": "tool_search_output", "call_id": searched["call_id"], "tools": [group]}
        _, second = post(server, "/v1/responses", {**body, "input": [*history, searched, found]})
        called = second["output"][-1]
        assert (called["namespace"], called["name"]) == ("multi_agent_v1", "spawn_agent")
        assert [(request.scenario, request.step) for request in server.requests] == [("give", 0), ("give", 0)]
        nothing = {**found, "tools": []}
        assert post(server, "/v1/responses", {**body, "input": [*history, searched, nothing]})[0] == 400


def test_a_subagent_that_has_to_finish_by_a_tool_does() -> None:
    """A last text is also given through the tool without which the subagent would go on."""
    finish = {"name": "complete_task", "parametersJsonSchema": properties("response", required=("response",))}
    body = {
        "contents": [{"role": "user", "parts": [{"text": "go"}]}],
        "tools": [{"functionDeclarations": [finish]}],
    }
    with model_server("All done.") as server:
        _, answer = post(server, "/v1beta/models/m:generateContent", body)
    text, called = answer["candidates"][0]["content"]["parts"]
    assert text == {"text": "All done."}
    assert (called["functionCall"]["name"], called["functionCall"]["args"]) == (
        "complete_task",
        {"response": "All done."},
    )


def test_the_next_turn_needs_its_own_marker() -> None:
    """A marker counts for its turn; what a client adds to that turn afterwards does not end it."""
    results = {"role": "tool", "tool_call_id": "call_x", "content": "ok"}
    asks = {"role": "assistant", "content": "", "tool_calls": [{"id": "call_x", "function": {"name": "a"}}]}
    begun: list[Any] = [{"role": "user", "content": "SCENARIO:one"}, asks, results]
    with model_server(Scenario("one", [call(tool("a")), say("Second.")]), Scenario("two", [say("x")])) as server:
        added = [*begun, {"role": "user", "content": "<reminder>be brief</reminder>"}]
        _, answer = post(server, "/v1/chat/completions", {"model": "m", "messages": added})
        assert answer["choices"][0]["message"]["content"] == "Second."
        over = [*begun, {"role": "assistant", "content": "Second."}, {"role": "user", "content": "And now?"}]
        assert post(server, "/v1/chat/completions", {"model": "m", "messages": over})[0] == 400


# Beside the conversation -------------------------------------------------------------------------------------------

VERDICT = {
    "type": "object",
    "properties": {"risk_level": {"enum": ["high", "low"]}, "outcome": {"enum": ["deny", "allow"]}},
    "required": ["risk_level", "outcome"],
}
SIDES: list[tuple[str, str, dict[str, Any], str]] = [
    ("title", "/v1/chat/completions", {"system": "You are a title generator. ..."}, "Scripted conversation"),
    ("summary", "/v1/responses", {"text": "You are performing a CONTEXT CHECKPOINT COMPACTION."}, "Scripted summary"),
    ("verdict", "/v1/responses", {"schema": VERDICT}, '{"risk_level": "low", "outcome": "allow"}'),
    ("warm-up", "/v1/messages", {"text": "Warmup"}, "Ready."),
]


@pytest.mark.parametrize(("name", "path", "asked", "answered"), SIDES, ids=[side[0] for side in SIDES])
def test_side_requests_take_no_step(name: str, path: str, asked: dict[str, Any], answered: str) -> None:
    """Titles, summaries, verdicts and warm-ups are answered beside the script, which goes on where it was."""
    text = asked.get("text", "SCENARIO:one")
    listed = [{"role": "user", "content": text}]
    if "system" in asked:
        listed.insert(0, {"role": "system", "content": asked["system"]})
    body: dict[str, Any] = {"model": "m", "input" if path == "/v1/responses" else "messages": listed}
    if "schema" in asked:
        body["text"] = {"format": {"type": "json_schema", "name": "v", "schema": asked["schema"]}}
    with model_server(Scenario("one", [say("The first step.")])) as server:
        status, answer = post(server, path, body)
        assert (status, server.requests[0].scenario, server.requests[0].step) == (200, name, None)
        assert answered in json.dumps(answer).replace('\\"', '"')
        _, main = post(server, "/v1/messages", messages("SCENARIO:one"))
        assert main["content"][0]["text"] == "The first step."
        assert not server.unscripted


def test_a_finished_background_task_is_noted() -> None:
    """A client that tells of a background task after the last step gets an answer, not a fault."""
    history = [
        {"role": "user", "content": "SCENARIO:one"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "<task-notification>finished</task-notification>"},
    ]
    with model_server(Scenario("one", [say("Done.")]), Scenario("two", [say("x")])) as server:
        status, answer = post(server, "/v1/messages", {"model": "m", "messages": history})
    assert (status, answer["content"][0]["text"]) == (200, "Noted.")


@pytest.mark.parametrize(
    ("method", "path", "status", "unscripted"),
    [
        ("HEAD", "/api/hello", 200, 0),
        ("GET", "/api/hello", 200, 0),
        ("GET", "/v1/models/unknown", 404, 0),
        ("POST", "/v1/analytics/codex/turn-costs", 404, 0),
        ("POST", "/api/event_logging/batch", 404, 0),
        ("POST", "/v1/embeddings", 404, 1),
        ("DELETE", "/v1/files/x", 404, 1),
    ],
)
def test_other_requests_are_harmless_or_told(method: str, path: str, status: int, unscripted: int) -> None:
    """What clients send home gets an answer; what nobody foresaw is listed."""
    with model_server("Hi") as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)
        connection.request(method, path)
        assert connection.getresponse().status == status
        connection.close()
        assert len(server.unscripted) == unscripted
        assert [(request.method, request.path) for request in server.requests] == [(method, path)]


# Going on, and not for ever ----------------------------------------------------------------------------------------


def test_a_client_that_forgets_results_does_not_loop() -> None:
    """After compaction a client that names its conversation goes on where it was; the script does not begin again."""
    steps = [call(shell(f"echo {number}")) for number in range(3)]
    offered = [{"type": "function", "name": "exec_command", "parameters": properties("cmd")}]
    history: list[Any] = [{"role": "user", "content": "SCENARIO:long"}]
    commands = []
    with model_server(Scenario("long", [*steps, say("Done.")]), Scenario("other", [say("x")])) as server:
        body = {"model": "m", "tools": offered, "prompt_cache_key": "thread-1"}
        for turn in range(4):
            _, answer = post(server, "/v1/responses", {**body, "input": history})
            item = answer["output"][0]
            if item["type"] == "message":
                commands.append(item["content"][0]["text"])
                break
            commands.append(json.loads(item["arguments"])["cmd"])
            history += [item, {"type": "function_call_output", "call_id": item["call_id"], "output": "ok"}]
            if turn == 1:
                del history[1:]
    assert commands == ["echo 0", "echo 1", "echo 2", "Done."]


def test_a_loop_ends_with_an_error() -> None:
    """A client that asks the same again and again is stopped, each conversation by itself."""
    with model_server(Scenario("round", [call(tool("again"))]), max_answers=3) as server:
        statuses = []
        for session in ("a", "a", "a", "a", "b"):
            body = messages("SCENARIO:round", metadata={"user_id": session})
            statuses.append(post(server, "/v1/messages", body)[0])
        assert statuses == [200, 200, 200, 400, 200]
        assert "goes in circles" in (server.unscripted[0].problem or "")


def test_a_matcher_selects_where_no_marker_does() -> None:
    """A request can also be known by what it is."""
    with model_server(
        Scenario("large", [say("Large.")], matches=lambda request: request.model == "large"),
        Scenario("small", [say("Small.")]),
    ) as server:
        assert post(server, "/v1/messages", {**messages("hi"), "model": "large"})[1]["content"][0]["text"] == "Large."
        assert post(server, "/v1/messages", messages("SCENARIO:small"))[1]["content"][0]["text"] == "Small."
        assert post(server, "/v1/messages", messages("hi"))[0] == 400


def test_a_step_that_raises_is_told() -> None:
    """A mistake in a step's function is the client's 400 and stands in `unscripted`, with its own words."""

    def broken(request: object) -> str:
        raise RuntimeError("no such thing")

    with model_server(broken) as server:
        status, answer = post(server, "/v1/messages", messages("hi"))
        assert status == 400
        assert "RuntimeError('no such thing')" in answer["error"]["message"]
        assert len(server.unscripted) == 1


# Gemini ------------------------------------------------------------------------------------------------------------


def test_gemini_streams_parts_and_counts_thoughts_apart() -> None:
    """Thoughts, text and usage come as Gemini says them; a turn of results goes on to the next step."""
    steps = [call(shell("ls"), shell("pwd"), thinking="Hm."), say("Done.")]
    declared = [{"name": "run_shell_command", "parametersJsonSchema": properties("command")}]
    contents: list[Any] = [{"role": "user", "parts": [{"text": "go"}]}]
    path = "/v1beta/models/gemini-x:streamGenerateContent?alt=sse&key=secret-key-1"
    with model_server(*steps) as server:
        texts = []
        for _ in steps:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)
            body = {"contents": contents, "tools": [{"functionDeclarations": declared}]}
            connection.request("POST", path, json.dumps(body))
            lines = connection.getresponse().read().decode().splitlines()
            connection.close()
            chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line]
            parts = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]
            texts.append("".join(part.get("text", "") for part in parts))
            calls = [part["functionCall"] for part in parts if "functionCall" in part]
            results = [{"functionResponse": {"name": c["name"], "response": {"output": "ok"}}} for c in calls]
            # The ids are not sent back by every client.
            told = [{"functionCall": {"name": c["name"], "args": c["args"]}} for c in calls]
            contents += [{"role": "model", "parts": told}, {"role": "user", "parts": results}]
        assert texts == ["Hm.", "Done."]
        assert chunks[-1]["usageMetadata"] == {
            "promptTokenCount": 100,
            "candidatesTokenCount": 20,
            "totalTokenCount": 120,
        }
        assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"
        assert "secret-key-1" not in repr(server.requests)
        assert server.requests[0].model is not None
        assert server.requests[0].model.model == "gemini-x"


# Faults ------------------------------------------------------------------------------------------------------------


def test_a_slow_answer_ends_when_the_client_leaves() -> None:
    """Nobody waits for an answer that nobody reads."""
    with model_server(slow("Never to be read.", 600)) as server:
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT)
        body = json.dumps(messages("hi", stream=True)).encode()
        head = f"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        connection.sendall(head + body)
        assert connection.recv(15) == b"HTTP/1.1 200 OK"
        connection.close()
        assert server.wait_for(lambda requests: requests[-1].outcome == "abandoned", LIMIT)


def test_stopping_ends_a_slow_answer() -> None:
    """A server that stops does not wait for its own script; what was asked is still there."""
    with model_server(slow("Never.", 600)) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)
        connection.request("POST", "/v1/messages", json.dumps(messages("hi", stream=True)))
        response = connection.getresponse()
        assert response.readline().startswith(b"event: message_start")
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        response.read()
    connection.close()
    assert server.wait_for(lambda requests: requests[0].outcome == "abandoned", LIMIT)
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT)


@pytest.mark.parametrize("stream", [True, False])
def test_a_cut_ends_in_the_middle(stream: bool) -> None:
    """The connection closes inside an event, or inside the body."""
    with model_server(cut("A longer text than that.", after=3)) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)
        connection.request("POST", "/v1/messages", json.dumps(messages("hi", stream=stream)))
        with pytest.raises(http.client.IncompleteRead) as raised:
            connection.getresponse().read()
        connection.close()
        seen = raised.value.partial
        assert seen.count(b"\n\n") == (3 if stream else 0)
        assert not seen.endswith(b"}")
        assert server.wait_for(lambda requests: requests[0].outcome == "cut", LIMIT)


BODIES: list[tuple[str, bytes, dict[str, str], int]] = [
    ("no JSON", b"{nonsense", {}, 400),
    ("no object", b"[1, 2]", {}, 400),
    ("nothing", b"", {}, 400),
    ("deep", b"[" * 100_000, {}, 400),
    ("gzip", gzip.compress(json.dumps(messages("SCENARIO:hello")).encode()), {"content-encoding": "gzip"}, 200),
    ("not gzip", b"{}", {"content-encoding": "gzip"}, 400),
    ("a bomb", gzip.compress(b" " * (40 * 1024 * 1024)), {"content-encoding": "gzip"}, 413),
    ("another encoding", b"{}", {"content-encoding": "br"}, 415),
    ("too long", b"", {"content-length": "99999999999"}, 413),
    ("a length that is none", b"", {"content-length": "-5"}, 400),
]


@pytest.mark.parametrize(("what", "raw", "headers", "status"), BODIES, ids=[body[0] for body in BODIES])
def test_bodies_are_taken_or_refused(
    ready: ModelServer, what: str, raw: bytes, headers: dict[str, str], status: int
) -> None:
    """Whatever comes gets an answer."""
    assert post(ready, "/v1/messages", raw, **headers)[0] == status


def test_a_body_in_chunks_is_read(ready: ModelServer) -> None:
    """Some clients do not know the length of what they send."""
    connection = http.client.HTTPConnection("127.0.0.1", ready.port, timeout=LIMIT)
    raw = json.dumps(messages("SCENARIO:hello")).encode()
    connection.request("POST", "/messages", iter([raw[:10], raw[10:]]), encode_chunked=True)
    assert json.loads(connection.getresponse().read())["content"][0]["text"] == "Hello from the script."
    connection.close()


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=6,
)
FIELDS = ("messages", "input", "contents", "tools", "system", "role", "content", "type", "parts", "stream", "text")


@settings(max_examples=25, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(FIELDS),
        JSON_VALUES | st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON_VALUES, max_size=4), max_size=3),
    ),
    st.sampled_from(["/v1/messages", "/v1/responses", "/v1/chat/completions", "/v1beta/models/m:generateContent"]),
)
def test_no_body_breaks_the_server(ready: ModelServer, body: dict[str, Any], path: str) -> None:
    """A body of any shape is a 400 or an answer, never a broken connection."""
    assert post(ready, path, {**body, "stream": False})[0] in (200, 400)


# What authors write ------------------------------------------------------------------------------------------------

MISTAKES: list[Callable[[], object]] = [
    lambda: model_server(),
    lambda: model_server(say("a"), Scenario("b", [say("c")])),
    lambda: model_server(Scenario("a", [say("b")]), Scenario("a", [say("c")])),
    lambda: model_server("a", host="example.com"),
    lambda: model_server("a", port=70000),
    lambda: model_server("a", max_answers=0),
    lambda: Scenario("with space", [say("a")]),
    lambda: Scenario("a", []),
    lambda: Scenario("a", "text"),
    lambda: Scenario("a", [3]),  # type: ignore[list-item]
    lambda: fail(200),
    lambda: rate_limited(0, "a"),
    lambda: slow("a", -1),
    lambda: slow("a", float("nan")),
    lambda: cut("a", after=-1),
    lambda: call(),
    lambda: shell(3),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_a_script_are_named(mistake: Callable[[], object]) -> None:
    """What cannot be meant is said where it is written, not when a client asks."""
    with pytest.raises(AuthorError) as raised:
        mistake()
    assert raised.value.code == "bad-argument"
    assert raised.value.next_step()


def test_a_port_that_is_taken_is_told() -> None:
    """The error names the address and what to give instead."""
    with model_server("a") as server, pytest.raises(AuthorError, match=str(server.port)) as raised:
        model_server("b", port=server.port).start()
    assert raised.value.code == "model-server-address"


def test_it_serves_inside_an_event_loop_and_other_hosts() -> None:
    """`async with` works as `with` does; the address can be said as another machine names it."""

    async def within() -> int:
        async with model_server(structured([1, 2]), host="127.0.0.1") as server:
            assert server.url_for("host.docker.internal") == f"http://host.docker.internal:{server.port}"
            assert server.openai_url == f"{server.url}/v1"
            status, _ = await asyncio.to_thread(post, server, "/v1/chat/completions", messages("hi"))
            return status

    assert asyncio.run(within()) == 200
