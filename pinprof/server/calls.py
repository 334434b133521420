"""Answers a call: validates the arguments, runs the command, and shortens the answer."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pinprof.document import pointed_at
from pinprof.errors import PinprofError
from pinprof.server.answers import MOST_CHARACTERS, length, listed, shortened
from pinprof.server.command import Runner, Tell
from pinprof.server.folder import Folder
from pinprof.server.tools import TOOLS, Tool, ToolArguments
from pinprof.temporary import temporary_folder

READING_S = 600.0
"""The longest time of a call that reads traces; one of a gigabyte takes some seconds."""
EXTRA_S = 1200.0
"""The time of first runs and recordings in addition to the minutes of a measurement."""
HELP = re.compile(r" \(pinprof [\w -]+ --help explains\)")
OPTION = re.compile(r"--([a-z][a-z-]*)")
ROOM = 1500
"""Characters of an answer for `left_out` and `notes`."""
NOT_ALLOWED = "this server runs no programs; `pinprof mcp --allow-running` lets it run those of its folder"


@dataclass
class CallHandler:
    """Answers the calls of one server."""

    folder: Folder
    runner: Runner
    allow_running: bool = False

    async def answer(self, name: str, given: ToolArguments, tell: Tell) -> dict[str, Any]:
        """Return the answer of a tool. Raises PinprofError with one line."""
        tool = next((known for known in TOOLS if known.name == name), None)
        if tool is None:
            raise PinprofError(f"{name}: there is no such tool; there are {', '.join(known.name for known in TOOLS)}")
        _check(tool, given)
        if tool.measurements and not self.allow_running:
            raise PinprofError(NOT_ALLOWED)
        most_s = tool.measurements * given["minutes"] * 60 + EXTRA_S if tool.measurements else READING_S
        with _diff_in_file(given) as arguments:
            words = tool.command(self.folder, arguments)
            try:
                done = await self.runner.run(words, tell, most_s, runs_program=tool.measurements > 0)
            except PinprofError as error:
                raise PinprofError(in_arguments(str(error), tool)) from error
        done.remarks[:0] = [
            f"Skipped: {Path(trace).name}: is a link that leads out of the folder of this server"
            for trace in self.folder.left_out(given.get("traces", ()))
        ]
        if tool.name == "explain":
            return _whole_lines(done.output, given.get("first_line", 0))
        document = json.loads(done.output)
        if tool.name == "evidence":
            return _rows_by_id(document, given["ids"], given.get("skip", 0), done.remarks)
        return _answer(tool, document, done.remarks)


def in_arguments(error: str, tool: Tool) -> str:
    """Return an error of the command line as one about the arguments of a tool."""
    names = tool.takes.__struct_fields__

    def argument(option: re.Match[str]) -> str:
        name = option[1].replace("-", "_")
        return name if name in names else option[0]

    return OPTION.sub(argument, HELP.sub("", error))


def _check(tool: Tool, arguments: ToolArguments) -> None:
    """Raise PinprofError for arguments that the tool does not take."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415  it may take seconds, and clients wait for the start
    from jsonschema.exceptions import best_match  # noqa: PLC0415

    wrong = best_match(Draft202012Validator(tool.takes_schema).iter_errors(arguments))
    if wrong:
        where = "/".join(map(str, wrong.absolute_path))
        raise PinprofError(f"{tool.name}: {where and f'{where}: '}{wrong.message[:300]}")


@contextmanager
def _diff_in_file(arguments: ToolArguments) -> Iterator[ToolArguments]:
    """Give the arguments with the diff in a temporary file, as `patch`."""
    if "diff" not in arguments:
        yield arguments
        return
    with temporary_folder("mcp") as folder:
        path = folder / "change.diff"
        path.write_text(arguments["diff"], encoding="utf-8", newline="")
        yield {**arguments, "patch": path}


def _answer(tool: Tool, document: Mapping[str, Any], remarks: Sequence[str]) -> dict[str, Any]:
    shorter, lost = shortened(document, tool.shorten_first, MOST_CHARACTERS - ROOM)
    left_out = listed([{**loss, "list": f"/document{loss['list']}"} for loss in lost])
    return {"document": shorter, "left_out": left_out, "notes": [remark[:200] for remark in remarks[:3]]}


def _rows_by_id(document: Any, ids: Sequence[str], skip: int, remarks: Sequence[str]) -> dict[str, Any]:
    rows = [{"id": row, "value": _from(pointed_at(document, row), skip)} for row in ids]
    shorter, lost = shortened({"rows": rows}, (), MOST_CHARACTERS - ROOM)
    return {**shorter, "left_out": listed(lost), "notes": [remark[:200] for remark in remarks[:3]]}


def _from(value: Any, skip: int) -> Any:
    return value[skip:] if isinstance(value, list) else value


def _whole_lines(text: str, first: int) -> dict[str, Any]:
    """Return as many whole lines of a text as fit."""
    lines = text.splitlines()
    kept = lines[first:]
    while kept and length("\n".join(kept)) > MOST_CHARACTERS - ROOM:
        kept = kept[: min(len(kept) - 1, len(kept) * 9 // 10)]
    return {"text": "\n".join(kept), "first_line": first, "more_lines": max(len(lines) - first - len(kept), 0)}
