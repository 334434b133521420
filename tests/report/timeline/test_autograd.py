"""The page links forward and backward ops as autograd does, in a real Chromium."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from analysed import analysed
from chromium import Pages, with_scripts
from playwright.sync_api import Page
from recordings import TRACES
from trace_builder import AUTOGRAD, MAIN, TraceBuilder

from pinprof.analysis import Analysis, analyse
from pinprof.report.timeline.drawn_lanes import lanes_of_page
from pinprof.report.timeline.payload import packed
from pinprof.report.timeline.steps import choose_window
from pinprof.trace import read_trace

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NAMES = """async (text) => {
  const data = await readTimeline(text);
  const nameAt = ({ lane, at }) => nameOf(data, { lane, first: at });
  const linkOf = (lane, at) => {
    const link = autogradLink(data, lane, at);
    return link && [link.isForward, nameAt(link.other)];
  };
  const of = {};
  for (const lane of data.lanes.filter(({ isNested }) => isNested)) {
    for (let at = 0; at < lane.size; at++) {
      const forward = forwardOf(data, lane, at);
      const backward = backwardOf(data, lane, at).map(nameAt);
      of[nameAt({ lane, at })] = [forward ? nameAt(forward) : null, backward, linkOf(lane, at) ?? null];
    }
  }
  return of;
}"""
STARTS = """async (text) => {
  const startOf = ({ lane, at }) => lane.start[at];
  const pairs = autogradPairs(await readTimeline(text));
  return pairs.flatMap(({ forward, ops }) => ops.map((op) => [startOf(forward), startOf(op)]));
}"""


@pytest.fixture(scope="module")
def scripts(pages: Pages) -> Iterator[Page]:
    with with_scripts(pages, "data", "event_text", "rows", "related", "event_details", "autograd") as page:
        yield page


def payload(analysis: Analysis) -> str:
    """Return what the page draws of an analysis."""
    view = choose_window(analysis.trace)
    return packed(analysis, lanes_of_page(analysis, view), view)


def links(scripts: Page, builder: TraceBuilder, folder: Path) -> dict[str, list[Any]]:
    """Return per event: the forward op that it is the backward of, its backward ops, and the link of the op itself."""
    of_name: dict[str, list[Any]] = scripts.evaluate(NAMES, payload(analysed(builder, folder)))
    return of_name


def node(builder: TraceBuilder, name: str, start: float, number: int, maker: int = 0, thread: int = MAIN) -> None:
    """Add an op of 10 µs with the number of a node; `maker` is the thread that made it, by autograd's count."""
    args = {"Sequence number": number, "Fwd thread id": maker}
    builder.on_thread(thread, "cpu_op", name, start, 10, **args)


def trained() -> TraceBuilder:
    builder = TraceBuilder()
    builder.step(0, 0, 1000)
    builder.function("train.py(3): forward", 90, 120)
    builder.op("aten::linear", 95, 100)
    node(builder, "aten::t", 100, 7)
    node(builder, "aten::addmm", 120, 8)
    node(builder, "aten::relu", 300, 9)
    for number, name in ((9, "Relu"), (8, "Addmm"), (7, "T")):
        start = 1000 - 50 * number
        engine = f"autograd::engine::evaluate_function: {name}Backward0"
        builder.on_thread(AUTOGRAD, "cpu_op", engine, start, 40, **{"Sequence number": number, "Fwd thread id": 1})
        node(builder, f"{name}Backward0", start + 5, number, 1, AUTOGRAD)
        builder.on_thread(AUTOGRAD, "cpu_op", f"aten::{name}_backward", start + 7, 5)
    return builder


@pytest.mark.parametrize("name", ["clean.stack", "rules/clip_loop", "rules/math_attention.mended"])
def test_the_links_are_those_of_kineto(scripts: Page, name: str) -> None:
    path = TRACES / f"{name}.json.gz"
    analysis = analyse(read_trace(path))
    zero = choose_window(analysis.trace).start_ns
    begins: dict[str, dict[int, int]] = {"s": {}, "f": {}}
    for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]:
        if event.get("cat") == "fwdbwd":
            begins[event["ph"]][event["id"]] = round(1000 * event["ts"]) - zero
    flows = {(start, begins["f"][number]) for number, start in begins["s"].items()}
    drawn = {(start, end) for start, end in scripts.evaluate(STARTS, payload(analysis))}
    assert len(flows) >= 30
    assert flows <= drawn
    assert {start for start, _ in drawn} == {start for start, _ in flows}


def test_an_op_has_its_backward_and_the_other_way_round(scripts: Page, tmp_path: Path) -> None:
    of = links(scripts, trained(), tmp_path)
    engine = "autograd::engine::evaluate_function: AddmmBackward0"
    assert of["aten::addmm"] == [None, [engine], [True, engine]]
    assert of[engine] == of["AddmmBackward0"] == ["aten::addmm", [], [False, "aten::addmm"]]
    assert of["aten::Addmm_backward"] == ["aten::addmm", [], None]


def test_what_is_around_ops_has_the_backward_of_all_of_them(scripts: Page, tmp_path: Path) -> None:
    of = links(scripts, trained(), tmp_path)
    both = [f"autograd::engine::evaluate_function: {name}Backward0" for name in ("T", "Addmm")]
    assert of["aten::linear"] == [None, both, None]
    assert of["train.py(3): forward"] == [None, both, None]


def test_the_last_op_with_a_number_made_the_node(scripts: Page, tmp_path: Path) -> None:
    builder = trained()
    node(builder, "aten::zeros", 280, 9)
    of = links(scripts, builder, tmp_path)
    assert of["aten::zeros"][1:] == [[], None]
    assert of["ReluBackward0"][0] == "aten::relu"


def test_each_thread_counts_its_own_nodes(scripts: Page, tmp_path: Path) -> None:
    builder = trained()
    node(builder, "aten::sigmoid", 790, 7, thread=AUTOGRAD)  # of a recomputed forward
    of = links(scripts, builder, tmp_path)
    assert of["TBackward0"][0] == "aten::t"
    assert of["aten::sigmoid"] == [None, [], None]


def test_without_numbers_there_are_no_links(scripts: Page, tmp_path: Path) -> None:
    builder = trained()
    for event in builder.events:
        event["args"] = {}
    assert all(link == [None, [], None] for link in links(scripts, builder, tmp_path).values())


def test_a_backward_without_its_forward_in_the_recording_has_no_link(scripts: Page, tmp_path: Path) -> None:
    builder = trained()
    builder.events = [event for event in builder.events if event["name"] != "aten::addmm"]
    of = links(scripts, builder, tmp_path)
    assert of["AddmmBackward0"] == [None, [], None]
    assert of["ReluBackward0"][0] == "aten::relu"
