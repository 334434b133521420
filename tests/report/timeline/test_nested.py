"""Python frames and ops at any depth: lanes that are folded at first, and cost the others nothing."""

from pathlib import Path

from analysed import analysed
from trace_builder import TraceBuilder

from pinprof.analysis import Analysis
from pinprof.report.timeline import fragment
from pinprof.report.timeline.drawn_lanes import FOLDED_SHARE_OF_PAGE, PageDrawing, lanes_of_page
from pinprof.report.timeline.kinds import EVENT_KINDS
from pinprof.report.timeline.lane import FRAME_SOURCE, OP_SOURCE
from pinprof.report.timeline.lanes import DEEPEST_FRAME, DEEPEST_OP
from pinprof.report.timeline.steps import choose_window

STACK = (
    "train.py(3): <module>",
    "train.py(20): train",
    "torch/nn/modules/module.py(1700): _call_impl",
    "nn.Module: Linear_0",
    "/usr/lib/python3.11/site-packages/einops/einops.py(9): rearrange",
    "<built-in method item of Tensor object at 0x7f00>",
)


def recorded(folder: Path, steps: int = 4, deep: int = 7, frames: int = 20) -> Analysis:
    """Steps of 1000 µs with a kernel, ops nested `deep` levels, and `frames` short frames inside of the stack."""
    builder = TraceBuilder()
    for depth, name in enumerate(STACK):
        builder.function(name, depth, 1000 * steps - 2 * depth)
    for step in range(steps):
        builder.step(step, 1000 * step + 10, 980)
        builder.kernel(1000 * step + 500, 50, launch=1000 * step + 400)
        for depth in range(deep):
            builder.op(f"aten::deep{depth}", 1000 * step + 100 + depth, 200 - 2 * depth)
        for number in range(frames):
            builder.function("train.py(30): inner", 1000 * step + 600 + number, 0.5)
    return analysed(builder, folder)


def drawn(analysis: Analysis, most: int = 1_000_000) -> PageDrawing:
    return lanes_of_page(analysis, choose_window(analysis.trace), most)


def test_frames_have_a_lane_for_each_level_and_say_whose_code_they_are(tmp_path: Path) -> None:
    analysis = recorded(tmp_path)
    lanes = [lane for lane in drawn(analysis).lanes if lane.source is FRAME_SOURCE]
    assert {(lane.group, lane.folded) for lane in lanes} == {("Python frames, thread 100 (main)", True)}
    names = [analysis.trace.functions.name_of(int(lane.row[0])) for lane in lanes]
    assert names == [*STACK, "train.py(30): inner"]
    whose = [EVENT_KINDS[int(lane.kind[0])].label for lane in lanes]
    assert whose == ["your code", "your code", "torch", "torch", "Python and other packages", "torch", "your code"]


def test_ops_further_inside_have_lanes_of_their_own(tmp_path: Path) -> None:
    analysis = recorded(tmp_path)
    lanes = [lane for lane in drawn(analysis).lanes if lane.source is OP_SOURCE]
    assert [(lane.label, lane.folded) for lane in lanes if len(lane)] == [
        *(("ops" if depth == 0 else "", False) for depth in range(4)),
        *((f"depth {depth}", True) for depth in (5, 6, 7)),
    ]
    assert drawn(analysis).left_out == ()
    assert "Folded at first: Python frames and ops further inside." in fragment(analysis)


def test_what_is_deeper_still_is_counted(tmp_path: Path) -> None:
    analysis = recorded(tmp_path, steps=1, deep=DEEPEST_OP + 2, frames=0)
    (left,) = drawn(analysis).left_out
    assert (left.count, left.what) == (2, f"ops nested deeper than {DEEPEST_OP}")
    assert DEEPEST_FRAME > DEEPEST_OP


def test_many_frames_are_merged_and_take_no_room_from_the_rest(tmp_path: Path) -> None:
    analysis = recorded(tmp_path, steps=30, deep=2, frames=100)
    detail = drawn(analysis, most=2000)
    frames = [lane for lane in detail.lanes if lane.source is FRAME_SOURCE]
    assert sum(int(lane.count.sum()) for lane in frames) == 30 * 100 + len(STACK)  # each is in one block
    assert sum(map(len, frames)) <= FOLDED_SHARE_OF_PAGE * 2000
    assert all((lane.count == 1).all() for lane in detail.lanes if not lane.folded)
    assert (detail.narrow_ns, detail.folded_narrow_ns > 0) == (0, True)
    page = fragment(analysis, max_events=2000)
    assert "of them that are shorter than" in page
    assert page.count("are merged into") == 1
