"""A check as workflow commands: GitHub Actions shows them as annotations on the lines of a pull request."""

from collections.abc import Sequence

from pinprof.check import Checked, Remark, remarks
from pinprof.report.words import place, printable

COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def to_github(checked: Sequence[Checked]) -> str:
    """Return one workflow command per remark, errors first: GitHub shows ten of each kind per step.

    Escaped as `toCommandValue` and `escapeProperty` of https://github.com/actions/toolkit (packages/core) do it.
    """
    lines = [_command(trace, remark) for trace in checked for remark in remarks(trace)]
    lines += [
        f"::notice title={_property(f'pinprof {verdict.name}')}::{_value(f'{trace.path}: {verdict.sentence}')}"
        for trace in checked
        for verdict in trace.verdicts
        if verdict.status in {"tolerated", "not compared"}
    ]
    return "".join(f"{line}\n" for line in sorted(lines, key=lambda line: not line.startswith("::error")))


def _command(trace: Checked, remark: Remark) -> str:
    at = remark.place
    properties = {"file": at.file, "line": str(at.line) if at.file and at.line is not None else None}
    properties["title"] = f"pinprof {remark.rule}"
    written = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)
    where = "" if at.line is not None else place(at.place._replace(line=None))
    message = f"{f'{where}: ' if where else ''}{remark.message} (trace {trace.path})"
    return f"::{COMMANDS[remark.level]} {written}::{_value(message)}"


def _value(text: str) -> str:
    """Return a text in which nothing ends the command; other control characters are replaced."""
    lines = text.replace("\r\n", "\n").split("\n")
    shown = "\n".join("\r".join(printable(part) for part in line.split("\r")) for line in lines)
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Return a text that can be the value of a property."""
    return _value(text).replace(":", "%3A").replace(",", "%2C")
