"""What is said in a conversation, as input items of Responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from niceeval.adapter import InputFile, InputRequest, TurnInput
from niceeval.tool_loop import Settled

JsonObject = dict[str, Any]
History = Literal["server", "client"]


@dataclass(slots=True)
class Conversation:
    """One conversation. Copies share its containers, which are replaced and never changed.

    `items` is the input of the next request: all that was said, or only what is new where the server keeps the rest
    under `previous_id`. `requests` are the endpoint's requests for approval that have no answer yet, by id.
    """

    items: list[JsonObject] = field(default_factory=list)
    previous_id: str | None = None
    requests: dict[str, InputRequest] = field(default_factory=dict)

    def add(self, *items: JsonObject) -> None:
        """Items of the next request."""
        self.items = [*self.items, *items]

    def approve(self, request_id: str, approved: bool, reason: str | None) -> bool:
        """Answer a request; False where there is none of this id."""
        if request_id not in self.requests:
            return False
        self.requests = {id: request for id, request in self.requests.items() if id != request_id}
        answer: JsonObject = {
            "type": "mcp_approval_response",
            "approval_request_id": request_id,
            "approve": approved,
        }
        self.add({**answer, "reason": reason} if reason and not approved else answer)
        return True

    def answered(self, response_id: str | None, output: list[JsonObject], history: History) -> None:
        """The endpoint gave a whole answer."""
        if history == "server" and response_id:
            self.items, self.previous_id = [], response_id
        else:
            self.add(*(item for item in output if _can_go_back(item)))


def user_message(given: TurnInput) -> JsonObject:
    """What the user says, and files."""
    text = [{"type": "input_text", "text": given.text}] if given.text or not given.files else []
    return {"type": "message", "role": "user", "content": [*text, *(_part(file) for file in given.files)]}


def assistant_message(text: str) -> JsonObject:
    """What came of an answer that is not whole."""
    return {"type": "message", "role": "assistant", "content": text}


def call_output(settled: Settled) -> JsonObject:
    """What a call came to."""
    return {"type": "function_call_output", "call_id": settled.call.wire_id, "output": settled.text}


def _can_go_back(item: Mapping[str, Any]) -> bool:
    # Reasoning that is neither stored nor in the item itself cannot be found again.
    return item.get("type") != "reasoning" or bool(item.get("encrypted_content"))


def _part(file: InputFile) -> JsonObject:
    url = f"data:{file.mime_type};base64,{file.base64()}"
    if file.mime_type.startswith("image/"):
        return {"type": "input_image", "image_url": url}
    text = _text(file)
    if text is not None:
        return {"type": "input_text", "text": f"{file.filename}:\n{text}"}
    return {"type": "input_file", "filename": file.filename, "file_data": url}


def _text(file: InputFile) -> str | None:
    if not (file.mime_type.startswith("text/") or file.mime_type == "application/json"):
        return None
    try:
        return file.data.decode("utf-8")
    except UnicodeDecodeError:
        return None
