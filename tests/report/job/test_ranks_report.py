"""The ranks of a job as text, page and JSON: by hand, and made of many that are alike."""

from dataclasses import replace
from pathlib import Path

import pytest
from fitting import fitting
from job_builder import job, rank_trace
from page_reader import Page

from pinprof.analysis import analyse
from pinprof.documents.findings import TrafficJson
from pinprof.ground.units import duration
from pinprof.measurement.trust import Doubt
from pinprof.ranks.compare import compare_ranks
from pinprof.ranks.rank import Alone, RankPart, Ranks, measure_rank
from pinprof.report.job.heat_map import MIN_RANKS_OF_HEAT_MAP, drawn_lines, heat_map
from pinprof.report.job.page import to_html
from pinprof.report.job.text import MAX_LISTED_RANKS, job_to_text, to_brief
from pinprof.report.job.view import clocks_line, headline, rank_numbers, why_nobody
from pinprof.report.trace.json import traces_to_json
from pinprof.report.trace.text import to_brief as brief_text
from pinprof.rules.rule import Finding, Findings
from pinprof.trace import Trace, read_trace

MANY = 1024
SLOW = 700
REASON = (
    "its host runs no op and no call, after the beginning of the step and before aten::mm: "
    "Python code, a sleep, or a call that is not recorded"
)


def page_of(folder: Path, count: int, *, slowest: int | None = None) -> str:
    parts, trace = job(folder, count, slowest=slowest)
    return page(parts, trace)


def page(parts: list[RankPart], trace: Trace, ranks: Ranks | None = None) -> str:
    ranks = ranks or compare_ranks(parts)
    shown = parts[ranks.shown_rank]
    return to_html(ranks, parts, replace(analyse(trace), profile=shown.profile, findings=shown.findings))


def heat(ranks: Ranks) -> dict[str, list[float | None]]:
    """Return the lines of a heat map by name, a time in ms for each rank."""
    return {name: [time and time / 1e6 for time in times] for name, times in drawn_lines(ranks).items()}


# words


@pytest.mark.parametrize(
    ("ranks", "of", "text"),
    [
        ((0, 1, 2), 3, "all ranks"),
        ((0,), 1, "rank 0"),
        ((7,), 8, "rank 7"),
        ((0, 1), 8, "ranks 0, 1"),
        (tuple(range(0, 40, 2)), 64, "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 12 more"),
    ],
)
def test_ranks_are_named_and_counted(ranks: tuple[int, ...], of: int, text: str) -> None:
    assert rank_numbers(ranks, of) == text


# the figures of a rank


def test_the_figures_of_each_rank_add_up(tmp_path: Path) -> None:
    parts, _ = job(tmp_path, 3, slowest=2)
    punctual, _, late = compare_ranks(parts).rows
    for row in (punctual, late):
        assert row.overlapped_communication_ns + row.exposed_communication_ns == row.communication_ns
        assert sum(time for _, time in row.stalls) == row.stall_ns
        assert sum(time for _, time in row.idle) == row.idle_ns
    # a kernel from 30 to 130, a collective from 110 to 800, a copy from 820 to 870
    assert (punctual.communication_ns, punctual.overlapped_communication_ns) == (690_000, 20_000)
    assert punctual.idle == (("sync_bubble", 180_000),)
    assert punctual.stalls == (("device_synchronize", 755_000), ("pageable_copy", 56_000))
    # 590 µs later
    assert (late.idle_ns, late.communication_ns, late.pause_ns) == (770_000, 100_000, 610_000)


def without_stalls(folder: Path, count: int) -> list[RankPart]:
    """Return the ranks of a job whose traces are not fit for stalls."""
    doubt = Doubt("launches", "some are lost", "record again", frozenset({"stalls"}), check="lost_launches")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pinprof.measurement.measure.doubts_of", lambda *_: (doubt,))
        return job(folder, count)[0]


def test_what_a_trace_is_not_fit_for_is_no_number(tmp_path: Path) -> None:
    parts, _ = job(tmp_path, 3)
    row = compare_ranks([*without_stalls(tmp_path, 3)[:1], *parts[1:]]).rows[0]
    assert (row.stall_ns, row.stalls) == (None, ())
    broken = rank_trace(0, 10)
    broken.events = [event for event in broken.events if event["cat"] not in {"kernel", "gpu_memcpy"}]
    part = measure_rank(broken.read())
    assert (part.idle, compare_ranks([part]).rows[0].idle_ns) == (None, None)


