import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from analysed import analysed
from hypothesis import given
from hypothesis import strategies as st
from recordings import WORKLOADS, analysis_of, each_recording
from trace_builder import SIDE, TraceBuilder, without_known_events

from pinprof.analysis import Analysis
from pinprof.report.timeline import fragment
from pinprof.report.timeline.drawn_lanes import PageDrawing, figure_in_words, lanes_of_page, lanes_that_fit
from pinprof.report.timeline.figure import timeline_chart
from pinprof.report.timeline.lane import BAND_SOURCE, OP_SOURCE, Drawing, HiddenEvents, Lane, levels, merge_narrow
from pinprof.report.timeline.lane_context import LaneContext
from pinprof.report.timeline.payload import PackedColumns
from pinprof.report.timeline.steps import choose_window, window_of_steps
from pinprof.report.words import short
from pinprof.trace.tables import Trace


def measured(builder: TraceBuilder, folder: Path) -> tuple[Trace, Analysis]:
    analysis = analysed(builder, folder)
    return analysis.trace, analysis


def drawn(builder: TraceBuilder, folder: Path) -> tuple[Trace, Analysis, Drawing]:
    trace, analysis = measured(builder, folder)
    return trace, analysis, lanes_that_fit(analysis)


def loop(steps: int, kernels: int = 10) -> TraceBuilder:
    """Steps of 1000 µs with as many kernels of 50 µs each, 90 µs apart."""
    builder = TraceBuilder()
    for start in builder.steps(steps):
        for kernel in range(kernels):
            time = start + 90 * kernel + 5
            builder.op("aten::mm", time - 1, 5)
            builder.kernel(time + 10, 50, launch=time)
    return builder


def lane_of(start: list[int], end: list[int], kind: list[int]) -> Lane:
    starts, ends, codes = (np.array(column, np.int64) for column in (start, end, kind))
    count = np.ones(len(start), np.int64)
    return Lane("g", "l", OP_SOURCE, starts, ends, codes, np.arange(len(start)), count, ends - starts)


def lane_named(drawing: Drawing, label: str) -> Lane:
    return next(lane for lane in drawing.lanes if lane.label == label)


def hovers(analysis: Analysis, name: str, **options: Any) -> list[str]:
    chart = timeline_chart(analysis, ("trace.json", ""), **options)
    return [text for series in chart.data if series["name"] == name for text in series["hovertext"]]


# which part is drawn


def test_the_steps_in_the_middle_are_drawn(tmp_path: Path) -> None:
    trace, _ = measured(loop(7), tmp_path)
    window = choose_window(trace)
    assert (window.first, window.last) == (2, 4)
    assert window.start_ns == trace.steps.start_ns[2]


# lanes


def test_levels_are_the_depth_of_nesting() -> None:
    #   ┌─0────────┐┌4┐
    #    ┌1─┐┌3─┐
    #     ┌2┐
    start, end = np.array([0, 1, 2, 5, 10]), np.array([10, 5, 4, 9, 12])
    assert levels(start, end, 3).tolist() == [0, 1, 2, 1, 0]
    assert levels(start, end, 2).tolist() == [0, 1, -1, 1, 0]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=30))
def test_events_of_one_level_never_overlap(events: list[tuple[int, int]]) -> None:
    start = np.array(sorted(begin for begin, _ in events), np.int64)
    end = start + np.array([length for _, length in events], np.int64)
    level = levels(start, end, 4)
    for depth in range(4):
        of_level = level == depth
        assert (start[of_level][1:] >= end[of_level][:-1]).all()


# thinning


