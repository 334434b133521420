"""The MCP server over standard input and output: lists the tools, answers calls, and reports their progress."""

import json
from pathlib import Path
from typing import Any

import anyio
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ListedTool

from pinprof.errors import PinprofError
from pinprof.server.calls import CallHandler
from pinprof.server.command import Runner
from pinprof.server.folder import Folder
from pinprof.server.tools import TOOLS, Tool
from pinprof.urls import redacted
from pinprof.version import VERSION

INSTRUCTIONS = (
    "pinprof says why a PyTorch training step is slow, predicts what a change brings, makes changes as diffs, and "
    "measures versions against each other. Begin with explain (topic skill), then report. Paths are relative to "
    "{root}; nothing outside of it is read. Never claim a saving that neither a replay predicted nor ab measured; null "
    "means not known; savings do not add up; a step as traced is not the step."
)
RequestContext = ServerRequestContext[Any]


def serve(folder: Path, *, allow_running: bool) -> None:
    """Answer calls about the traces and programs of a folder until standard input ends."""
    anyio.run(_serve, folder.resolve(), allow_running)


async def _serve(folder: Path, allow_running: bool) -> None:
    server = server_of(CallHandler(Folder(folder), Runner(folder), allow_running))
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def server_of(calls: CallHandler) -> Server[Any]:
    """Return the server that speaks the protocol for these calls."""

    async def list_tools(_context: RequestContext, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_listed(tool) for tool in TOOLS])

    async def call_tool(context: RequestContext, params: CallToolRequestParams) -> CallToolResult:
        async def tell(seconds: float, message: str) -> None:
            await context.session.report_progress(seconds, None, one_line(message))

        try:
            answer = await calls.answer(params.name, params.arguments or {}, tell)
        except (PinprofError, OSError) as error:
            return _text_result(one_line(str(error)), is_error=True)
        except Exception as error:  # noqa: BLE001  a call must not end the server
            message = one_line(f"{type(error).__name__}: {error}")
            return _text_result(f"pinprof itself failed ({message}); please report this", is_error=True)
        result = _text_result(json.dumps(answer, ensure_ascii=False))
        result.structured_content = answer
        return result

    return Server(
        "pinprof",
        version=VERSION,
        instructions=INSTRUCTIONS.format(root=calls.folder.root),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _listed(tool: Tool) -> ListedTool:
    runs = tool.measurements > 0
    return ListedTool(
        name=tool.name,
        title=tool.title,
        description=tool.about,
        input_schema=tool.takes_schema,
        output_schema=tool.answers_schema,
        annotations=ToolAnnotations(
            read_only_hint=not runs, destructive_hint=runs, idempotent_hint=not runs, open_world_hint=False
        ),
    )


def _text_result(text: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)


def one_line(text: str) -> str:
    """Return a text as one line without control characters, and without the secrets of a URL."""
    return "".join(character if character.isprintable() else " " for character in redacted(text))[:1000]
