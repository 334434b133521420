"""Answers a call: holds the arguments to their schema, runs the command, and keeps the answer to its bound."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pinprof.document import pointed_at
from pinprof.errors import PinprofError
from pinprof.server.bounds import MOST_CHARACTERS, length, shortened
from pinprof.server.command import Runner, Tell
from pinprof.server.commands import Arguments, options
from pinprof.server.folder import Folder
from pinprof.server.outputs import listed
from pinprof.server.tools import TOOLS, Tool
from pinprof.temporary import temporary_folder

READING_S = 600.0
"""A trace of a gigabyte takes some seconds; a call that takes longer than this is given up."""
BESIDE_S = 1200.0
"""What first runs and recordings may take beside the minutes of a measurement."""
MEASUREMENTS = {"ab": 1, "try": 2}
"""How often a tool may measure for its minutes: try once more, without the fixes that bring nothing."""
ROOM = 1500
"""Characters that an answer keeps for what stands beside the document."""
NOT_ALLOWED = "this server runs no programs; `pinprof mcp --allow-running` lets it run those of its folder"


@dataclass
class Calls:
    """Answers the calls of one server."""

    folder: Folder
    runner: Runner
    allow_running: bool = False

    async def answer(self, name: str, given: Arguments, tell: Tell) -> dict[str, Any]:
        """Return the answer of a tool. Raises PinprofError with one line."""
        tool = next((known for known in TOOLS if known.name == name), None)
        if tool is None:
            raise PinprofError(f"{name}: there is no such tool; there are {', '.join(known.name for known in TOOLS)}")
        _check(tool, given)
        if tool.command is None:
            return await self._ran(tool, given, tell)
        done = await self.runner.run(tool.command(self.folder, given), tell, READING_S)
        if tool.name == "explain":
            return _lines(done.output, given.get("first_line", 0))
        document = json.loads(done.output)
        if tool.name == "evidence":
            return _rows(document, given["ids"], given.get("skip", 0), done.remarks)
        return _answer(tool, document, done.remarks)

    async def _ran(self, tool: Tool, given: Arguments, tell: Tell) -> dict[str, Any]:
        """Answer a call that runs a program of the folder."""
        if not self.allow_running:
            raise PinprofError(NOT_ALLOWED)
        command = self.folder.program(given["command"])
        with _patch(given) as patch:
            words = self._tried(given) if tool.name == "try" else self._compared(given, patch)
            most_s = MEASUREMENTS[tool.name] * given["minutes"] * 60 + BESIDE_S
            done = await self.runner.run([*words, "--", *command], tell, most_s, runs_program=True)
        return _answer(tool, json.loads(done.output), done.remarks)

    def _compared(self, given: Arguments, patch: Sequence[str]) -> list[str]:
        against = [f"--against={shlex.join(self.folder.program(given['against']))}"] if "against" in given else []
        traces = [] if given.get("causes", True) else ["--no-trace"]
        return ["ab", "--json=-", *options(given), *patch, *against, *traces]

    def _tried(self, given: Arguments) -> list[str]:
        trace = [f"--trace={self.folder.file(given['trace'])}"] if "trace" in given else []
        verify = [] if given.get("verify", True) else ["--no-verify"]
        return ["try", "--json=-", *options(given), *trace, *verify]


def _check(tool: Tool, given: Arguments) -> None:
    """Raise PinprofError for arguments that the tool does not take."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415  it may take seconds, and clients wait for the start
    from jsonschema.exceptions import best_match  # noqa: PLC0415

    wrong = best_match(Draft202012Validator(tool.takes_schema).iter_errors(given))
    if wrong:
        where = "/".join(map(str, wrong.absolute_path))
        raise PinprofError(f"{tool.name}: {where and f'{where}: '}{wrong.message[:300]}")


@contextmanager
def _patch(given: Arguments) -> Iterator[list[str]]:
    """Give the option for a diff, which is in a file while the block is open."""
    if "diff" not in given:
        yield []
        return
    with temporary_folder("mcp") as folder:
        path = folder / "change.diff"
        path.write_text(given["diff"], encoding="utf-8", newline="")
        yield [f"--patch={path}"]


def _answer(tool: Tool, document: Mapping[str, Any], remarks: Sequence[str]) -> dict[str, Any]:
    shorter, lost = shortened(document, tool.shorten_first, MOST_CHARACTERS - ROOM)
    left_out = listed([{**loss, "list": f"/document{loss['list']}"} for loss in lost])
    return {"document": shorter, "left_out": left_out, "notes": [remark[:200] for remark in remarks[:3]]}


def _rows(document: Any, ids: Sequence[str], skip: int, remarks: Sequence[str]) -> dict[str, Any]:
    rows = [{"id": row, "value": _from(pointed_at(document, row), skip)} for row in ids]
    shorter, lost = shortened({"rows": rows}, (), MOST_CHARACTERS - ROOM)
    return {**shorter, "left_out": listed(lost), "notes": [remark[:200] for remark in remarks[:3]]}


def _from(value: Any, skip: int) -> Any:
    return value[skip:] if isinstance(value, list) else value


def _lines(text: str, first: int) -> dict[str, Any]:
    """Return as many whole lines of a text as have room."""
    lines = text.splitlines()
    kept = lines[first:]
    while kept and length("\n".join(kept)) > MOST_CHARACTERS - ROOM:
        kept = kept[: min(len(kept) - 1, len(kept) * 9 // 10)]
    return {"text": "\n".join(kept), "first_line": first, "more_lines": max(len(lines) - first - len(kept), 0)}
