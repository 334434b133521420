"""Two versions of a program, and a search among revisions, for programs."""

import json
import shlex
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from pinprof.ab import Contest, Judgement, Recorded
from pinprof.ab.bisection import Bisection
from pinprof.ab.causes import Cause
from pinprof.ab.duel import compared_by, differences
from pinprof.ab.measuring import Pair
from pinprof.report.ab.words import clocks, sentence
from pinprof.units import ms
from pinprof.version import VERSION

SCHEMA, BISECT_SCHEMA = "pinprof.ab/1", "pinprof.bisect/1"


def to_json(contest: Contest, recorded: Recorded | None, remarks: Sequence[str]) -> str:
    """Return what came out as JSON text; ratios are of the step after to the step before."""
    duel = contest.duel
    changes = recorded.changes if recorded else None
    document = {
        "schema": SCHEMA,
        "pinprof_version": VERSION,
        "before": _side(contest, 0),
        "after": _side(contest, 1),
        **judgement_fields(duel.judgement),
        "mean": {"ratio": duel.mean.ratio, "range": _range(duel.mean)},
        "turns": contest.turns,
        "turns_reason": contest.why_runs or None,
        "turn_count": contest.plan.turns,
        "turn_steps": contest.plan.turn_steps,
        "compared_by": compared_by(duel.pairs),
        "seconds": round(duel.seconds, 3),
        "interrupted": duel.interrupted,
        "pairs": pair_fields(duel.pairs),
        "remarks": list(remarks),
        "causes": None if changes is None else [_cause(each) for each in changes.causes],
        "causes_reason": recorded.why or None if recorded else "not recorded",
        "clocks": clocks(recorded.clocks) if recorded else [],
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def judgement_fields(judgement: Judgement) -> dict[str, Any]:
    """Return a judgement as fields."""
    return {
        "verdict": judgement.verdict,
        "sentence": sentence(judgement),
        "ratio": judgement.ratio,
        "range": _range(judgement),
        "limit": judgement.limit,
        "too_slow": judgement.is_too_slow,
        "pair_count": judgement.pairs,
    }


def pair_fields(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Return what each pair of processes has measured."""
    return [
        {
            "first": ("before", "after")[pair.first],
            "before_ms": ms(pair.usual_ns[0]),
            "after_ms": ms(pair.usual_ns[1]),
            "ratio_log": float(difference),
            "mean_ratio_log": pair.mean.value,
        }
        for pair, difference in zip(pairs, differences(pairs), strict=True)
    ]


def _range(judgement: Judgement) -> list[float] | None:
    return None if judgement.high == inf else [judgement.low, judgement.high]


def _side(contest: Contest, number: int) -> dict[str, Any]:
    program, first = contest.programs[number], contest.first[number]
    return {
        "name": program.name,
        "command": shlex.join(program.words),
        "first_step_ms": ms(first.usual_ns),
        "step_marker": first.marker,
        "gpu": first.gpu,
        "ranks": first.ranks,
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "kind": cause.kind,
        "what": cause.what,
        "where": cause.where or None,
        "certain": cause.is_certain,
        "count": None if cause.count is None else list(cause.count),
        "time_ms": None if cause.time_ns is None else [ms(time) for time in cause.time_ns],
    }


def bisection_to_json(found: Bisection, subject: Callable[[str], str]) -> str:
    """Return what a search has found as JSON text."""
    document = {
        "schema": BISECT_SCHEMA,
        "pinprof_version": VERSION,
        "found": found.found,
        "subject": found.found and subject(found.found),
        "ratio": found.ratio and found.ratio.ratio,
        "range": found.ratio and _range(found.ratio),
        "reason": found.why or None,
        "suspects": [{"commit": commit, "subject": subject(commit)} for commit in found.suspects],
        "tried": [
            {"commit": each.commit, "reason": each.why or None}
            | ({"judgement": judgement_fields(each.judgement)} if each.judgement else {"judgement": None})
            for each in found.tried
        ],
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"
