"""Why the slowest rank of a job needs longer than the others."""

from collections.abc import Sequence
from statistics import median

from pinprof.analyses.pause import MEANING
from pinprof.measurement.known import given
from pinprof.measurement.sums import WaitSite
from pinprof.phrases import WAITS
from pinprof.ranks.part import RankPart
from pinprof.ranks.table import RankRow
from pinprof.rules.sums import within

MOSTLY = 0.5
"""What explains a smaller share of the time by which a rank is longer is not its reason."""
BY_HOST = ("launch", "python", "host")
"""Verdicts of a rank whose host is late."""


def reason_of(parts: Sequence[RankPart], rows: Sequence[RankRow], place: int) -> str:
    """Return in words where the slowest rank spends more time than the others."""
    mine, others = rows[place], [row for at, row in enumerate(rows) if at != place]
    input_more = mine.input_ns - median(row.input_ns for row in others)
    busy_more = _computing(mine) - median(_computing(row) for row in others)
    stalls = {site.identity: site for site in parts[place].profile.sites if site.is_wait}
    steps = parts[place].profile.steps.divisor
    stall_more = {
        identity: _stalled(site) / steps
        - median(_stall(part, identity) for at, part in enumerate(parts) if at != place)
        for identity, site in stalls.items()
    }
    pause = parts[place].profile.pause
    pauses = [row.pause_ns for row in others if row.pause_ns is not None]
    pause_more = pause.time_ns - (median(pauses) if pauses else 0.0) if pause else 0.0
    worst = max(stall_more, key=lambda identity: stall_more[identity], default=None)
    ways = [(input_more, "it waits for input"), (busy_more, "its GPU works longer")]
    if worst is not None:
        site = stalls[worst]
        where = (f" at {site.place}" if site.line is not None else f" in {site.op or site.call}") + within([site])
        ways.append((stall_more[worst], f"its host waits in {WAITS[site.cause]}{where}"))
    if pause:
        ways.append((pause_more, f"its host runs no op and no call, {pause.between}: {MEANING}"))
    most, reason = max(ways)
    longer = (mine.alone_ns or 0.0) - median(row.alone_ns or 0.0 for row in others)
    if most < MOSTLY * longer and parts[place].findings.verdict.cause in BY_HOST:
        return "its host launches later"
    return reason


def _computing(row: RankRow) -> float:
    """Return how long the GPU works for a step beside collectives."""
    return (row.gpu_busy_ns or 0.0) - row.exposed_communication_ns


def _stall(part: RankPart, identity: object) -> float:
    steps = part.profile.steps.divisor
    return sum(_stalled(site) for site in part.profile.sites if site.identity == identity) / steps


def _stalled(site: WaitSite) -> int:
    """Return how long the host waits in the complete steps; 0 if that is withheld."""
    cost = given(site.in_steps)
    return cost.stall_ns if cost else 0
