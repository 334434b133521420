"""What a rule says of the places at which the host waits: one finding for each line of the user."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TypedDict

import numpy as np

from pinprof.analyses.syncs.causes import ALLOCATION_CAUSES, WAITS
from pinprof.analyses.syncs.sites import Site, WaitCost, by_line
from pinprof.details import Details
from pinprof.ground.units import duration, how_many, listed, shortened
from pinprof.measurement.profile import Profile
from pinprof.prediction.edits import NO_EDITS, Edits
from pinprof.prediction.scenarios import without_blocking, without_waits
from pinprof.rules.rule import Evidence, Search, as_one
from pinprof.rules.sums import LONGEST_NAMED_CHARS, MAX_THINGS_NAMED, at, cost_of_waits, ops_of, within
from pinprof.trace.calls import are_small_to_gpu
from pinprof.trace.tables import DIRECTIONS, DTOH, HTOD, NONE
from pinprof.verdict.step_limits import LimitName

MAX_PLACES_WEIGHED = 500
"""No program waits at more places: of more, the finding has only the sums. Each place is weighed by itself, which takes
the time of a look at the whole trace."""
USE_AFTER_COPY = {DIRECTIONS[HTOD]: "its source is written", DIRECTIONS[DTOH]: "its result is read"}
"""The use that must wait for the end of a copy of pinned memory, by its direction."""


class WaitRuleFacts(TypedDict):
    """The facts that all rules for waits of the host share."""

    answers: tuple[LimitName, ...]
    what_if: str
    causes: tuple[str, ...]
    guards: bool
    search: Search


def waits_of(*causes: str, fixable: bool = True, guarding: bool | None = None) -> WaitRuleFacts:
    """Return the facts of a rule that is for waits with one of these causes; see `search_waits`.

    A rule for waits that guard a copy names no cause: each cause belongs to the rule for waits that guard none.
    """
    return {
        "answers": ("sync",),
        "what_if": "--drop-syncs",
        "causes": () if guarding else causes,
        "guards": bool(guarding),
        "search": search_waits(*causes, fixable=fixable, guarding=guarding),
    }


def search_waits(*causes: str, are_one: bool = False, fixable: bool = True, guarding: bool | None = None) -> Search:
    """Look for sites with one of the causes that are a problem.

    The waits in libraries that one line of the user calls are one site of the finding. `are_one`: one change removes
    all waits, so the finding has no sites. Not `fixable`: pinprof does not know whether there is a fix, so it promises
    no saving. `guarding`: only synchronizes that guard a copy, or only the others; None for both. The saving at a site
    that must stay is an upper bound: another wait comes in its place.
    """

    def waits(details: Details, profile: Profile) -> Iterator[Evidence]:
        chosen = [
            number
            for number, site in enumerate(details.syncs.sites)
            if site.cause in causes and site.is_of_the_code and site.in_steps.count
            if guarding in (None, site.is_kept)
        ]

        def evidence_of(lines: Sequence[Sequence[int]]) -> Evidence:
            numbers = [number for line in lines for number in line]
            edits = _fixed_at(details, numbers) if fixable else NO_EDITS
            evidence = _at_lines(details, profile, [_sites(details, line) for line in lines])
            evidence = replace(evidence, keep="" if guarding else _instead(_sites(details, numbers)))
            must_stay = any(site.must_stay for site in _sites(details, numbers))
            return replace(evidence, at_most=edits) if must_stay else replace(evidence, edits=edits)

        def groups(line: Sequence[int]) -> frozenset[int]:
            return frozenset(site.group for site in _sites(details, line) if site.group is not None)

        by_place = by_line(chosen, details.syncs.sites.__getitem__)
        by_place = [chosen] if (are_one and chosen) or len(by_place) > MAX_PLACES_WEIGHED else by_place
        yield from as_one(profile, by_place, evidence_of, groups)

    return waits


def _fixed_at(details: Details, sites: Iterable[int]) -> Edits:
    """Return what the fixes of several sites change, joined in pairs: each join copies what it joins."""
    edits = [_fixed(details, site) for site in sites]
    while len(edits) > 1:
        edits = [one | other for one, other in zip_longest(edits[::2], edits[1::2], fillvalue=NO_EDITS)]
    return edits[0]


def _fixed(details: Details, site: int) -> Edits:
    """Return what the fix of a site changes: blocking copies stay, but nobody waits for them."""
    stalls = details.syncs.stalls
    rows, cause = details.syncs.rows[site], details.syncs.sites[site].cause
    if cause in ALLOCATION_CAUSES:
        return Edits(unwaited=frozenset(rows.tolist()))
    if WAITS[cause].copy:
        copies = np.setdiff1d(stalls.copy[rows], NONE)
        staged = copies[~are_small_to_gpu(details.trace.gpu, copies)]
        return without_blocking(details, frozenset(copies.tolist())) | Edits(pinned=frozenset(staged.tolist()))
    return without_waits(details.syncs, [site])


def _instead(sites: Sequence[Site]) -> str:
    """Return what must come in place of waits that also await copies in flight; nothing where they await none."""
    uses = [use for direction, use in USE_AFTER_COPY.items() if any(direction in site.guards for site in sites)]
    if not uses:
        return ""
    return f"wait for the copy in flight that it also awaits, by an event, before {' or '.join(uses)} (PIN216)"


def _sites(details: Details, numbers: Iterable[int]) -> list[Site]:
    return [details.syncs.sites[number] for number in numbers]


def _at_lines(details: Details, profile: Profile, lines: Sequence[Sequence[Site]]) -> Evidence:
    """Return what is seen of the sites of each line, or of several together, at the first place with a known line."""
    sites = [site for line in lines for site in line]
    cost, steps = WaitCost.of(site.in_steps for site in sites), profile.steps.divisor
    at_line = next((site for site in sites if site.line is not None), sites[0])
    return Evidence(
        cost.idle_ns / steps,
        f"{_named(lines)}: {cost_of_waits(details, sites)}{_in_flight(sites)}{_only_moves(details, sites)}",
        *at_line.place,
        title=_title(sites),
        figures=f"{ops_of(sites)}{within(sites)}, {how_many(cost.count / steps)} {profile.steps.per}, as traced stall "
        f"{duration(cost.stall_ns / steps)} and idle {duration(cost.idle_ns / steps)}",
    )


def _title(sites: Sequence[Site]) -> str:
    """Return what waits, as people write it; nothing where the title of the rule says it already."""
    label, *others = {WAITS[site.cause].label for site in sites}
    is_one_call = not others and label[0] == label[-1] == "`" and not any(site.is_kept for site in sites)
    return f"{label} waits for the GPU" if is_one_call else ""


def _named(lines: Sequence[Sequence[Site]]) -> str:
    """Return what waits where; of several lines how many they are."""
    sites = [site for line in lines for site in line]
    if len(lines) > 1:
        places = {site.place for site in sites}
        where = at(sites[0].place) if len(places) == 1 else ""
        return f"{ops_of(sites)}{where or f' at {len(lines)} sites'}"
    return listed(_names(sites), MAX_THINGS_NAMED)


def _names(sites: Sequence[Site]) -> list[str]:
    """Return what waits where; waits in libraries that one place of the user calls are named together."""
    by_place: dict[object, list[Site]] = {}
    for site in sites:
        op = shortened(site.op or site.call, LONGEST_NAMED_CHARS)
        by_place.setdefault((site.place, None if site.library else op), []).append(site)
    return [f"{ops_of(members)}{at(members[0].place)}{within(members)}" for members in by_place.values()]


def _in_flight(sites: Sequence[Site]) -> str:
    directions = dict.fromkeys(direction for site in sites for direction in site.guards)
    return f"; it awaits {' and '.join(directions)} copies of pinned memory in flight" if directions else ""


def _only_moves(details: Details, sites: Sequence[Site]) -> str:
    """Return how many other sites wait for the same work; nothing where none does."""
    own, of_all = (Counter(site.group for site in members) for members in (sites, details.syncs.sites))
    others = sum(of_all[group] - count for group, count in own.items() if group is not None)
    if not others:
        return ""
    more = "one more site waits" if others == 1 else f"{others} more sites wait"
    return f"; {more} for the same work: removed only here, the wait may move there"
