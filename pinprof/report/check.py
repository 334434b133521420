"""A check for the terminal, as annotations for GitHub, as test results (JUnit), and as marks on lines (SARIF)."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PureWindowsPath
from typing import Any, TypeAlias
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinprof.check.figures import CodePlace
from pinprof.check.judge import NOT_JUDGED, Checked, LimitVerdict, Remark, outcome, remarks
from pinprof.ground.units import counted, listed
from pinprof.report.terminal import laid_out, unwrapped
from pinprof.report.words import place, printable
from pinprof.rules.search import RULES
from pinprof.version import VERSION

MAX_LISTED_PLACES = 10
STYLE_OF_STATUS = {"kept": "green", "tolerated": "yellow", "not compared": "yellow", "unknown": "bold yellow"}
STATUS_COLUMNS = 14
REASON_INDENT = 4
MAX_ALSO_AT = 3
GITHUB_COMMANDS = {"tolerated": "notice", "not compared": "notice"}
"""Workflow commands by the status of a limit that is not kept and does not fail; those that fail are errors."""
SCHEMA_URI = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT_NAME = "pinprof/v1"
"""The name of the fingerprint's algorithm; a changed algorithm needs another number."""
WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]")
URI_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
Object: TypeAlias = dict[str, Any]


def check_to_text(checked: Sequence[Checked], *, width: int = 100, color: bool = False) -> str:
    """Return the check of the traces as text for a terminal of this width, with ANSI colours if asked for."""
    return laid_out(_text(checked), width=width, color=color)


def _text(checked: Sequence[Checked]) -> Iterable[RenderableType]:
    yield _summary(checked)
    yield Text("")
    for trace in checked:
        yield from _trace(trace)


def _trace(trace: Checked) -> Iterable[RenderableType]:
    yield unwrapped(trace.path, "bold")
    for number, verdict in enumerate(trace.verdicts):
        yield from _verdict(verdict, repeated=verdict.places in [one.places for one in trace.verdicts[:number]])
    yield Text("")


def _verdict(verdict: LimitVerdict, *, repeated: bool) -> Iterable[RenderableType]:
    style = "bold red" if verdict.broken else STYLE_OF_STATUS[verdict.status]
    line = Table.grid()
    line.add_column(width=STATUS_COLUMNS)
    line.add_column()
    line.add_row(Text(verdict.status, style), Text.assemble(printable(verdict.sentence), (f" [{verdict.name}]", "dim")))
    yield line
    if not verdict.places:
        return
    if repeated:
        yield _inset("at the same places as above")
        return
    for at in verdict.places[:MAX_LISTED_PLACES]:
        yield _inset(f"{at.rule + ' ' if at.rule else ''}{place(at.place) or 'place unknown'}")
        yield Padding(Text(printable(at.message)), (0, 0, 0, STATUS_COLUMNS + REASON_INDENT))
    if len(verdict.places) > MAX_LISTED_PLACES:
        more = counted(len(verdict.places) - MAX_LISTED_PLACES, "more place")
        yield _inset(f"and {more}; pinprof report TRACE --json has all")


def _summary(checked: Sequence[Checked]) -> Text:
    verdicts = [verdict for trace in checked for verdict in trace.verdicts]
    checks, broken = counted(len(verdicts), "check"), sum(verdict.broken for verdict in verdicts)
    unknown = sum(verdict.unknown for verdict in verdicts)
    if broken:
        more = f"; {unknown} could not be judged" if unknown else ""
        return Text(f"{broken} of {checks} failed{more}.", "bold red")
    if unknown:
        return Text(f"{unknown} of {checks} could not be judged, so this is not a pass.", "bold yellow")
    return Text(f"{checks} passed.", "bold green")


def _inset(text: str) -> Padding:
    return Padding(Text(printable(text)), (0, 0, 0, STATUS_COLUMNS))


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
    more = [f"also at {listed(named, MAX_ALSO_AT)}"] if named else []
    message = "; ".join((verdict.sentence, *cause, *more))
    return f"::{GITHUB_COMMANDS.get(verdict.status, 'error')} {written}::{_value(f'{message} (trace {trace.path})')}"


