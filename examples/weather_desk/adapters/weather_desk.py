"""The adapter for the weather desk: one HTTP call a turn, and an honest account of what its API shows."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any, Literal

import httpx2

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    Agent,
    AgentContext,
    Coverage,
    EvidenceCoverage,
    InputOption,
    InputRequest,
    InputRequested,
    Message,
    StreamEvent,
    Turn,
    TurnInput,
    Usage,
    define_agent,
)

# `steps` lists every call, result and reply, so those channels are complete. Other kinds of event exist in agents like
# this one, and the API has no place for them: not having seen one proves nothing.
COVERAGE = EvidenceCoverage.complete_except(
    events=Coverage.partial("the API reports calls, replies and approvals, but no reasoning and no shortened context"),
)
RESULT_STATUS: dict[str, Literal["completed", "failed", "rejected"]] = {
    "ok": "completed",
    "error": "failed",
    "declined": "rejected",
}


def weather_desk(base_url: Callable[[], str], version: str | Callable[[], str] | None = None) -> Agent:
    """The desk that listens at `base_url()`, asked at each turn because the service starts after this file loads.

    `version` says which build of the service it is: results of another one are not carried over.
    """
    tls = ssl.create_default_context()

    async def send(input: TurnInput, ctx: AgentContext) -> Turn:
        async with httpx2.AsyncClient(base_url=base_url(), verify=tls, timeout=30) as client:
            response = await client.post("/api/turn", json=_body(input, ctx))
        response.raise_for_status()
        answer = response.json()
        ctx.session.capture(answer["sessionId"])
        return Turn(
            events=[_step(step) for step in answer["steps"]] + [_approval(one) for one in answer["pendingApprovals"]],
            status=answer["status"],
            data=answer["data"],
            usage=Usage(
                input_tokens=answer["usage"]["inputWords"],
                output_tokens=answer["usage"]["outputWords"],
                requests=1,
            ),
        )

    return define_agent(name="weather-desk", evidence_coverage=COVERAGE, send=send, version=version)


def _body(input: TurnInput, ctx: AgentContext) -> dict[str, Any]:
    body: dict[str, Any] = {"text": input.text, "style": ctx.flags.get("prompt", "concise")}
    if ctx.session.id is not None:
        body["sessionId"] = ctx.session.id
    if input.files:
        body["files"] = [
            {"filename": file.filename, "mimeType": file.mime_type, "data": file.base64()} for file in input.files
        ]
    if input.responses:
        body["responses"] = [{"requestId": one.request_id, "optionId": one.option_id} for one in input.responses]
    if input.output_schema is not None:
        body["outputSchema"] = input.output_schema
    return body


def _step(step: dict[str, Any]) -> StreamEvent:
    if step["type"] == "call":
        return ActionCalled(call_id=step["id"], name=step["tool"], input=step["input"])
    if step["type"] == "result":
        return ActionResult(call_id=step["id"], status=RESULT_STATUS[step["status"]], output=step["output"])
    return Message(role="assistant", text=step["text"])


def _approval(approval: dict[str, Any]) -> StreamEvent:
    options = tuple(InputOption(id=option["id"], label=option["label"]) for option in approval["options"])
    request = InputRequest(
        id=approval["id"],
        action=approval["tool"],
        input=approval["input"],
        prompt=approval["question"],
        options=options,
    )
    return InputRequested(request=request)
