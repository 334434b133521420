"""A check as SARIF: marks on lines of the code, as code scanning of GitHub and editors read them."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PureWindowsPath
from typing import Any, TypeAlias
from urllib.parse import quote

from pinprof.check.judge import NOT_JUDGED, Checked, outcome
from pinprof.check.remarks import Remark, remarks
from pinprof.report.words import printable
from pinprof.rules import RULES
from pinprof.version import VERSION

SCHEMA_URI = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "pinprof/v1"
"""The name of the fingerprint's algorithm; a changed algorithm needs another number."""
WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]")
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")

Object: TypeAlias = dict[str, Any]
"""An object of SARIF 2.1.0."""


def to_sarif(checked: Sequence[Checked]) -> str:
    """Return a SARIF log with one run: a result per remark, on its line where the trace has one.

    A remark without a file is a result on the trace itself. A fingerprint contains neither lines nor numbers, so that a
    result stays the same when code moves. The invocation has the exit code; it has failed if a limit could not be
    judged.
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


def _limit_rule(name: str, what: str) -> Object:
    """Return a rule for a limit that no rule of pinprof explains."""
    why = f"pinprof check compares this with a limit or a baseline: {what}."
    return _rule(name, what, why, "pinprof report TRACE shows the figure and its causes.")


def _result(trace: Checked, remark: Remark, index: int, repeats: Counter[tuple[str, str]]) -> Object:
    place = remark.place
    key = "|".join((remark.rule, place.file or "", place.function or "", place.subject))
    fingerprint = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:32]
    repeats[trace.path, fingerprint] += 1
    physical: Object = {"artifactLocation": {"uri": uri_of(place.file or trace.path)}}
    if place.file and place.line and place.line > 0:
        physical["region"] = {"startLine": place.line}
    location: Object = {"physicalLocation": physical}
    if place.function:
        location["logicalLocations"] = [{"name": _sarif_text(place.function), "kind": "function"}]
    return {
        "ruleId": remark.rule,
        "ruleIndex": index,
        "level": remark.level,
        "message": {"text": _sarif_text(remark.message)},
        "locations": [location],
        "partialFingerprints": {FINGERPRINT: f"{fingerprint}:{repeats[trace.path, fingerprint]}"},
        "properties": {"trace": _sarif_text(trace.path)},
    }


def uri_of(path: str) -> str:
    """Return a path as a URI reference: a relative one as it is but percent-encoded, an absolute one as `file://`."""
    if URL.match(path):
        return quote(path, safe="/:@?&=", errors="replace")
    if WINDOWS_PATH.match(path):
        return "file:///" + quote(PureWindowsPath(path).as_posix(), safe="/:", errors="replace")
    return ("file://" if path.startswith("/") else "") + quote(path, errors="replace")


def _sarif_text(text: str) -> str:
    """Return a text as a SARIF message: no control characters, and nothing that a viewer takes for a link."""
    return printable(text).replace("](", "] (")
