"""What stands for a model: a function that reads the conversation as a model would, so that no key is needed."""

import re
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

ORDER = re.compile(r"[A-Z]-\d+")


def desk_model() -> FunctionModel:
    """The model of the refund desk."""
    return FunctionModel(_answer, model_name="scripted")


def _answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    asked = _prompts(messages)
    returns = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if not returns:
        return _begin(asked, info, len(messages))
    if "refund" in asked[-1] and all(part.tool_name == "find_order" for part in returns):
        known = [str(part.content["order"]) for part in returns if part.outcome == "success"]
        if known:
            return _calls("refund", known, len(messages))
    if info.output_tools:
        state = {"orders": [part.content for part in returns]}
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, state, f"answer-{len(messages)}")])
    return ModelResponse(parts=[TextPart(" ".join(_said(part) for part in returns))])


def _begin(asked: list[str], info: AgentInfo, number: int) -> ModelResponse:
    orders = ORDER.findall(asked[-1])
    if not orders:
        before = asked[-2] if len(asked) > 1 else "nothing"
        return ModelResponse(parts=[TextPart(f"You asked before: {before}")])
    looks_first = "Look an order up" in (info.instructions or "") or "refund" not in asked[-1]
    return _calls("find_order" if looks_first else "refund", orders, number)


def _calls(tool: str, orders: list[str], number: int) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart(tool, {"order": order}, f"{tool}-{number}-{order}") for order in orders])


def _prompts(messages: list[ModelMessage]) -> list[str]:
    parts = [part for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
    return [str(part.content) for part in parts]


def _said(part: ToolReturnPart[Any]) -> str:
    if part.outcome == "denied":
        return f"Not refunded: {part.content}"
    if part.outcome != "success":
        return f"That went wrong: {part.content}"
    return f"{part.content['order']} is {part.content['state']}."
