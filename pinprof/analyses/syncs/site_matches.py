"""Matches the waits of two traces of one program, recorded before and after a change of its code."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pinprof.analyses.syncs.sites import Site, SiteIdentity

GONE_SHARE = 0.5
"""A wait was removed from the code if the trace after has at most this share of it per step: if it is left in every
third step, another place or another case makes it."""

SiteCount = tuple[Site, float]


@dataclass(frozen=True)
class Match:
    """Sites of two traces that are the same waits: either side may be empty, or several lines of a function."""

    before: tuple[SiteCount, ...]
    after: tuple[SiteCount, ...]
    moved: bool = False
    """Whether only cause and op are the same: as far as recorded, the wait is in another function now."""

    def gone(self) -> Iterator[Site]:
        """Yield the sites before that are missing, or much rarer, in the trace after."""
        return _without_counterpart(self.before, self.after)

    def new(self) -> Iterator[Site]:
        """Yield the sites after that are missing, or much rarer, in the trace before."""
        return _without_counterpart(self.after, self.before)


def _without_counterpart(sites: tuple[SiteCount, ...], others: tuple[SiteCount, ...]) -> Iterator[Site]:
    unmatched = sum(count for _, count in others)
    for site, count in sites:
        matched = min(unmatched, count)
        unmatched -= matched
        if matched <= GONE_SHARE * count:
            yield site


def _have_places(sites: tuple[SiteCount, ...]) -> bool:
    return any(site.function is not None for site, _ in sites)


def match_sites(before: Sequence[SiteCount], after: Sequence[SiteCount]) -> tuple[Match, ...]:
    """Return which sites of two traces are the same waits, each site in one match, in the order before, then after.

    Sites are the same if their whole identity is. A site without a counterpart, or with one of at most half as many
    waits, is then matched by cause and op with what is left on the other side: a change may move a wait to another
    function.
    """
    sides = [_by_identity(before), _by_identity(after)]
    matches = {
        identity: Match(tuple(sides[0].get(identity, ())), tuple(sides[1].get(identity, ())))
        for identity in (*sides[0], *(key for key in sides[1] if key not in sides[0]))
    }
    loose: dict[tuple[str, str | None], list[SiteIdentity]] = defaultdict(list)
    for identity, match in matches.items():
        if any(match.gone()) or any(match.new()):
            loose[identity[0], identity[3]].append(identity)
    for identities in loose.values():
        merged = [matches[identity] for identity in identities]
        old, new = (tuple(site for match in merged for site in getattr(match, side)) for side in ("before", "after"))
        alone_before = any(not match.after for match in merged)
        alone_after = any(not match.before for match in merged)
        needed_before = any(any(match.gone()) for match in merged)
        needed_after = any(any(match.new()) for match in merged)
        if (alone_after and needed_before) or (alone_before and needed_after):
            matches[identities[0]] = Match(old, new, moved=_have_places(old) and _have_places(new))
            for identity in identities[1:]:
                del matches[identity]
    return tuple(matches.values())


def _by_identity(sites: Sequence[SiteCount]) -> dict[SiteIdentity, list[SiteCount]]:
    grouped: dict[SiteIdentity, list[SiteCount]] = defaultdict(list)
    for site, count in sites:
        grouped[site.identity].append((site, count))
    return dict(grouped)
