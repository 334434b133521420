"""The search for the revision that made a program slower, with comparisons that are given."""

from collections.abc import Callable

import pytest

from pinprof.ab.bisection import Bisection, bisect
from pinprof.ab.statistics import Judgement
from pinprof.errors import MeasureError

COMMITS = [f"c{number}" for number in range(1, 9)]


def slower() -> Judgement:
    return Judgement(20, 1.1, 1.08, 1.12, 0.02)


def alike() -> Judgement:
    return Judgement(20, 1.0, 0.99, 1.01, 0.02)


def unsure() -> Judgement:
    return Judgement(20, 1.05, 0.9, 1.2, 0.02)


def searched(compare: Callable[[str], Judgement]) -> Bisection:
    return bisect("good", COMMITS, lambda _, commit: compare(commit), lambda *_: None)


@pytest.mark.parametrize("culprit", range(1, 9))
def test_the_first_slower_revision_is_found_in_few_comparisons(culprit: int) -> None:
    search = searched(lambda commit: slower() if int(commit[1:]) >= culprit else alike())
    assert search.found == f"c{culprit}"
    assert len(search.tried) <= 4
    assert search.ratio == slower()


def test_a_revision_that_does_not_run_is_left_out() -> None:
    def compare(commit: str) -> Judgement:
        if commit == "c4":
            raise MeasureError("it failed")
        return slower() if commit >= "c6" else alike()

    search = searched(compare)
    assert search.found == "c6"
    assert [attempt.why for attempt in search.tried if attempt.judgement is None] == ["it failed"]


def test_revisions_that_do_not_run_before_the_slow_one_remain_suspect() -> None:
    def compare(commit: str) -> Judgement:
        if commit in {"c3", "c4"}:
            raise MeasureError("it failed")
        return slower() if commit >= "c4" else alike()

    search = searched(compare)
    assert search.found is None
    assert search.suspects == ("c3", "c4", "c5")
    assert search.why == "the other suspects do not run"


def test_where_it_cannot_tell_it_names_none() -> None:
    search = searched(lambda commit: slower() if commit == "c8" else unsure())
    assert search.found is None
    assert len(search.suspects) == 8
    assert "cannot be told" in search.why


def test_a_bad_revision_that_is_not_slower_ends_it() -> None:
    assert "it is not" in searched(lambda _: alike()).why
    assert "cannot be decided" in searched(lambda _: unsure()).why


def test_a_bad_revision_that_does_not_run_is_an_error() -> None:
    def compare(_: str) -> Judgement:
        raise MeasureError("it failed")

    with pytest.raises(MeasureError, match="the bad revision cannot be measured: it failed"):
        searched(compare)