def _value(text: str) -> str:
    """Return a text in which nothing ends the command; other control characters are replaced."""
    lines = text.replace("\r\n", "\n").split("\n")
    shown = "\n".join("\r".join(printable(part) for part in line.split("\r")) for line in lines)
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
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
    lines = [verdict.sentence, *map(_line, verdict.places)]
    if verdict.failed:
        tag = "failure" if verdict.broken else "error"
        failure = SubElement(case, tag, message=printable(verdict.sentence), type=verdict.status)
        failure.text = "\n".join(map(printable, lines))
    else:
        SubElement(case, "system-out").text = "\n".join(map(printable, lines))


def _line(at: CodePlace) -> str:
    where = place(at.place)
    return " ".join(part for part in (where and f"{where}:", at.rule, at.message) if part)


def to_sarif(checked: Sequence[Checked]) -> str:
    """Return a SARIF log with one run: a result per remark, on its line where the trace has one.

    A remark without a file is a result on the trace itself. A fingerprint contains neither lines nor numbers, so that a
    result stays the same when code moves. The invocation has the exit code; it has failed if a limit could not be
    judged.
    """
    all_remarks = [(trace, remark) for trace in checked for remark in remarks(trace)]
    rules = {rule.id: _rule(rule.id, rule.title, rule.why, rule.fix) for rule in RULES}
    for _, remark in all_remarks:
        if remark.rule not in rules:  # a limit that no rule of pinprof explains
            what = remark.verdicts[0].what
            why = f"pinprof check compares this with a limit or a baseline: {what}."
            rules[remark.rule] = _rule(remark.rule, what, why, "pinprof report TRACE shows the figure and its causes.")
    index = {rule: position for position, rule in enumerate(rules)}
    repeats: Counter[tuple[str, str]] = Counter()
    results = [_result(trace, remark, index[remark.rule], repeats) for trace, remark in all_remarks]
    status = outcome(checked)
    run = {
        "tool": {"driver": {"name": "pinprof", "version": VERSION, "rules": list(rules.values())}},
        "invocations": [{"executionSuccessful": status != NOT_JUDGED, "exitCode": status}],
        "results": results,
        "columnKind": "unicodeCodePoints",
    }
    return json.dumps({"$schema": SCHEMA_URI, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(identity: str, title: str, why: str, fix: str) -> Object:
    texts = {"shortDescription": title, "fullDescription": why, "help": fix}
    return {"id": identity, "name": title, **{name: {"text": text} for name, text in texts.items()}}


def _result(trace: Checked, remark: Remark, index: int, repeats: Counter[tuple[str, str]]) -> Object:
    at = remark.place
    key = "|".join((remark.rule, at.file or "", at.function or "", at.subject))
    fingerprint = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:32]
    repeats[trace.path, fingerprint] += 1
    physical: Object = {"artifactLocation": {"uri": uri_of(at.file or trace.path)}}
    if at.file and at.line and at.line > 0:
        physical["region"] = {"startLine": at.line}
    location: Object = {"physicalLocation": physical}
    if at.function:
        location["logicalLocations"] = [{"name": _sarif_text(at.function), "kind": "function"}]
    return {
        "ruleId": remark.rule,
        "ruleIndex": index,
        "level": remark.level,
        "message": {"text": _sarif_text(remark.message)},
        "locations": [location],
        "partialFingerprints": {FINGERPRINT_NAME: f"{fingerprint}:{repeats[trace.path, fingerprint]}"},
        "properties": {"trace": _sarif_text(trace.path)},
    }


def uri_of(path: str) -> str:
    """Return a path as a URI reference: a relative one as it is but percent-encoded, an absolute one as `file://`."""
    if URI_SCHEME.match(path):
        return quote(path, safe="/:@?&=", errors="replace")
    if WINDOWS_PATH.match(path):
        return "file:///" + quote(PureWindowsPath(path).as_posix(), safe="/:", errors="replace")
    return ("file://" if path.startswith("/") else "") + quote(path, errors="replace")


def _sarif_text(text: str) -> str:
    """Return a text as a SARIF message: no control characters, and nothing that a viewer takes for a link."""
    return printable(text).replace("](", "] (")
