from collections.abc import Iterator

import numpy as np

from pinprof.details import Details
from pinprof.measurement.profile import Profile
from pinprof.rules.rule import Evidence, Rule
from pinprof.rules.snippets import AWAIT_BEFORE_READ, READ_AT_ONCE, SAFE_AWAIT
from pinprof.rules.sums import LONGEST_NAME, copies_in_steps
from pinprof.units import duration, listed, shortened

MOST_NAMED = 3
"""Ops that a sentence names."""


def _read_early(details: Details, profile: Profile) -> Iterator[Evidence]:
    """Look for copies during which the host computes what may read them."""
    hazards, ops = details.hazards, details.trace.ops
    for copies in copies_in_steps(details, profile, np.isin(details.overlap.row, hazards.early)):
        of_copies = np.isin(hazards.early, copies.rows)
        readers = hazards.reader[of_copies]
        names = list(dict.fromkeys(shortened(ops.name_of(op), LONGEST_NAME) for op in readers.tolist()))
        sized = ", which has an input of the size of the copy" if hazards.is_sized[of_copies].all() else ""
        yield Evidence(
            0.0,
            f"{copies.named('non-blocking copies')} to pinned host memory ({copies.amount}) still "
            f"{'runs' if copies.per_step <= 1 else 'run'} when the host, which has not waited, computes "
            f"{listed(names, MOST_NAMED)} for {duration(float(np.median(ops.duration_ns[readers])))}{sized}: if that "
            "reads the memory, it reads old values; `pinprof run --guard` says for certain",
            *copies.place,
            at_any_cost=True,
        )


RULE = Rule(
    id="PIN508",
    title="a result that the host may read during its copy",
    rests_on=("per_step", "copies", "stalls"),
    numbers=None,
    looks_at="Non-blocking DtoH copies into pinned memory that still run when the same thread computes an op on the "
    "host, of 0.5 ms or more and at a rate at which memory is read, before it waits, records an event or launches a "
    "kernel. Where shapes were recorded, an input of the op has the size of the copy.",
    why="x.to('cpu', non_blocking=True) returns before the copy has run. An op on the result computes with what the "
    "memory held before, or with a part of the result, without an error. A trace does not record what the host reads, "
    "so this is only a suspicion: pinprof run --guard says for certain (PIN502).",
    fix="Record an event after the copy, on the stream of the copy, and wait for it before the memory is read; "
    "pinprof run --guard says for certain whether it is read too early.",
    before=READ_AT_ONCE,
    code=AWAIT_BEFORE_READ,
    safe_if=SAFE_AWAIT,
    near_miss="host = x.to('cpu')  # blocking: the numbers are there when it returns\nlog(host.mean())",
    look=_read_early,
)
