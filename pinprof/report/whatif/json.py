"""A prediction for programs: JSON with stable names, times in milliseconds."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pinprof.analyses.syncs import Site
from pinprof.trace.tables import Trace
from pinprof.units import ms
from pinprof.whatif import Prediction
from pinprof.whatif.fixes import Change

SCHEMA = "pinprof.whatif/1"


def to_json(
    ranks: Sequence[tuple[Trace, Sequence[Change]]],
    prediction: Prediction,
    named: Sequence[tuple[str, str, Prediction]] | None = None,
) -> str:
    """Return a prediction as JSON text; with the usual scenarios, by name and options, if they are given.

    `ranks` are the traces that were replayed together, each with what changes in it.
    """
    paths = [trace.path for trace, _ in ranks]
    document = {"schema": SCHEMA, "path": paths[0], "paths": paths, **prediction_fields(prediction)}
    document["changes"] = [
        {"rank": trace.info.rank, **change_fields(change)} for trace, changes in ranks for change in changes
    ]
    if named is not None:
        document["scenarios"] = [
            {"name": name, "options": options, **prediction_fields(made)} for name, options, made in named
        ]
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def prediction_fields(prediction: Prediction) -> dict[str, Any]:
    """Return the names and values of a prediction."""
    return {
        "baseline_step_ms": ms(prediction.baseline_ns),
        "baseline_source": prediction.baseline_source,
        "predicted_step_ms": ms(prediction.predicted_ns),
        "range_ms": [ms(bound) for bound in prediction.range_ns],
        "speedup": prediction.speedup,
        "bound_before": prediction.bound_before,
        "bound_after": prediction.bound_after,
        "scenario": asdict(prediction.scenario),
    }


def change_fields(change: Change) -> dict[str, Any]:
    """Return the names and values of a change."""
    return {
        "option": change.option,
        "per_step": change.per_step,
        "bytes_per_step": change.bytes_per_step,
        "sites": [wait_fields(site) for site in change.sites],
        "blockers": [
            {"what": each.what, **each.place._asdict(), "per_step": each.per_step} for each in change.blockers
        ],
    }


def wait_fields(site: Site) -> dict[str, Any]:
    """Return the names and values of what tells a wait from others."""
    return {
        "cause": site.cause,
        "op": site.op,
        **site.place._asdict(),
        "library": site.library and site.library._asdict(),
        "guards": list(site.guards),
    }