def test_json_has_the_spread_the_causes_and_each_finding_once(tmp_path: Path) -> None:
    parts, _ = job(tmp_path, 4, slowest=2)
    document = fitting(traces_to_json([], compare_ranks(parts)))["ranks"]
    assert document["shown_rank"] == 2
    assert document["spread"] == {"least_ms": 0.9828, "median_ms": 0.9828, "most_ms": 0.9828}
    assert document["rows"][2]["idle"] == [{"cause": "sync_bubble", "time_ms": 0.77}]
    assert document["rows"][0]["stalls"][1] == {"cause": "pageable_copy", "time_ms": 0.056}
    assert document["rows"][0]["overlapped_communication_ms"] == 0.02
    assert document["rows"][0]["pause_ms"] == 0.113
    explicit, pageable = document["findings"]  # on as many ranks: the larger saving first
    assert (pageable["rule"], explicit["rule"]) == ("PIN101", "PIN210")
    assert pageable["ranks"] == [0, 1, 2, 3]
    assert pageable["cost_ms"] == 0.675
    assert (pageable["family"], explicit["family"]) == ("copies", "waits")
    (site,) = pageable["sites"]
    assert (site["cost_ms"], site["saving_ms"], site["ranks"]) == (0.675, pageable["saving_ms"], [0, 1, 2, 3])
    assert fitting(traces_to_json([], compare_ranks([])))["ranks"]["spread"] is None


def at_sites(finding: Finding, sites: dict[str, float]) -> Finding:
    """Return a finding at several functions, of which each costs so much in ns."""
    old = finding.evidence
    parts = tuple(replace(old, function=name, cost_ns=cost) for name, cost in sites.items())
    return replace(finding, evidence=replace(old, function=parts[0].function, cost_ns=sum(sites.values()), sites=parts))


def test_findings_of_one_rule_that_share_a_site_are_one_with_the_sites_of_all_ranks(tmp_path: Path) -> None:
    parts, _ = job(tmp_path, 3)
    finding = parts[0].findings[0]
    by_rank = ({"a": 30.0, "b": 20.0}, {"b": 50.0, "c": 5.0}, {"d": 1.0})
    parts = [
        replace(part, findings=Findings([at_sites(finding, sites)])) for part, sites in zip(parts, by_rank, strict=True)
    ]
    ranks = compare_ranks(parts)
    shared, apart = ranks.findings
    assert (shared.ranks, shared.finding.evidence.cost_ns, apart.ranks) == ((0, 1), 55, (2,))
    sites = [(site.site.evidence.function, site.site.evidence.cost_ns, site.ranks) for site in shared.sites]
    assert sites == [("b", 50, (0, 1)), ("a", 30, (0,)), ("c", 5, (1,))]
    text = " ".join(job_to_text(ranks, parts, width=140).split())
    assert "ranks 0, 1 `torch.cuda.synchronize()` waits for the GPU (PIN210) b and 2 more sites" in text


