"""The verdict for programs: the cause that costs most, and what each cause costs."""

from typing import Any

from pinprof.measurement.profile import Profile
from pinprof.report.trace.verdict import shown, told
from pinprof.rules import Findings
from pinprof.units import ms
from pinprof.verdict import Cost


def verdicts(profile: Profile, findings: Findings) -> dict[str, Any]:
    """Return `verdict`, and `verdicts` of all causes, which overlap; with `cause` null where that cannot be told."""
    verdict, words = findings.verdict, told(profile, findings)
    step = verdict.step_ns
    return {
        "verdict": {
            "cause": verdict.cause,
            **_cost(verdict.cost, step),
            "headline": words and words.headline,
            "evidence": list(words.evidence) if words else [],
            "do": words and words.do,
            "finding": words and words.finding,
        },
        "verdicts": [{"cause": cost.cause, **_cost(cost, step)} for cost in shown(verdict)],
    }


def _cost(cost: Cost | None, step_ns: float | None) -> dict[str, Any]:
    if cost is None or not step_ns:
        return {"ms": None, "fraction": None, "range_ms": None}
    return {"ms": ms(cost.ns), "fraction": cost.ns / step_ns, "range_ms": [ms(end) for end in cost.range_ns]}
