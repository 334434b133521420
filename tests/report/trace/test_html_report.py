import json
import re
from pathlib import Path

import pytest
from analysed import analysed
from one_after_another import one_after_another
from page_reader import Page
from recordings import TRACES, analysis_of
from trace_builder import COMPUTE, SIDE, TraceBuilder, without_known_events

from pinprof.report.html import Markup, inline_html
from pinprof.report.timeline.worst_instance import worst_instance
from pinprof.report.trace.page import to_html

STREAMS = [f"stream {COMPUTE}", f"stream {SIDE}"]
HOSTILE = "</script><img src=x onerror=alert(1)>"
MAX_BYTES = 500_000


def report_of(builder: TraceBuilder, folder: Path, name: str = "trace.json") -> Page:
    return Page(to_html([analysed(builder, folder, name)]))


def copying() -> TraceBuilder:
    """Three steps of 1000 µs: 400 µs compute, 100 µs of them beside a copy, and 200 µs of exposed copy."""
    builder = TraceBuilder()
    for time in builder.steps(3):
        builder.function("/home/me/train.py(12): train_step", time, 980)
        builder.op("aten::to", time + 5, 700)
        builder.kernel(time + 100, 400, launch=time + 1)
        builder.copy("HtoD (Pageable -> Device)", time + 400, 300, launch=time + 10, call=690, stream=SIDE)
    return builder


@pytest.fixture(scope="module")
def recorded() -> str:
    return to_html([analysis_of(TRACES / "pageable_blocking.stack.json.gz")])


def test_the_page_asks_nobody_for_anything(recorded: str) -> None:
    read = Page(recorded)
    for _, attributes in read.tags:
        assert not {"src", "srcset", "action", "data", "poster"} & attributes.keys()
        assert (attributes.get("href") or "#").startswith("#")
    for style in (*read.styles, *(attributes.get("style") or "" for _, attributes in read.tags)):
        assert "url(" not in style
        assert "@import" not in style
    policy = next(attributes for tag, attributes in read.tags if tag == "meta" and "content" in attributes)
    assert (policy["content"] or "").startswith("default-src 'none'; ")


def test_a_page_is_small_and_draws_its_charts_without_plotly(recorded: str) -> None:
    of_charts = to_html([analysis_of(TRACES / "runs" / "images.before.json.gz")])
    assert max(len(text.encode()) for text in (recorded, of_charts)) < MAX_BYTES
    assert of_charts.count('<figure class="chart"') == of_charts.count("<svg role") == 1
    assert max(len(code) for _, code in Page(of_charts).scripts) < MAX_BYTES / 2


def test_the_page_is_well_formed_and_has_named_parts(recorded: str) -> None:
    read = Page(recorded)
    assert read.misnested == []
    assert recorded.startswith("<!DOCTYPE html>")
    assert ("html", {"lang": "en"}) in read.tags
    names = [tag for tag, _ in read.tags]
    assert names.count("h1") == 1
    assert names.count("caption") == names.count("table") == 2
    assert all(attributes.get("scope") in {"col", "row"} for tag, attributes in read.tags if tag == "th")
    identities = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(identities) == len(set(identities))


def test_the_numbers_come_first_then_findings_with_their_fixes_and_the_tables_last(tmp_path: Path) -> None:
    text = report_of(copying(), tmp_path).text
    order = [
        "per step",
        "kernels alone",
        "What to do",
        "All 3 steps",
        "Waits of the host",
        "Copies, in the whole trace",
    ]
    places = [text.index(words) for words in [*order, "Bound by"]]
    assert places == sorted(places)
    assert re.search(r"[\d.]+ ms per step \(estimated; [\d.]+ to [\d.]+\).* As traced: 1.00 ms, in the trace", text)
    assert "HtoD pageable 3 2.86 MiB 900 µs 300 µs 600 µs 3.33 GB/s 2.07 ms" in text
    assert re.search(
        r"saves \d+ µs \(\d+ to \d+\), \d+ % of the step copies of pageable memory train_step \(\S+\) PIN101 ", text
    )
    assert "train_step (/home/me/train.py)" in text
    assert "Fix: Pin the host side" in text
    assert "Before for x in batches: train(x.to(device" in text
    assert "After staging = torch.empty(shape, dtype=dtype, pin_memory=True)" in text
    assert "Safe if: staging is not written to before its last copy has ended" in text
    lean = Page(to_html([analysis_of(TRACES / "loader_pinned.json.gz")])).text
    assert lean.index("Timeline") < lean.index("Not in this trace")


