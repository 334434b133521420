"""Which traces are one job, by hand and of recorded jobs that lie in one folder."""

from dataclasses import replace

import pytest
from recordings import TRACES, rank_part_of
from trace_builder import TraceBuilder

from pinprof.ground.errors import TraceError
from pinprof.ranks.rank import RankPart, measure_rank, rank_of
from pinprof.ranks.runs import job_of, numbered, runs
from pinprof.trace import read_trace

RECORDED = TRACES / "ranks"
HOUR = 3_600
BASE_NS = 1_790_857_026_000_000_000


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> RankPart:
    builder = TraceBuilder(base_us=0)
    builder.metadata["baseTimeNanoseconds"] = BASE_NS
    builder.op("aten::add", 0, 1_000_000)
    return measure_rank(read_trace(builder.write(tmp_path_factory.mktemp("part") / "trace.json")))


def part(small: RankPart, rank: int | None, begin_s: float = 0, size: int | None = 2, path: str = "") -> RankPart:
    """Return a trace of one second that begins so late."""
    return replace(
        small,
        profile=replace(
            small.profile,
            path=path or f"at{begin_s}/rank{rank}.json",
            begin_ns=small.profile.begin_ns + int(begin_s * 1e9),
            info=replace(small.profile.info, rank=rank, world_size=size),
        ),
    )


def paths(parts: list[RankPart]) -> list[str]:
    return [part.profile.path for part in parts]


def test_a_trace_tells_when_it_began(small: RankPart) -> None:
    assert small.profile.begin_ns == BASE_NS


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        *(("rank3.json", 3), ("run/trace_rank_003.json.gz", 3), ("run/rank-3/trace.json", 3), ("rank=3.json", 3)),
        *(("of_rank64/RANK12.json", 12), ("worker3.1700000000.pt.trace.json.gz", 3), ("rank1_worker3.json", 1)),
        *(("frank3.json", None), ("trace_3.json", None), ("hostname_1234.1700000000.pt.trace.json.gz", None)),
    ],
)
def test_a_name_tells_the_rank_or_it_does_not(small: RankPart, path: str, rank: int | None) -> None:
    assert rank_of(part(small, None, path=path)) == rank
    assert rank_of(part(small, 7, path=path)) == 7


def test_the_user_can_say_where_the_rank_stands(small: RankPart) -> None:
    parts = [part(small, rank, path=f"gpu{number}.json") for rank, number in ((None, 10), (0, 9))]
    assert [rank_of(part) for part in numbered(parts, r"gpu(\d+)")] == [10, 9]
    assert [rank_of(part) for part in numbered(parts, "order")] == [0, 1]
    assert [rank_of(part) for part in numbered(parts)] == [None, 0]


@pytest.mark.parametrize("pattern", ["gpu(", r"gpu\d+", r"(gpu)(\d+)", r"cpu(\d+)", "(gpu)"])
def test_a_pattern_that_tells_no_rank_is_an_error(small: RankPart, pattern: str) -> None:
    with pytest.raises(TraceError, match=r"expression|one group|finds no number"):
        numbered([part(small, None, path="gpu0.json")], pattern)


def test_ranks_of_one_time_are_one_run(small: RankPart) -> None:
    chosen_run = job_of([part(small, 1, 0.2), part(small, 0)])
    assert [rank_of(part) for part in chosen_run.parts] == [0, 1]
    assert chosen_run.remarks == []


def test_the_ranks_of_a_job_know_that_they_are_reported_together(small: RankPart) -> None:
    ranks = [part(small, rank) for rank in range(2)]
    assert [rank.profile.of_job for rank in (*ranks, *job_of(ranks).parts)] == [False, False, True, True]


def test_runs_in_one_folder_are_told_apart_by_their_times(small: RankPart) -> None:
    """Some ranks of the first run are missing, and the second begins a second after it ended."""
    first, second = [part(small, 1, 0.1)], [part(small, rank, 2.1 + rank / 10) for rank in (0, 1)]
    assert [paths(run) for run in runs([*second, *first])] == [paths(first), paths(second)]


def test_the_fullest_of_the_runs_is_chosen_and_the_others_are_named(small: RankPart) -> None:
    parts = [part(small, rank, begin) for begin, rank in ((0, 0), (0, 1), (HOUR, 0), (HOUR, 1), (2 * HOUR, 1))]
    chosen_run = job_of(parts)
    assert paths(chosen_run.parts) == ["at3600/rank0.json", "at3600/rank1.json"]
    this = "this is run 2, the last recorded of the 2 with 2 ranks"
    assert chosen_run.remarks == [
        f"These are 3 runs; {this}. For another, give its files, or a pattern that only they match"
    ]
    assert job_of(parts[1:]).remarks[0].startswith("These are 3 runs; this is run 2, the only one with 2 ranks. For")


def test_a_rank_that_is_there_twice_at_once_is_no_job(small: RankPart) -> None:
    with pytest.raises(TraceError, match=r"a and b are both of rank 0; give the traces of one run"):
        job_of([part(small, 0, path="a"), part(small, 0, 0.5, path="b"), part(small, 1, 0.2)])


def test_a_trace_without_rank_is_named_with_the_way_out(small: RankPart) -> None:
    with pytest.raises(TraceError, match=r"the rank of trace_0.json is unknown; say with --rank-from"):
        job_of([part(small, None, path="trace_0.json"), part(small, 1)])


def test_ranks_without_trace_are_said(small: RankPart) -> None:
    (remark,) = job_of([part(small, rank, size=64) for rank in (0, 1, 63)]).remarks
    assert remark.startswith("No trace of ranks 2, 3, 4, 5, 6, 7, 8, 9 and 53 more of 64: ")
    (remark,) = job_of([part(small, rank, size=None) for rank in (0, 2)]).remarks
    assert remark.startswith("No trace of rank 1 of 3: ")


@pytest.mark.slow
def test_recorded_jobs_in_one_folder_are_told_apart() -> None:
    names = sorted(RECORDED.glob("*.json.gz"))
    chosen_run = runs(list(map(rank_part_of, names)))
    assert sorted(paths(run)[0].partition(".rank")[0] for run in chosen_run) == sorted(
        str(name).partition(".rank")[0] for name in names if ".rank0." in name.name
    )
    assert all(len(run) == 2 and len({path.partition(".")[0] for path in paths(run)}) == 1 for run in chosen_run)
