"""What writers of converters and of CLI adapters share: a turn's builder, JSON lines, tool names.

builder = TurnBuilder(coverage)
builder.called("c1", "Bash", {"command": "ls"}, tool="shell")
builder.result("c1", "notes.txt")
builder.message("There is one file.")
turn = builder.build().report(ctx)
"""

from niceeval.turn_building.builder import EVIDENCE, FROM_EVENTS, TurnBuilder
from niceeval.turn_building.collected import Collected, TurnDiagnostic
from niceeval.turn_building.json_fields import amount_of, count_of, list_of, object_of, text_of, value_of
from niceeval.turn_building.json_lines import MAX_LINE_BYTES, JsonLines, JsonObject
from niceeval.turn_building.seen_ids import MAX_SEEN_IDS, SeenIds
from niceeval.turn_building.tool_names import LOAD_SKILL, ToolNames, mcp_name, mcp_parts

__all__ = [
    "EVIDENCE",
    "FROM_EVENTS",
    "LOAD_SKILL",
    "MAX_LINE_BYTES",
    "MAX_SEEN_IDS",
    "Collected",
    "JsonLines",
    "JsonObject",
    "SeenIds",
    "ToolNames",
    "TurnBuilder",
    "TurnDiagnostic",
    "amount_of",
    "count_of",
    "list_of",
    "mcp_name",
    "mcp_parts",
    "object_of",
    "text_of",
    "value_of",
]
