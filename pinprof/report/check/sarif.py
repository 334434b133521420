"""A check as SARIF 2.1.0, which code scanning services and editors show on the lines of the program."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PureWindowsPath
from typing import Any
from urllib.parse import quote

from pinprof.check.judge import NOT_JUDGED, Checked, LimitVerdict, outcome
from pinprof.check.remarks import Remark, remarks
from pinprof.report.words import printable
from pinprof.rules import RULES
from pinprof.version import VERSION

SCHEMA_URI = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "pinprof/v1"
"""Names how the fingerprint is made; another way needs another number."""
WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]")
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def to_sarif(checked: Sequence[Checked]) -> str:
    """Return a SARIF log with one run: a result per remark, on its line where the trace tells it.

    What has no file is a result on the trace itself. A fingerprint holds neither lines nor numbers, so that a result
    is the same one after the code around it has moved. The invocation has the exit code, and is no success where
    something could not be judged.
    """
    found = [(trace, remark) for trace in checked for remark in remarks(trace)]
    rules = [_rule(rule.id, rule.title, rule.why, rule.fix) for rule in RULES]
    known = {rule["id"] for rule in rules}
    for _, remark in found:
        if remark.rule not in known:
            known.add(remark.rule)
            rules.append(_limit_rule(remark.verdicts[0]))
    index = {rule["id"]: position for position, rule in enumerate(rules)}
    driver = {"name": "pinprof", "version": VERSION, "rules": rules}
    seen: Counter[tuple[str, str]] = Counter()
    results = [_result(trace, remark, index[remark.rule], seen) for trace, remark in found]
    status = outcome(checked)
    invocation = {"executionSuccessful": status != NOT_JUDGED, "exitCode": status}
    log = {
        "$schema": SCHEMA_URI,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "invocations": [invocation],
                "columnKind": "unicodeCodePoints",
                "results": results,
            }
        ],
    }
    return json.dumps(log, indent=2, allow_nan=False) + "\n"


def _rule(identity: str, title: str, why: str, fix: str) -> dict[str, Any]:
    return {
        "id": identity,
        "name": title,
        "shortDescription": {"text": title},
        "fullDescription": {"text": why},
        "help": {"text": fix},
    }


def _limit_rule(verdict: LimitVerdict) -> dict[str, Any]:
    return _rule(
        verdict.name,
        verdict.what,
        f"pinprof check compares this with a limit or a baseline: {verdict.what}.",
        "pinprof report TRACE shows the figure and its causes.",
    )


def _result(trace: Checked, remark: Remark, index: int, seen: Counter[tuple[str, str]]) -> dict[str, Any]:
    key = "|".join((remark.rule, remark.place.file or "", remark.place.function or "", remark.place.subject))
    fingerprint = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:32]
    seen[trace.path, fingerprint] += 1
    return {
        "ruleId": remark.rule,
        "ruleIndex": index,
        "level": remark.level,
        "message": {"text": _text(remark.message)},
        "locations": [_location(trace, remark)],
        "partialFingerprints": {FINGERPRINT: f"{fingerprint}:{seen[trace.path, fingerprint]}"},
        "properties": {"trace": _text(trace.path)},
    }


def _location(trace: Checked, remark: Remark) -> dict[str, Any]:
    place = remark.place
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri_of(place.file or trace.path)}}
    if place.file and place.line is not None and place.line > 0:
        physical["region"] = {"startLine": place.line}
    location: dict[str, Any] = {"physicalLocation": physical}
    if place.function:
        location["logicalLocations"] = [{"name": _text(place.function), "kind": "function"}]
    return location


def uri_of(path: str) -> str:
    """Return a path as a URI reference: a relative one as it is but percent-encoded, an absolute one as `file://`."""
    if URL.match(path):
        return quote(path, safe="/:@?&=", errors="replace")
    if WINDOWS_PATH.match(path):
        return "file:///" + quote(PureWindowsPath(path).as_posix(), safe="/:", errors="replace")
    return ("file://" if path.startswith("/") else "") + quote(path, errors="replace")


def _text(text: str) -> str:
    """Return a text as a SARIF message: no control characters, and nothing that a viewer takes for a link."""
    return printable(text).replace("](", "] (")
