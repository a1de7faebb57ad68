"""Reading request bodies, of which nothing can be relied on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from niceeval.testing._model_server.answer import Answer
from niceeval.testing._model_server.model_request import ModelRequest, OfferedTool, ProtocolName

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Protocol:
    """How one protocol reads a request and writes an answer.

    read      the request of a body, a path (of Gemini, which names the model there) and headers in lower case
    plain     the body of an answer that is not streamed
    events    the chunks of one that is
    error     the body of an error: status, message, type
    """

    name: ProtocolName
    read: Callable[[Body, str, Mapping[str, str]], ModelRequest]
    plain: Callable[[Answer, ModelRequest], dict[str, Any]]
    events: Callable[[Answer, ModelRequest], Iterator[bytes]]
    error: Callable[[int, str, str | None], dict[str, Any]]


def objects(value: object) -> list[Body]:
    """The objects of a list; nothing where it is none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def an_object(value: object) -> Body:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def a_text(value: object) -> str:
    """The text; empty for what is none."""
    return value if isinstance(value, str) else ""


def text_of(content: object) -> str:
    """The text of a content that is a text, or a list of parts with `text`; other values as JSON text."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        return "\n".join(item if isinstance(item, str) else a_text(an_object(item).get("text")) for item in content)
    return json.dumps(content, ensure_ascii=False)


def texts_of(content: object) -> list[str]:
    """Each text of a content by itself: what a client puts beside the user's text stays apart from it."""
    if isinstance(content, str):
        return [content]
    return [text for part in objects(content) if (text := a_text(part.get("text")))]


def a_schema(value: object) -> Mapping[str, Any] | None:
    """A JSON Schema that is an object, or None."""
    return value if isinstance(value, dict) else None


def offered(value: Body, schema_field: str, namespace: str | None = None) -> OfferedTool | None:
    """The tool that an object describes; None where it has no name."""
    name = value.get("name")
    if not isinstance(name, str) or not name:
        return None
    return OfferedTool(name, a_schema(value.get(schema_field)) or {}, namespace)