def test_narrow_neighbours_of_one_kind_become_a_block() -> None:
    lane = lane_of(start=[0, 3, 6, 20, 40], end=[3, 5, 7, 32, 41], kind=[1, 1, 1, 1, 1])
    thin = merge_narrow(lane, 10)
    assert thin.start_ns.tolist() == [0, 20, 40]
    assert thin.end_ns.tolist() == [7, 32, 41]
    assert thin.count.tolist() == [3, 1, 1]
    assert thin.busy_ns.tolist() == [6, 12, 1]
    assert thin.row.tolist() == [0, 3, 4]  # of the block the longest


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30), st.integers(0, 2)), max_size=60), st.integers(1, 50))
def test_thinning_keeps_count_and_time(events: list[tuple[int, int, int]], narrow: int) -> None:
    end = np.cumsum([length + gap for length, gap, _ in events], dtype=np.int64)
    start = end - np.array([length for length, *_ in events], np.int64)
    kind = np.array([kind for *_, kind in events], np.int64)
    order = np.argsort(kind, kind="stable")
    lane = lane_of(start[order].tolist(), end[order].tolist(), kind[order].tolist())
    thin = merge_narrow(lane, narrow)
    assert thin.count.sum() == len(lane)
    assert thin.busy_ns.sum() == lane.busy_ns.sum()
    assert ((thin.end_ns - thin.start_ns)[thin.count > 1] <= 2 * narrow).all()
    for code in range(3):
        of_kind = thin.kind == code
        assert thin.busy_ns[of_kind].sum() == lane.busy_ns[lane.kind == code].sum()
        assert (thin.start_ns[of_kind][1:] >= thin.end_ns[of_kind][:-1]).all()


def test_every_event_is_drawn_merged_or_said_to_be_left_out(tmp_path: Path) -> None:
    builder = loop(3, kernels=11)
    for time in range(200):
        builder.activity("kernel", "tiny", 1900 + time / 100, 0.005, correlation=0, device=0, stream=SIDE)
    for depth in range(6):
        builder.op("aten::deep", 2500 + depth, 20 - 2 * depth)
    trace, analysis = measured(builder, tmp_path)
    window = window_of_steps(trace, 0, 2)
    drawing = lanes_that_fit(analysis, window, max_bars=300)
    here = sum(int(window.holds(table.start_ns, table.end_ns).sum()) for table in (trace.ops, trace.calls, trace.gpu))
    shown = sum(int(lane.count.sum()) for lane in drawing.lanes if lane.source.name in {"ops", "calls", "gpu"})
    assert drawing.left_out == (HiddenEvents(2, "ops nested deeper than 4"),)
    assert shown + 2 == here
    counts = [lane.count[lane.count > 1] for lane in drawing.lanes if lane.source is not BAND_SOURCE]
    events, blocks = sum(int(count.sum()) for count in counts), sum(map(len, counts))
    assert 190 <= events <= 200
    assert 2 * blocks <= events
    sentences = figure_in_words(analysis, drawing)
    assert f"{events} events shorter than 1.00 µs are merged into {blocks} blocks" in sentences
    assert "Not drawn: 2 ops nested deeper than 4." in sentences


def test_threads_and_streams_beyond_the_limit_are_counted(tmp_path: Path) -> None:
    builder = loop(1)
    for number in range(20):
        builder.on_thread(200 + number, "cpu_op", "aten::add", 10, 5)
        builder.activity("kernel", "k", 10, 5, correlation=0, device=0, stream=50 + number)
    *_, drawing = drawn(builder, tmp_path)
    assert drawing.left_out == (
        HiddenEvents(17, "events of 17 more host threads"),
        HiddenEvents(9, "activities of 9 more streams of GPU 0"),
    )


# memory over time


def with_memory() -> TraceBuilder:
    """Return a loop that allocates 1 to 3 MiB in each step, 200 and 400 µs after its start."""
    builder = loop(3)
    for step in range(3):
        for at, mib in ((200, 3), (400, 1), (401, 2), (402, 1)):
            builder.memory(1000 * step + at, mib << 20, 8 << 20)
    builder.memory(2500, 4 << 20, 9 << 20, device=1)
    return builder


