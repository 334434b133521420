"""What the bench of a machine adds to what the rules saw: its rates of pinned copies, and whether pinning pays."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pinprof.bench.rates import Pinning
from pinprof.rules.rule import Evidence, Rule
from pinprof.trace.tables import Int64s, Trace
from pinprof.units import size
from pinprof.whatif import Edits


def as_measured(evidence: Evidence, rule: Rule, trace: Trace, machine: Pinning) -> Evidence:
    """Return evidence whose fix copies pinned memory as fast as a machine does, and that says whether to pin there."""
    copies = np.array(sorted(evidence.edits.pinned), np.int64)
    said = "; ".join(_advice(machine, trace.gpu.bytes[copies])) if rule.weighs_pinning else ""
    return replace(
        evidence,
        text=f"{evidence.text}. As measured on {machine.rates.gpu}: {said}" if said else evidence.text,
        edits=evidence.edits | Edits(machine=machine.rates),
        sites=tuple(replace(site, edits=site.edits | Edits(machine=machine.rates)) for site in evidence.sites),
    )


def _advice(machine: Pinning, sizes: Int64s) -> Iterator[str]:
    """Yield whether copies of these sizes, if any, are worth pinned memory, and whether a fresh tensor is."""
    sizes = sizes[sizes >= 0]  # those that are recorded
    if machine.pays and len(sizes):
        yield _held_against(machine.pays.value, sizes)
    if machine.fresh:
        of = f"for {machine.fresh_size} " if machine.fresh_size else ""
        text = machine.fresh.text
        yield f"{of}{text[0].lower()}{text[1:].removesuffix('.')}"


def _held_against(least: float | None, sizes: Int64s) -> str:
    """Return whether copies are as large as pinning needs to pay; `least` is None where it never does."""
    if least is None:
        return "copies to the GPU are no faster from pinned memory"
    small, large = int(sizes.min()), int(sizes.max())
    these = f"these copies have {size(small)}" + (f" to {size(large)}" if large > small else "")
    if least <= small:
        return f"pinned memory pays from {size(least)} on, and {these}"
    if large < least:
        return f"pinned memory pays only from {size(least)} on, but {these}"
    paying = int((sizes >= least).sum())
    return f"pinned memory pays only from {size(least)} on: {these}, and {paying:,} of {len(sizes):,} reach that"
