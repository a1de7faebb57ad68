"""A small agent that speaks the Agent Client Protocol: what a prompt says is what it does. Standard library only."""

import json
import os
import sys
import time

history = []
counter = 1000


def say(message, flush=True):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    if flush:
        sys.stdout.flush()


def update(session, **fields):
    say({"method": "session/update", "params": {"sessionId": session, "update": fields}})


def text(session, words):
    for word in words:
        update(session, sessionUpdate="agent_message_chunk", content={"type": "text", "text": word})


def call(session, id, status, **more):
    update(session, sessionUpdate="tool_call", toolCallId=id, kind="execute", title="echo", status="pending")
    update(
        session,
        sessionUpdate="tool_call_update",
        toolCallId=id,
        rawInput={"command": "echo " + id},
        status=status,
        **more,
    )


def permission(session, id):
    global counter
    counter += 1
    options = [
        {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
        {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    ]
    tool = {"toolCallId": id, "kind": "execute", "title": "echo " + id, "rawInput": {"command": "echo " + id}}
    say(
        {
            "id": counter,
            "method": "session/request_permission",
            "params": {"sessionId": session, "toolCall": tool, "options": options},
        },
        flush=False,
    )
    return counter


def read():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def answers(wanted):
    found = {}
    while set(found) != set(wanted):
        message = read()
        if message.get("id") in wanted and "method" not in message:
            found[message["id"]] = message["result"]["outcome"]
    return [found[id] for id in wanted]


def ask(session, ids):
    wanted = [permission(session, id) for id in ids]
    # All at once, so that no busy machine gets in between.
    sys.stdout.flush()
    outcomes = answers(wanted)
    for id, outcome in zip(ids, outcomes, strict=True):
        if outcome.get("optionId") == "yes":
            update(session, sessionUpdate="tool_call_update", toolCallId=id, status="completed", rawOutput=id)
        elif outcome.get("optionId") == "no":
            update(session, sessionUpdate="tool_call_update", toolCallId=id, status="failed", rawOutput="refused")
    return outcomes


def turn(session, prompt):  # noqa: C901 - one branch for each prompt
    history.append(prompt)
    if prompt == "hello":
        update(session, sessionUpdate="agent_thought_chunk", content={"type": "text", "text": "hm"})
        text(session, ["Hel", "lo"])
    elif prompt == "tools":
        call(session, "a", "completed", rawOutput="a")
        call(session, "b", "failed", content=[{"type": "content", "content": {"type": "text", "text": "no b"}}])
        text(session, ["done"])
    elif prompt == "ask":
        ask(session, ["a"])
        text(session, ["asked"])
    elif prompt == "ask two":
        ask(session, ["a", "b"])
        text(session, ["asked twice"])
    elif prompt == "history":
        text(session, [", ".join(history[:-1]) or "nothing"])
    elif prompt == "die":
        text(session, ["so long"])
        sys.stderr.write("out of cheese\n")
        sys.exit(3)
    elif prompt == "hang":
        with open("hanging", "w") as file:
            file.write(str(os.getpid()))
        time.sleep(600)
    elif prompt == "odd":
        update(session, sessionUpdate="brand_new")
        update(session, sessionUpdate="tool_call", toolCallId="x", kind=7, content=5, status="completed")
        sys.stdout.write("not json\n")
        say({"id": 5, "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}})
        while True:
            message = read()
            if message.get("id") == 5:
                text(session, [str(message["error"]["code"])])
                break
    elif prompt == "refuse":
        return {"stopReason": "refusal"}
    elif prompt == "error":
        return None
    return {
        "stopReason": "end_turn",
        "usage": {"inputTokens": 10, "outputTokens": 3, "cachedReadTokens": 4, "thoughtTokens": 1},
    }


def main():
    while True:
        message = read()
        method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method == "initialize":
            say({"id": id, "result": {"protocolVersion": 1, "agentInfo": {"name": "scripted", "version": "1.2"}}})
        elif method == "session/new":
            say({"id": id, "result": {"sessionId": "s-1", "cwd": params["cwd"]}})
        elif method == "session/set_mode" and params["modeId"] == "default":
            say({"id": id, "result": {}})
        elif method == "session/prompt":
            result = turn(params["sessionId"], params["prompt"][0]["text"])
            if result is None:
                say({"id": id, "error": {"code": 1, "message": "out of tokens"}})
            else:
                say({"id": id, "result": result})
        elif id is not None and method is not None:
            say({"id": id, "error": {"code": -32601, "message": "no such method: " + method}})


main()