def memory_of(analysis: Analysis, lane: Lane) -> tuple[list[int], list[int]]:
    columns = lane.source.columns(LaneContext(analysis), lane)
    allocated, reserved = (columns[name] for name in ("allocated", "reserved"))
    assert isinstance(allocated, np.ndarray)
    assert isinstance(reserved, np.ndarray)
    return (allocated >> 20).tolist(), ((reserved - 1) >> 20).tolist()


def test_memory_lasts_from_each_change_to_the_next(tmp_path: Path) -> None:
    trace, analysis = measured(with_memory(), tmp_path)
    lane = lane_named(lanes_of_page(analysis, choose_window(trace)), "memory")
    assert lane.group == "GPU 0"
    starts = ((lane.start_ns - trace.steps.start_ns[0]) // 1000).tolist()
    assert starts == [step + at for step in (0, 1000, 2000) for at in (200, 400, 401, 402)]
    assert lane.end_ns[:-1].tolist() == lane.start_ns[1:].tolist()
    assert memory_of(analysis, lane) == ([3, 1, 2, 1] * 3, [8] * 12)


def test_of_merged_memory_the_most_is_kept(tmp_path: Path) -> None:
    trace, analysis = measured(with_memory(), tmp_path)
    lane = lane_named(lanes_of_page(analysis, choose_window(trace)), "memory")
    merged = merge_narrow(lane, 10_000, mixed=True)
    assert merged.count.tolist() == [1, 2, 1] * 3
    assert memory_of(analysis, merged) == ([3, 2, 1] * 3, [8] * 9)


# the page's columns


def unpacked(text: str) -> tuple[dict[str, Any], bytes]:
    block = zlib.decompress(base64.b64decode(text))
    size = int.from_bytes(block[:4], "little")
    return json.loads(block[4 : 4 + size]), block[4 + size :]


@given(st.lists(st.integers(0, 2**53), max_size=20))
def test_a_column_takes_as_few_bytes_as_hold_its_values(values: list[int]) -> None:
    block = PackedColumns()
    offset, width, count = block.add(np.array(values, np.int64))
    _, stored = unpacked(block.packed({}))
    assert count == len(values)
    if width == 0:
        assert values == [offset] * count
        return
    rows = np.frombuffer(stored, np.uint8)[offset : offset + width * count].reshape(width, count).T.copy()
    kind = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<f8"}[width]
    assert rows.view(kind).ravel().astype(np.int64).tolist() == values
    assert width == 1 or max(values) >= {2: 2**8, 4: 2**16, 8: 2**32}[width]


def test_differences_may_have_any_sign() -> None:
    block = PackedColumns()
    assert block.add_differences(np.array([0, -1, 0, -2, 0])) == [0, 1, 5, 1]
    assert unpacked(block.packed({}))[1] == bytes([0, 1, 2, 3, 4])


def test_all_of_a_trace_is_in_the_page_if_it_is_small(tmp_path: Path) -> None:
    trace, analysis = measured(loop(7), tmp_path)
    detail = lanes_of_page(analysis, choose_window(trace))
    assert sum(len(lane) for lane in detail.lanes if lane.source.name == "gpu") == len(trace.gpu)
    assert detail.narrow_ns == 0
    assert "Each event is here" in fragment(analysis)


def test_of_a_large_trace_the_steps_that_matter_are_in_the_page_in_full(tmp_path: Path) -> None:
    builder = loop(20)
    builder.call("cudaDeviceSynchronize", 3920, 60)
    trace, analysis = measured(builder, tmp_path)
    detail = lanes_of_page(analysis, choose_window(trace), max_events=400)
    assert sum(map(len, detail.lanes)) <= 400
    assert {3, 9, 10} <= set(detail.full)
    for source, table in (("gpu", trace.gpu), ("ops", trace.ops), ("calls", trace.calls)):
        assert sum(int(lane.count.sum()) for lane in detail.lanes if lane.source.name == source) == len(table)
    kernels = lane_in(detail, "stream 7")
    inside = (kernels.start_ns >= trace.steps.start_ns[3]) & (kernels.start_ns < trace.steps.end_ns[3])
    assert (kernels.count[inside] == 1).all()
    band = lane_in(detail, "overlap")
    assert sum(band.shares.values()).tolist() == band.busy_ns.tolist()  # type: ignore[union-attr]
    text = fragment(analysis, max_events=400)
    assert f"{len(detail.full)} of them are here in full. Elsewhere " in text


def lane_in(detail: PageDrawing, label: str) -> Lane:
    return next(lane for lane in detail.lanes if lane.label == label)


# texts of the figure


def test_a_collective_says_what_it_sends_and_between_which_ranks(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 990)
    builder.op("c10d::allreduce_", 95, 20)
    builder.collective(300, 50, launch=100, message=("Float", 1 << 20, 1 << 20, 2))
    _trace, analysis = measured(builder, tmp_path)
    work = LaneContext(analysis).around
    assert [work.lines[code] for code in work.activity] == [
        ["in c10d::allreduce_", "allreduce of 4.00 MiB, ranks [0, 1]"]
    ]


def test_a_block_says_how_many_events_it_holds(tmp_path: Path) -> None:
    _trace, analysis = measured(loop(3), tmp_path)
    text = next(text for text in hovers(analysis, "kernel", max_bars=1) if "events" in text)
    assert re.match(
        r"<b>\d+ events, most time in: kernel</b><br>.* in .*, the longest: gemm, from .* on<br>stream 7", text
    )


# names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("void at::native::elementwise_kernel<4, at::native::F<float>>(int, float*)", "F"),
        (
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>()",
            "MeanOps",
        ),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nt_align1>(int)", "sgemm_256x128_8x4_nt_align1"),
        ("ampere_sgemm_128x64_tn", "sgemm_128x64_tn"),
        ("sm80_xmma_gemm_f32f32_f32_tn_n", "gemm_f32f32_f32_tn_n"),
        ("void cublasLt::splitKreduce_kernel<32, 16>(cublasLt::P<float>)", "splitKreduce_kernel"),
        ("train.py(12): Trainer.step", "Trainer.step"),
        ("<built-in method item of Tensor object at 0x7f00>", "item"),
        ("nn.Module: Linear_0", "nn.Module: Linear_0"),
        ("void at::native::(anonymous namespace)::softmax<int>(int)", "softmax"),
        ("autograd::engine::evaluate_function: AddmmBackward0", "AddmmBackward0"),
        ("aten::mm", "aten::mm"),
        ("<built-in method item>", "item"),
        ("", ""),
        ("x" * 60, "x" * 39 + "…"),
    ],
)
def test_a_label_is_the_name_without_arguments(name: str, expected: str) -> None:
    assert short(name) == expected


