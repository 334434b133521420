"""A check as workflow commands: GitHub Actions shows them as annotations of a pull request."""

from collections.abc import Sequence

from pinprof.check.judge import Checked, LimitVerdict
from pinprof.report.words import place, printable
from pinprof.units import listed

MOST_NAMED = 3
"""How many further places an annotation names before it counts the rest."""
COMMANDS = {"tolerated": "notice", "not compared": "notice"}
"""By the status of a limit that is not kept and does not fail; all that fail are errors."""


def to_github(checked: Sequence[Checked]) -> str:
    """Return one workflow command per limit that is not kept, errors first: GitHub shows ten of each kind per step.

    It stands at the first place that causes it, and names the others. Escaped as `toCommandValue` and `escapeProperty`
    of https://github.com/actions/toolkit (packages/core) do it.
    """
    lines = [_command(trace, verdict) for trace in checked for verdict in trace.verdicts if verdict.status != "kept"]
    return "".join(f"{line}\n" for line in sorted(lines, key=lambda line: not line.startswith("::error")))


def _command(trace: Checked, verdict: LimitVerdict) -> str:
    first, others = verdict.places[:1], verdict.places[1:]
    at = next(iter(first), None) if verdict.failed else None
    has_line = at is not None and at.file is not None and at.line is not None
    properties = {
        "file": at.file if at else None,
        "line": str(at.line) if at and has_line else None,
        "title": f"pinprof {at.rule if at and at.rule else verdict.name}",
    }
    written = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)
    where = "" if at is None or has_line else place(at.place._replace(line=None))
    cause = [f"{where}: {at.message}" if where else at.message] if at else []
    named = list(dict.fromkeys(filter(None, (place(other.place) for other in others)))) if at else []
    more = [f"also at {listed(named, MOST_NAMED)}"] if named else []
    message = "; ".join((verdict.sentence, *cause, *more))
    return f"::{COMMANDS.get(verdict.status, 'error')} {written}::{_value(f'{message} (trace {trace.path})')}"


def _value(text: str) -> str:
    """Return a text in which nothing ends the command; other control characters are replaced."""
    lines = text.replace("\r\n", "\n").split("\n")
    shown = "\n".join("\r".join(printable(part) for part in line.split("\r")) for line in lines)
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Return a text that can be the value of a property."""
    return _value(text).replace(":", "%3A").replace(",", "%2C")
