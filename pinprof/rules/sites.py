"""Sites with one rule and one fix: what is seen of all of them together, and of each."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from pinprof.measurement.profile import Profile
from pinprof.rules.rule import Evidence

NEGLIGIBLE = 0.001
"""A cost below this share of the step is not worth a line."""

Member = TypeVar("Member")
"""What is known of one site."""


def _no_group(_: object) -> frozenset[int]:
    return frozenset()


def as_one(
    profile: Profile,
    members: Iterable[Member],
    evidence_of: Callable[[Sequence[Member]], Evidence],
    groups: Callable[[Member], frozenset[int]] = _no_group,
) -> Iterator[Evidence]:
    """Yield the `evidence_of` all sites that are worth a line, with that of each; nothing if there is none.

    `groups` tells with which others a site waits for the same work: what costs nothing now belongs to the fix if the
    wait would only move there.
    """
    weighed = sorted(((evidence_of([member]), member) for member in members), key=lambda pair: -pair[0].cost_ns)
    kept = _worth_a_line(weighed, NEGLIGIBLE * (profile.step_ns or 0.0), groups)
    if len(kept) == 1:
        yield kept[0][0]
    elif kept:
        sites = tuple(site for site, _ in kept)
        at = next((site for site in sites if site.line is not None), sites[0])
        whole = evidence_of([member for _, member in kept])
        yield replace(whole, file=at.file, line=at.line, function=at.function, sites=sites)


def _worth_a_line(
    weighed: Sequence[tuple[Evidence, Member]], least_ns: float, groups: Callable[[Member], frozenset[int]]
) -> list[tuple[Evidence, Member]]:
    """Return the sites of a finding: those that cost enough, or if none does those that do so together."""
    costly = {number for number, (site, _) in enumerate(weighed) if site.at_any_cost or site.cost_ns >= least_ns}
    if not costly and sum(site.cost_ns for site, _ in weighed) >= least_ns:
        costly = {number for number, (site, _) in enumerate(weighed) if site.cost_ns}
    shared = frozenset[int]().union(*(groups(weighed[number][1]) for number in costly))
    return [pair for number, pair in enumerate(weighed) if number in costly or groups(pair[1]) & shared]
