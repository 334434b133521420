from collections.abc import Iterator

import numpy as np

from pinprof.details import Details
from pinprof.ground.units import how_many
from pinprof.measurement.profile import Profile
from pinprof.prediction.edits import Edits
from pinprof.rules.launching import cost_of_ops
from pinprof.rules.rule import Evidence, Rule
from pinprof.rules.sums import aten
from pinprof.trace.tables import NONE

ALLOCATING_OPS = aten(
    "empty empty_like empty_strided empty_permuted new_empty new_empty_strided resize_ resize_as_ "
    "_empty_affine_quantized"
)
"""Ops that write nothing into the memory that they get, unless torch.use_deterministic_algorithms fills it."""


def _fills(details: Details, profile: Profile) -> Iterator[Evidence]:
    ops, parent = details.trace.ops, details.trace.links.op_parent
    rows = np.flatnonzero(ops.named("aten::fill_".__eq__) & (parent != NONE))
    rows = rows[ops.named(ALLOCATING_OPS.__contains__)[parent[rows]]]
    cost = cost_of_ops(details, profile, rows)
    if cost:
        yield Evidence(
            cost.ns,
            f"{how_many(cost.number)} new tensors {profile.steps.per} are filled with NaN before use: {cost.text}",
            edits=Edits(removed_ops=frozenset(rows.tolist())),
        )


RULE = Rule(
    id="PIN610",
    title="deterministic mode fills each new tensor",
    short="leave them unfilled",
    answers=("launch", "host", "gpu"),
    numbers="equal",
    looks_at="aten::fill_ within aten::empty and similar ops, which write nothing by themselves.",
    why="torch.use_deterministic_algorithms(True) also has torch fill memory that it allocates: code that reads "
    "it too early gets the same numbers each time. That costs a launch and a pass over the memory for each new tensor.",
    fix="torch.utils.deterministic.fill_uninitialized_memory = False; the algorithms stay deterministic.",
    before="torch.use_deterministic_algorithms(True)\n\nfor x in batches:\n    train(model(x))",
    code="import torch.utils.deterministic\n\n"
    "torch.use_deterministic_algorithms(True)\n"
    "torch.utils.deterministic.fill_uninitialized_memory = False\n\n"
    "for x in batches:\n"
    "    train(model(x))",
    safe_if="No code reads memory that it has not written, as from torch.empty.",
    near_miss="torch.full((8,), float('nan'), device=device)  # the program itself fills it",
    search=_fills,
)
