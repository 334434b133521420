"""The ranks of a job, for programs."""

from typing import Any

from pinprof.ranks import Ranks, SharedFinding, TimesPerStep
from pinprof.report.fields import maybe_ms, with_ms
from pinprof.report.trace.findings_json import site_fields


def ranks_fields(ranks: Ranks) -> dict[str, Any]:
    """Return the names and values of what the ranks of a job show side by side."""
    return {
        "world_size": ranks.world_size,
        "slowest_rank": ranks.slowest_rank,
        "skew_ms": maybe_ms(ranks.skew_ns),
        "clocks_within_ms": maybe_ms(ranks.clocks_within_ns),
        "reason": ranks.reason,
        "shown_rank": ranks.shown_rank if ranks.rows else None,
        "choice": list(ranks.choice),
        "spread": _spread(ranks.spread_ns),
        "rows": [
            {**with_ms(vars(row)), "stalls": _by_cause(row.stalls), "idle": _by_cause(row.idle)} for row in ranks.rows
        ],
        "collectives": [with_ms(vars(row)) for row in ranks.collectives],
        "findings": [_shared(shared) for shared in ranks.findings],
    }


def _spread(times: tuple[float, float, float] | None) -> dict[str, Any] | None:
    """Return how the steps of the ranks lie."""
    return None if times is None else dict(zip(("least_ms", "median_ms", "most_ms"), map(maybe_ms, times), strict=True))


def _by_cause(times: TimesPerStep) -> list[dict[str, Any]]:
    return [{"cause": cause, "time_ms": maybe_ms(time)} for cause, time in times]


def _shared(shared: SharedFinding) -> dict[str, Any]:
    finding, at = shared.finding, shared.finding.evidence
    return {
        "rule": finding.rule.id,
        "family": finding.rule.family,
        "title": finding.title,
        **at.place._asdict(),
        "cost_ms": maybe_ms(at.cost_ns),
        "saving_ms": maybe_ms(finding.saving.saving_ns) if finding.saving else None,
        "ranks": list(shared.ranks),
        "sites": [site_fields(each.site) | {"ranks": list(each.ranks)} for each in shared.sites],
    }
