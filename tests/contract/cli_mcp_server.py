"""An MCP server over stdio, of the standard library only: the agents' CLIs start it as any other server's command.

It has one tool, `count_letters`, and answers what only it can know: the word that its variable `PROBE_WORD` holds.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

TOOL = {
    "name": "count_letters",
    "description": "Counts the letters of a text.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None for a method that this server does not have."""
    if method == "initialize":
        version = params.get("protocolVersion", "2025-06-18")
        server = {"name": "letters", "version": "1.0.0"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        text = str(params["arguments"]["text"])
        if not text:
            return {"content": [{"type": "text", "text": "there is no text"}], "isError": True}
        said = f"{len(text)} letters, says {os.environ.get('PROBE_WORD', 'nobody')}"
        return {"content": [{"type": "text", "text": said}], "isError": False}
    return {} if method == "ping" else None


def main() -> None:
    """Answer one request a line until the client closes the input; notifications have no answer."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request or "method" not in request:
            continue
        result = answer(request["method"], request.get("params") or {})
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        if result is None:
            reply["error"] = {"code": -32601, "message": f"no method {request['method']}"}
        else:
            reply["result"] = result
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
