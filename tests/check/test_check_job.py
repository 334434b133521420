"""The traces of a job are checked together."""

from pathlib import Path

import pytest
from check_traces import measured, plain, with_waits

from pinprof.check.figures import TraceFigures
from pinprof.check.judge import KEPT, NOT_JUDGED, NOT_KEPT, absent_ranks, judge_all, outcome
from pinprof.check.limits import Limits
from pinprof.ground.errors import TraceError


def of_rank(rank: int | None, world_size: int | None, folder: Path, name: str | None = None) -> TraceFigures:
    builder = plain()
    builder.metadata["distributedInfo"] = {"rank": rank, "world_size": world_size}
    return measured(builder, folder, name or f"r{rank}.json")


def test_every_rank_that_a_job_promises_is_asked_for(tmp_path: Path) -> None:
    ranks = [of_rank(rank, 3, tmp_path) for rank in range(3)]
    assert absent_ranks(ranks) == {}
    assert absent_ranks([]) == {}
    (said,) = absent_ranks(ranks[:2]).values()
    assert said.startswith("no trace of rank 2 of 3 given; ")
    assert list(absent_ranks(ranks[1:])) == [ranks[1].path]
    assert absent_ranks(ranks[:2], ["run/rank2.json"]) == {}
    assert absent_ranks([*ranks[:2], of_rank(None, None, tmp_path, "rank2.json")]) == {}
    assert absent_ranks([of_rank(None, None, tmp_path, "rank7.json"), of_rank(0, 1, tmp_path, "one.json")]) == {}


def test_each_run_of_a_job_has_all_ranks(tmp_path: Path) -> None:
    first = [of_rank(rank, 2, tmp_path, f"a{rank}.json") for rank in range(2)]
    second = [of_rank(rank, 2, tmp_path, f"b{rank}.json") for rank in range(2)]
    assert absent_ranks([*first, *second]) == {}
    (said,) = absent_ranks([*first, second[0]]).values()
    assert said.startswith("fewer than 2 traces of rank 1 of 2 given; ")
    assert absent_ranks([*first, first[0]]) == {}  # the same file again is no other run


@pytest.mark.parametrize(
    ("size", "said"), [(10**15, "and 999999999999991 more of 1000000000000000"), (-3, ""), (0, "")]
)
def test_an_absurd_number_of_ranks_costs_nothing(tmp_path: Path, size: int, said: str) -> None:
    assert said in "".join(absent_ranks([of_rank(0, size, tmp_path)]).values())


def test_what_could_not_be_judged_is_no_pass_and_does_not_hide_a_broken_limit(tmp_path: Path) -> None:
    good, bad = measured(plain(), tmp_path, "good.json"), measured(with_waits(), tmp_path, "bad.json")
    lost = ("lost.json", TraceError("lost.json: no such file"))
    limits = Limits(max_hidden_syncs=0)
    assert outcome(judge_all([("good", good)], limits)) == KEPT
    both = judge_all([lost, ("good", good)], limits)
    assert outcome(both) == NOT_JUDGED
    assert [(verdict.name, verdict.sentence) for verdict in both[0].verdicts] == [("readable", "no such file")]
    assert outcome(judge_all([lost, ("bad", bad)], limits)) == NOT_KEPT
    alone = [("alone", of_rank(0, 2, tmp_path))]
    assert outcome(judge_all(alone, limits)) == NOT_JUDGED
    assert outcome(judge_all(alone, limits, some_ranks=True)) == KEPT