# traces that lack something


def test_an_empty_trace_has_nothing_to_draw(tmp_path: Path) -> None:
    _trace, analysis, drawing = drawn(without_known_events(), tmp_path)
    assert drawing.lanes == ()
    assert sum(map(len, drawing.lanes)) == 0
    assert "Nothing to draw" in fragment(analysis)
    assert timeline_chart(analysis, ("", "")).data == []


def test_a_trace_of_the_host_alone_has_no_gpu_lanes(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.op("aten::add", 0, 5)
    _, analysis, drawing = drawn(builder, tmp_path)
    assert [lane.label for lane in drawing.lanes] == ["ops"]
    assert {series["name"] for series in timeline_chart(analysis, ("", "")).data} == {"op"}
    assert "The whole trace, in which no step is marked, 5.00 µs." in " ".join(fragment(analysis).split())


@pytest.mark.parametrize("path", each_recording(WORKLOADS))
def test_the_rectangles_of_a_lane_and_kind_never_overlap(path: Path) -> None:
    drawing = lanes_that_fit(analysis_of(path))
    assert drawing.lanes
    for lane in drawing.lanes:
        for kind in np.unique(lane.kind):
            of_kind = lane.kind == kind
            assert (lane.start_ns[of_kind][1:] >= lane.end_ns[of_kind][:-1]).all()
