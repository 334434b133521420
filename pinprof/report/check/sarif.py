"""A check as SARIF: marks on lines of the code, as code scanning of GitHub and editors read them."""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PureWindowsPath
from urllib.parse import quote

from msgspec import UNSET, Struct, UnsetType, field

from pinprof.check.judge import NOT_JUDGED, Checked, outcome
from pinprof.check.remarks import Remark, remarks
from pinprof.document import encoded
from pinprof.report.words import printable
from pinprof.rules import RULES
from pinprof.version import VERSION

SCHEMA_URI = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "pinprof/v1"
"""Names how the fingerprint is made; another way needs another number."""
WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]")
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")

# The objects of SARIF 2.1.0, as far as they are written, with the names of their properties


class Message(Struct):
    """`message`, and `multiformatMessageString`."""

    text: str


class ReportingDescriptor(Struct, rename="camel"):
    """`reportingDescriptor`: a rule, or a limit that no rule explains."""

    id: str
    name: str
    short_description: Message
    full_description: Message
    help: Message


class ToolComponent(Struct):
    """`toolComponent`: pinprof."""

    name: str
    version: str
    rules: list[ReportingDescriptor]


class Tool(Struct):
    """`tool`."""

    driver: ToolComponent


class Invocation(Struct, rename="camel"):
    """`invocation`."""

    execution_successful: bool
    exit_code: int


class ArtifactLocation(Struct):
    """`artifactLocation`: a file."""

    uri: str


class Region(Struct, rename="camel"):
    """`region`: a line."""

    start_line: int


class PhysicalLocation(Struct, rename="camel"):
    """`physicalLocation`: a line of a file, or the file."""

    artifact_location: ArtifactLocation
    region: Region | UnsetType = UNSET


class LogicalLocation(Struct):
    """`logicalLocation`: a function."""

    name: str
    kind: str = "function"


class Location(Struct, rename="camel"):
    """`location`."""

    physical_location: PhysicalLocation
    logical_locations: list[LogicalLocation] | UnsetType = UNSET


class Result(Struct, rename="camel"):
    """`result`: a remark of the check."""

    rule_id: str
    rule_index: int
    level: str
    message: Message
    locations: list[Location]
    partial_fingerprints: dict[str, str]
    properties: dict[str, str]


class Run(Struct, rename="camel"):
    """`run`."""

    tool: Tool
    invocations: list[Invocation]
    results: list[Result]
    column_kind: str = "unicodeCodePoints"


class Log(Struct, kw_only=True):
    """`sarifLog`."""

    schema: str = field(default=SCHEMA_URI, name="$schema")
    version: str = "2.1.0"
    runs: list[Run]


def to_sarif(checked: Sequence[Checked]) -> str:
    """Return a SARIF log with one run: a result per remark, on its line where the trace tells it.

    What has no file is a result on the trace itself. A fingerprint holds neither lines nor numbers, so that a result
    is the same one after the code around it has moved. The invocation has the exit code, and is no success where
    something could not be judged.
    """
    all_remarks = [(trace, remark) for trace in checked for remark in remarks(trace)]
    rules = {rule.id: _rule(rule.id, rule.title, rule.why, rule.fix) for rule in RULES}
    for _, remark in all_remarks:
        if remark.rule not in rules:
            rules[remark.rule] = _limit_rule(remark.rule, remark.verdicts[0].what)
    index = {rule: position for position, rule in enumerate(rules)}
    repeats: Counter[tuple[str, str]] = Counter()
    results = [_result(trace, remark, index[remark.rule], repeats) for trace, remark in all_remarks]
    status = outcome(checked)
    driver = ToolComponent("pinprof", VERSION, list(rules.values()))
    return encoded(Log(runs=[Run(Tool(driver), [Invocation(status != NOT_JUDGED, status)], results)]))


def _rule(identity: str, title: str, why: str, fix: str) -> ReportingDescriptor:
    return ReportingDescriptor(identity, title, *map(Message, (title, why, fix)))


def _limit_rule(name: str, what: str) -> ReportingDescriptor:
    why = f"pinprof check compares this with a limit or a baseline: {what}."
    return _rule(name, what, why, "pinprof report TRACE shows the figure and its causes.")


def _result(trace: Checked, remark: Remark, index: int, repeats: Counter[tuple[str, str]]) -> Result:
    key = "|".join((remark.rule, remark.place.file or "", remark.place.function or "", remark.place.subject))
    fingerprint = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:32]
    repeats[trace.path, fingerprint] += 1
    return Result(
        remark.rule,
        index,
        remark.level,
        Message(_plain(remark.message)),
        [_location(trace, remark)],
        partial_fingerprints={FINGERPRINT: f"{fingerprint}:{repeats[trace.path, fingerprint]}"},
        properties={"trace": _plain(trace.path)},
    )


def _location(trace: Checked, remark: Remark) -> Location:
    place = remark.place
    file = ArtifactLocation(uri_of(place.file or trace.path))
    return Location(
        PhysicalLocation(file, Region(place.line) if place.file and place.line and place.line > 0 else UNSET),
        [LogicalLocation(_plain(place.function))] if place.function else UNSET,
    )


def uri_of(path: str) -> str:
    """Return a path as a URI reference: a relative one as it is but percent-encoded, an absolute one as `file://`."""
    if URL.match(path):
        return quote(path, safe="/:@?&=", errors="replace")
    if WINDOWS_PATH.match(path):
        return "file:///" + quote(PureWindowsPath(path).as_posix(), safe="/:", errors="replace")
    return ("file://" if path.startswith("/") else "") + quote(path, errors="replace")


def _plain(text: str) -> str:
    """Return a text as a SARIF message: no control characters, and nothing that a viewer takes for a link."""
    return printable(text).replace("](", "] (")
