"""What is said in a conversation, as messages of Chat Completions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from niceeval.adapter import InputFile, TurnInput
from niceeval.tool_loop import Settled, WantedCall

JsonObject = dict[str, Any]

_AUDIO: Final = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def user_message(given: TurnInput) -> JsonObject:
    """What the user says; with files, in parts."""
    if not given.files:
        return {"role": "user", "content": given.text}
    text = [{"type": "text", "text": given.text}] if given.text else []
    return {"role": "user", "content": [*text, *(_part(file) for file in given.files)]}


def assistant_message(texts: Sequence[str], calls: Sequence[WantedCall]) -> JsonObject | None:
    """What the assistant said and called, as it goes back with the next request; None for nothing."""
    if not texts and not calls:
        return None
    message: JsonObject = {"role": "assistant", "content": "\n".join(texts) if texts else None}
    if calls:
        message["tool_calls"] = [
            {
                "id": call.wire_id,
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call.arguments)},
            }
            for call in calls
        ]
    return message


def tool_message(settled: Settled) -> JsonObject:
    """What a call came to."""
    return {"role": "tool", "tool_call_id": settled.call.wire_id, "content": settled.text}


def _arguments(given: object) -> str:
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def _part(file: InputFile) -> JsonObject:
    if file.mime_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": _data_url(file)}}
    if file.mime_type in _AUDIO:
        return {"type": "input_audio", "input_audio": {"data": file.base64(), "format": _AUDIO[file.mime_type]}}
    text = _text(file)
    if text is not None:
        return {"type": "text", "text": f"{file.filename}:\n{text}"}
    return {"type": "file", "file": {"filename": file.filename, "file_data": _data_url(file)}}


def _data_url(file: InputFile) -> str:
    return f"data:{file.mime_type};base64,{file.base64()}"


def _text(file: InputFile) -> str | None:
    """A text file's content. The protocol has no part for one, and a model reads it as text."""
    if not (file.mime_type.startswith("text/") or file.mime_type == "application/json"):
        return None
    try:
        return file.data.decode("utf-8")
    except UnicodeDecodeError:
        return None
