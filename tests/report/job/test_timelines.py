"""Timelines of ranks under each other: which ranks have one, and that they are on one time axis."""

from pathlib import Path

import numpy as np
import pytest
from job_builder import job, rank_trace
from page_reader import Page
from recordings import TRACES, analysis_of

from pinprof.analysis import Analysis, analyse
from pinprof.ranks.compare import compare_ranks
from pinprof.ranks.rank import Ranks, measure_rank
from pinprof.report.job.page import MAX_TIMELINES, TIMELINES_SHOWN_FIRST, rank_timelines, ranks_to_draw
from pinprof.report.timeline.drawn_lanes import lanes_of_page
from pinprof.report.timeline.kinds import COLLECTIVE_KIND
from pinprof.report.timeline.steps import choose_window
from pinprof.trace import read_trace

SLEEPING = {rank: TRACES / "ranks" / f"sleeping_rank.rank{rank}.before.json.gz" for rank in (0, 1)}


def sleeping() -> tuple[Ranks, dict[int, Analysis]]:
    analyses = {rank: analysis_of(path) for rank, path in SLEEPING.items()}
    return compare_ranks([measure_rank(analysis.trace) for analysis in analyses.values()]), analyses


def test_of_many_ranks_the_slowest_the_waiting_and_the_middle_have_timelines(tmp_path: Path) -> None:
    parts, _ = job(tmp_path, 100, slowest=70)
    drawn = ranks_to_draw(compare_ranks(parts))
    assert drawn[0] == 70
    assert len(drawn) == MAX_TIMELINES
    assert 0 in drawn  # needs least alone


@pytest.mark.slow
def test_collectives_end_at_one_time_on_all_of_them() -> None:
    ranks, analyses = sleeping()
    text = rank_timelines(ranks, {rank: analyses[rank] for rank in ranks_to_draw(ranks)})
    ends = []
    for figure, rank in zip(Page(text).figures, ranks_to_draw(ranks), strict=True):
        view = choose_window(analyses[rank].trace)
        first = figure["whole"][0]  # on the page; in the trace it is where the window of all begins
        detail = lanes_of_page(analyses[rank], view)
        lanes = [lane for lane in detail.lanes if (lane.kind == COLLECTIVE_KIND).any()]
        kept = np.concatenate([lane.end_ns[lane.kind == COLLECTIVE_KIND] for lane in lanes])
        ends.append(np.sort(kept - detail.window.start_ns + first))
    few, many = sorted(ends, key=len)
    assert len(few) > 5
    away = np.abs(few[:, None] - many[None, :]).min(axis=1)
    assert np.median(away) < 50_000  # the clocks differ by far more
    assert "clocks agree within" in text
    for figure in Page(text).figures:
        assert figure["since"] == "ProfilerStep#5 of rank 1"
        folded = {lane["group"].split(" (")[-1] for lane in figure["lanes"] if lane.get("folded")}
        assert "autograd)" in folded
        assert not any(
            "Host" in lane["group"] and "(main)" in lane["group"] and lane.get("folded") for lane in figure["lanes"]
        )


def test_the_first_ones_are_seen_and_the_others_are_a_button_away(tmp_path: Path) -> None:
    builders = [rank_trace(rank, late, world_size=3) for rank, late in enumerate((10, 600, 20))]
    traces = [read_trace(builder.write(tmp_path / f"{rank}.json")) for rank, builder in enumerate(builders)]
    ranks = compare_ranks([measure_rank(trace) for trace in traces])
    read = Page(rank_timelines(ranks, {rank: analyse(traces[rank]) for rank in ranks_to_draw(ranks)}))
    regions = [attributes for tag, attributes in read.tags if attributes.get("class") == "of-rank"]
    assert ["hidden" in region for region in regions] == [False] * TIMELINES_SHOWN_FIRST + [True]
    buttons = [attributes for tag, attributes in read.tags if tag == "button" and "data-rank" in attributes]
    assert [button["data-rank"] for button in buttons] == [region["data-rank"] for region in regions]
    assert [button["aria-pressed"] for button in buttons] == ["true", "true", "false"]
