"""A check as JUnit XML, which most CI servers show as test results."""

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from pinprof.check.judge import Checked, LimitVerdict
from pinprof.check.remarks import remarks
from pinprof.report.words import place, printable


def to_junit(checked: Sequence[Checked]) -> str:
    """Return a test suite per trace with a test case per limit; findings that fail nothing are the suite's output.

    A limit that was not kept is a failure, one that could not be judged an error.
    """
    total = [verdict for trace in checked for verdict in trace.verdicts]
    root = Element("testsuites", {"name": "pinprof check", **_counts(total)})
    for trace in checked:
        suite = SubElement(root, "testsuite", {"name": _text(trace.path), **_counts(trace.verdicts)})
        for verdict in trace.verdicts:
            _case(suite, verdict)
        notes = [f"{remark.rule} {remark.message}" for remark in remarks(trace) if remark.level != "error"]
        if notes:
            SubElement(suite, "system-out").text = "\n".join(map(_text, notes))
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
        failure = SubElement(case, tag, message=_text(verdict.sentence), type=verdict.status)
        failure.text = "\n".join(map(_text, lines))
    else:
        SubElement(case, "system-out").text = "\n".join(map(_text, lines))


def _line(verdict: LimitVerdict, number: int) -> str:
    at = verdict.places[number]
    where = place(at.place)
    return " ".join(part for part in (where and f"{where}:", at.rule, at.message) if part)


def _text(text: str) -> str:
    """Return a text of characters that XML allows: no control characters, surrogates or noncharacters."""
    return printable(text)
