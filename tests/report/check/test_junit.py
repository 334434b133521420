from pathlib import Path
from xml.etree import ElementTree as ET

from check_traces import checked, with_waits

from pinprof.check.judge import Checked, LimitVerdict
from pinprof.check.limits import Limits
from pinprof.check.places import CodePlace
from pinprof.report.check import to_junit


def test_a_trace_is_a_suite_and_a_limit_a_case(tmp_path: Path) -> None:
    result = checked(with_waits(), tmp_path, Limits(max_hidden_syncs=0, max_stall_ms=1))
    root = ET.fromstring(to_junit([result, result]))
    assert (root.tag, root.attrib["tests"], root.attrib["failures"]) == ("testsuites", "4", "2")
    suite, _ = root.findall("testsuite")
    assert (suite.attrib["name"], suite.attrib["tests"], suite.attrib["failures"]) == ("trace.json", "2", "1")
    bad, good = suite.findall("testcase")
    assert (bad.attrib["name"], good.attrib["name"]) == ("max-hidden-syncs", "max-stall-ms")
    assert good.find("failure") is None
    failure = bad.find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "2 hidden waits of the host per step, at most 0 allowed"
    assert "train (train.py): PIN201 `.item()` (aten::item): 1 per step" in (failure.text or "")


def test_findings_without_a_limit_are_output_and_no_trace_is_a_document(tmp_path: Path) -> None:
    root = ET.fromstring(to_junit([checked(with_waits(), tmp_path, Limits())]))
    output = root.find("testsuite/system-out")
    assert output is not None
    assert "PIN201" in (output.text or "")
    assert root.attrib["tests"] == ET.fromstring(to_junit([])).attrib["tests"] == "0"


def test_no_name_of_a_trace_can_break_the_document() -> None:
    hostile = 'a"]]><!--\x00\x1b\x0b\ud800\ufffe\uffff</testsuite>&\n'
    place = CodePlace(hostile, 1, hostile, "PIN201", hostile, hostile)
    verdict = LimitVerdict("max_hidden_syncs", "waits", "exceeded", hostile, (place,))
    text = to_junit([Checked(hostile, (verdict,), ())])
    (suite,) = ET.fromstring(text.encode())
    assert suite.attrib["name"].startswith('a"]]><!--\ufffd\ufffd\ufffd')
    assert len(suite.findall("testcase")) == 1