def test_a_finding_lists_all_its_sites_and_shows_the_costliest_in_the_timeline(tmp_path: Path) -> None:
    read = report_of(one_after_another(12), tmp_path)
    text = read.text.replace("\N{NO-BREAK SPACE}", " ")
    assert [f"value{number} (train.py) : aten::item, 1 per step" in text for number in range(12)] == [True] * 12
    shown = [attributes for tag, attributes in read.tags if tag == "button" and attributes.get("class") == "see"]
    of_waits = [attributes for attributes in shown if "stalls" in (attributes["data-zoom"] or "")]
    assert len(of_waits) == 1 + 10  # of the finding; of its ten costliest sites
    assert all("data-zoom" in attributes for attributes in shown)


def test_text_of_the_trace_stays_text(tmp_path: Path) -> None:
    builder = copying()
    builder.metadata["deviceProperties"] = [{"id": 0, "name": HOSTILE}]
    builder.function(f"/home/{HOSTILE}.py(1): {HOSTILE}", 700, 250)
    builder.op(HOSTILE, 705, 200)
    builder.call("cudaDeviceSynchronize", 710, 20)
    builder.kernel(920, 10, launch=740, name=HOSTILE)
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    folder.mkdir()
    builder.call("cudaStreamSynchronize\x1b\u202e", 960, 5)
    read = report_of(builder, folder, "a<script>alert(1)<.json")
    assert not {"\x1b", "\u202e"} & set(read.text)
    assert read.misnested == []
    assert "img" not in [tag for tag, _ in read.tags]
    assert not any("onerror" in attributes for _, attributes in read.tags)
    assert len(read.scripts) == 3  # the timeline, the tables, and the page's own
    assert HOSTILE in read.text
    assert "a<script>alert(1)<.json" in read.text


def test_an_empty_trace_has_a_page(tmp_path: Path) -> None:
    read = report_of(without_known_events(), tmp_path)
    assert read.misnested == []
    assert "Nothing was recorded" in read.text
    assert "Nothing to draw" in read.text
    assert "GPU activities" in read.text


def test_the_packed_timeline_is_complete(tmp_path: Path) -> None:
    (packed,) = report_of(copying(), tmp_path).figures
    seen = [lane["label"] for lane in packed["lanes"] if not lane.get("folded")]
    assert seen == ["host", "stalls", "ops", "calls", "overlap", *STREAMS]
    labels = {kind["label"] for kind in packed["kinds"].values()}
    assert labels >= {"kernel", "copy HtoD pageable", "pageable copy", "step"}
    assert packed["steps"]["names"] == ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"]


def test_a_finding_leads_to_its_worst_instance(tmp_path: Path) -> None:
    read = report_of(copying(), tmp_path)
    zooms = [json.loads(attributes["data-zoom"] or "") for _, attributes in read.tags if "data-zoom" in attributes]
    assert zooms
    assert zooms[0] == ["stalls", 10_000, 700_000]


# the pieces


def test_plain_text_in_html_is_escaped_and_without_control_characters_html_is_not() -> None:
    unknown = "\N{REPLACEMENT CHARACTER}"
    assert Markup("<b>{}</b>").format("a\x1b\n<") == f"<b>a{unknown}{unknown}&lt;</b>"
    assert Markup("<br>").join(["<", Markup("<i>")]) == "&lt;<br><i>"
    assert Markup("<br>") + "\x1b&" == f"<br>{unknown}&amp;"
    assert inline_html("< 1 ms") == "&lt; 1\N{NO-BREAK SPACE}ms"


def test_a_gpu_that_waits_for_launches_is_shown_at_its_longest_gap() -> None:
    analysis = analysis_of(TRACES / "launches" / "gpt2.before.json.gz")
    first = analysis.findings[0]
    instance = worst_instance(analysis, first)
    assert first.rule.id == "PIN601"
    assert instance
    assert instance.where == "device 0"
    gaps = analysis.details.gaps[0].times
    assert instance.end_ns - instance.start_ns <= int((gaps.end - gaps.start).max())
    gpu = analysis.trace.gpu
    assert not ((gpu.start_ns < instance.end_ns) & (gpu.end_ns > instance.start_ns)).any()
