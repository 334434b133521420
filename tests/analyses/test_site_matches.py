"""Waits of two traces, matched: each site is `(cause, function, line)`."""

from pinprof.analyses.syncs.sites import Match, Site, WaitCost, match_sites

NOTHING = WaitCost(0, 0, 0, 0, 0, 0, 0)


def site(cause: str, function: str, line: int | None = None, op: str = "aten::item") -> Site:
    place = ("train.py", line, function)
    return Site(cause, op, "call", *place, (), (0,), "main", "hidden", total=NOTHING, in_steps=NOTHING)


A, B, C = (site("item", function) for function in "abc")


def shown(match: Match) -> tuple[str, str, bool]:
    old, new = (
        " ".join(f"{site.cause}:{site.function}:{site.line}" for site, _ in side)
        for side in (match.before, match.after)
    )
    return old, new, match.moved


def test_a_site_at_another_line_of_its_function_is_the_same() -> None:
    (match,) = match_sites([(site("item", "a", 10), 1)], [(site("item", "a", 14), 1)])
    assert shown(match) == ("item:a:10", "item:a:14", False)
    assert not list(match.gone())
    assert not list(match.new())


def test_a_site_of_another_cause_is_another() -> None:
    gone, new = match_sites([(A, 1)], [(site("print", "a"), 1)])
    assert (list(gone.gone()), list(gone.new())) == ([A], [])
    assert [site.cause for site in new.new()] == ["print"]


def test_one_that_is_left_over_on_both_sides_has_moved_if_cause_and_op_are_the_same() -> None:
    (match,) = match_sites([(A, 1)], [(B, 1)])
    assert match.moved
    assert not list(match.gone())
    assert len(match_sites([(A, 1)], [(site("item", "b", op="aten::any"), 1)])) == 2


def test_most_of_the_waits_moved_to_a_new_place() -> None:
    (match,) = match_sites([(A, 4)], [(A, 1), (B, 3)])
    assert match.moved
    assert not list(match.gone())


def test_of_two_that_went_and_one_that_came_one_has_gone() -> None:
    (match,) = match_sites([(A, 1), (B, 1)], [(C, 1)])
    assert list(match.gone()) == [B]


def test_each_line_of_a_function_counts() -> None:
    lines = [(site("item", "a", line), 1.0) for line in (10, 12, 14)]
    (match,) = match_sites(lines, lines)
    assert not list(match.gone())
    (match,) = match_sites(lines, lines[:2])
    assert len(list(match.gone())) == 1
    (match,) = match_sites(lines[:1], lines)
    assert len(list(match.new())) == 2