# the console


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 100])
def test_text_of_many_ranks_is_short_and_keeps_to_the_width(tmp_path: Path, width: int) -> None:
    parts, _ = job(tmp_path, MANY, slowest=SLOW)
    lines = job_to_text(compare_ranks(parts), parts, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= 61
    assert lines[lines.index("Why the step takes so long") + 1].startswith(f"On rank {SLOW}, ")
    heads = ["busy", "idle", "exposed", "stalls", "overlapped", "exposed", "waited", "last"]
    assert any(line.split()[-8:] == heads for line in lines)  # no word is broken
    listed = [line.split()[0] for line in lines if line.split()[-1:] == ["%"] and "allreduce" not in line]
    assert listed == [str(SLOW), *(str(MANY - number) for number in range(1, MAX_LISTED_RANKS))]
    assert any(line.split()[:3] == [str(SLOW), "*", "0.98"] for line in lines)
    assert f"the {MAX_LISTED_RANKS} that need longest alone" in " ".join(lines)
    assert any("copies of pageable memory" in line for line in lines)
    assert "  - none on any rank: input" in lines


def test_a_balanced_job_names_nobody_and_shows_the_rank_that_needs_longest_alone(tmp_path: Path) -> None:
    parts, trace = job(tmp_path, 3)
    ranks = compare_ranks(parts)
    assert (ranks.slowest_rank, ranks.shown_rank) == (None, 2)
    text, read = job_to_text(ranks, parts), Page(page(parts, trace))
    assert [row.traced_ns for row in ranks.rows] == [1e6] * 3
    assert "rank step alone traced" in " ".join(text.split())
    assert "rank step alone traced GPU busy" in read.text
    assert "No rank holds up the others: each would need about the same step alone, 315 to 317 µs" in text
    assert headline(ranks, parts).endswith(" per step, and no rank holds up the others")
    assert headline(ranks, parts) in read.text
    assert "all ranks torch.cuda.synchronize() waits for the GPU" in read.text
    assert "slowest" not in read.text
    for said in (text, read.text):
        assert "Below: the report on rank 2, which needs longest alone, from its own trace." in said
    assert 1 < len(ranks.rows) < MIN_RANKS_OF_HEAT_MAP
    assert "Side by side" not in read.text


def test_a_rank_that_may_hold_up_the_others_is_not_called_the_same(tmp_path: Path) -> None:
    parts, _ = job(tmp_path, 3)
    alone = ((48e4, 50e4), (47e4, 50e4), (51e4, 55e4))  # 10 % longer, but 2 % if the profiler cost it most
    traced = (60e4, 60e4, 95e4)
    parts = [
        replace(part, alone=Alone(*times, with_profiler))
        for part, times, with_profiler in zip(parts, alone, traced, strict=True)
    ]
    ranks = compare_ranks(parts)
    assert ranks.slowest_rank is None
    words = "rank 2 may hold up the others: alone it would need 550 µs, the others 500 µs"
    ranks = replace(ranks, is_reason_known=True)
    assert why_nobody(ranks) == f"{words}; allowing for the profiler's cost, it may need only 510 µs"
    assert "\nRank 2 may" in job_to_text(ranks, parts)


def test_a_host_that_is_slower_in_all_that_it_does_is_not_accused(tmp_path: Path) -> None:
    parts, _ = job(tmp_path, 3)
    alone = (
        Alone(48e4, 50e4, 60e4, 10e3, 40e4),
        Alone(48e4, 50e4, 60e4, 10e3, 40e4),
        Alone(70e4, 75e4, 95e4, 20e3, 60e4),
    )
    ranks = compare_ranks([replace(part, alone=times) for part, times in zip(parts, alone, strict=True)])
    assert (ranks.slowest_rank, ranks.rows[2].surely_ns) == (None, 45e4)  # half of its ops' time is its pace
    assert why_nobody(ranks) == (
        "no rank has more work than the others: the host of rank 2 is 2.0 times as slow at everything, which a "
        "profiler can cause; alone it would need 750 µs, the others 500 µs"
    )


# the chart


def test_the_chart_has_a_line_for_each_cause_and_a_column_for_each_rank(tmp_path: Path) -> None:
    parts, _ = job(tmp_path, 4, slowest=2)
    ranks = compare_ranks(parts)
    assert heat(ranks) == {
        "GPU busy": [0.77, 0.77, 0.18, 0.77],
        "GPU idle": [0.18, 0.18, 0.77, 0.18],
        "copies exposed": [0.05] * 4,
        "stalls": [0.811, 0.811, 0.221, 0.811],
        "host runs no op": [0.113, 0.113, 0.61, 0.113],
        "NCCL overlapped": [0.02] * 4,
        "NCCL exposed": [0.67, 0.67, 0.08, 0.67],
        "waited": [0.59, 0.59, 0.0, 0.59],
    }
    assert heat_map(ranks) == heat_map(compare_ranks([])) == ""


def test_neighbours_of_one_shade_are_one_cell_and_each_rank_has_a_column_that_tells_of_it(tmp_path: Path) -> None:
    parts, _ = job(tmp_path, 16, slowest=2)
    ranks = compare_ranks(parts)
    drawn = Page(heat_map(ranks))
    assert drawn.misnested == []
    cells = [(one["x"], one["width"], one["fill"]) for tag, one in drawn.tags if tag == "rect" and "fill" in one]
    assert cells[-2:] == [("0", "2", "rgba(213,94,0,0.9)"), ("3", "13", "rgba(213,94,0,0.9)")]  # they wait, rank 2 not
    columns = [(one["data-rank"], one["data-file"]) for _, one in drawn.tags if "data-rank" in one]
    assert columns == [(f"{number}", f"train.rank{number}.json.gz") for number in range(16)]
    text = " ".join(drawn.text.split())
    alone = duration(ranks.rows[2].alone_ns or 0.0)
    assert f"rank 2: train.rank2.json.gz step: 983 µs alone: {alone} traced: 1.00 ms GPU busy: 180 µs" in text
    assert "rank 2 holds up the others" in text


# the page


def test_the_page_says_who_holds_up_the_job_then_shows_that_rank(tmp_path: Path) -> None:
    read = Page(page_of(tmp_path, 4, slowest=2))
    assert read.misnested == []
    assert f"Rank 2 holds up the others by 594 µs per step. I{REASON[1:]}. See what rank 2 does." in read.text
    assert read.text.index("Rank 2 holds up") < read.text.index("On rank 2, ")
    sections = [attributes["id"] for tag, attributes in read.tags if tag == "section"]
    assert sections == ["job", "trace-1"]
    links = {attributes["href"] or "" for tag, attributes in read.tags if tag == "a"}
    assert {link[1:] for link in links} <= {attributes["id"] for _, attributes in read.tags if "id" in attributes}
    assert len(read.figures) == 1
    assert "all ranks copies of pageable memory (PIN101)" in read.text
    assert "allreduce [0, 1] rank 2 100 % 100 µs 590 µs" in read.text


def test_it_is_said_how_closely_clocks_agree(tmp_path: Path) -> None:
    parts, _ = job(tmp_path, 2)
    ranks = compare_ranks(parts)
    agree = f"clocks agree within {duration(ranks.clocks_within_ns or 0)}, by the ends of collectives"
    assert clocks_line(ranks) == agree
    assert clocks_line(replace(ranks, clocks_within_ns=None)) == ""


def test_the_short_report_on_a_job_begins_with_who_holds_it_up(tmp_path: Path) -> None:
    parts, _ = job(tmp_path, 4, slowest=2)
    ranks = compare_ranks(parts)
    head, verdict, *lines = to_brief(ranks, parts, width=300).splitlines()
    assert head == "4 ranks of one job"
    assert verdict == f"Rank 2 holds up the others by {duration(ranks.skew_ns)} per step."
    assert lines[0].split() == f"I{REASON[1:]}.".split()
    alone = next(line for line in lines if "if the rank waited for no other: " in line)
    assert alone.split(": ")[1].startswith("rank 2 ")
    assert alone.count("rank ") == 5
    narrow = to_brief(ranks, parts, width=80)
    assert max(map(len, narrow.splitlines())) <= 80


def test_both_reports_say_how_much_of_the_collectives_is_hidden_and_how_fast_they_are(tmp_path: Path) -> None:
    traces = [read_trace(rank_trace(number, 10).write(tmp_path / f"{number}.json")) for number in range(2)]
    parts = list(map(measure_rank, traces))
    ranks = compare_ranks(parts)
    hidden = "Collectives: 3 % of their time, waiting included, overlaps other kernels"  # 20 of 690 µs
    assert f"{hidden}.\n" in to_brief(ranks, parts, width=200)
    assert "Collectives: 690 µs per step, waiting included; 3 % overlapped by other kernels" in brief_text(
        parts[0].profile, parts[0].findings, width=200
    )
    with_rate = replace(ranks, traffic=(TrafficJson("allreduce", 2.0, 8 * 2**20, 0.04, 210.0),))
    for text in (to_brief(with_rate, parts, width=200), job_to_text(with_rate, parts, width=200)):
        assert f"{hidden}; per step allreduce 8.00 MiB, 210 GB/s on the bus".lower() in text.lower()
    table = " ".join(Page(page(parts, traces[0], with_rate)).text.split())
    assert "Bus: the bandwidth of a rank's link in that time" in table
