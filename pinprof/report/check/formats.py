"""A check as GitHub and JUnit read it: annotations of a pull request, and test results."""

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from pinprof.check.judge import Checked, LimitVerdict
from pinprof.check.remarks import remarks
from pinprof.report.words import place, printable
from pinprof.units import listed

MOST_NAMED = 3
"""The most further places that an annotation names; it counts the rest."""
COMMANDS = {"tolerated": "notice", "not compared": "notice"}
"""Workflow commands by the status of a limit that is not kept and does not fail; those that fail are errors."""


def to_github(checked: Sequence[Checked]) -> str:
    """Return one workflow command per limit that is not kept, errors first: GitHub shows ten of each kind per step.

    A command is at the first place that causes it, and names the others. It is escaped like `toCommandValue` and
    `escapeProperty` of https://github.com/actions/toolkit (packages/core).
    """
    lines = [_annotation(trace, verdict) for trace in checked for verdict in trace.verdicts if verdict.status != "kept"]
    return "".join(f"{line}\n" for line in sorted(lines, key=lambda line: not line.startswith("::error")))


def _annotation(trace: Checked, verdict: LimitVerdict) -> str:
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


def to_junit(checked: Sequence[Checked]) -> str:
    """Return a test suite per trace with a test case per limit; findings that fail nothing are the suite's output.

    A limit that was not kept is a failure, one that could not be judged an error.
    """
    total = [verdict for trace in checked for verdict in trace.verdicts]
    root = Element("testsuites", {"name": "pinprof check", **_counts(total)})
    for trace in checked:
        suite = SubElement(root, "testsuite", {"name": printable(trace.path), **_counts(trace.verdicts)})
        for verdict in trace.verdicts:
            _case(suite, verdict)
        notes = [f"{remark.rule} {remark.message}" for remark in remarks(trace) if remark.level != "error"]
        if notes:
            SubElement(suite, "system-out").text = "\n".join(map(printable, notes))
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _counts(verdicts: Sequence[LimitVerdict]) -> dict[str, str]:
    counts = {
        "tests": len(verdicts),
        "failures": sum(verdict.broken for verdict in verdicts),
        "errors": sum(verdict.unknown for verdict in verdicts),
    }
    return {name: str(count) for name, count in counts.items()}


def _case(suite: Element, verdict: LimitVerdict) -> None:
    case = SubElement(suite, "testcase", classname="pinprof.check", name=verdict.name)
    lines = [verdict.sentence, *(_line(verdict, number) for number in range(len(verdict.places)))]
    if verdict.failed:
        tag = "failure" if verdict.broken else "error"
        failure = SubElement(case, tag, message=printable(verdict.sentence), type=verdict.status)
        failure.text = "\n".join(map(printable, lines))
    else:
        SubElement(case, "system-out").text = "\n".join(map(printable, lines))


def _line(verdict: LimitVerdict, number: int) -> str:
    at = verdict.places[number]
    where = place(at.place)
    return " ".join(part for part in (where and f"{where}:", at.rule, at.message) if part)
