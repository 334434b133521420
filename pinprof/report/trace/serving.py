"""What a server does: its batches by phase, how fast they make tokens, and what it is in while the GPU is idle."""

from collections.abc import Iterator, Sequence

from pinprof.analyses.serving import DECODE, ServingPhase
from pinprof.report.view import Fact, Section
from pinprof.units import counted, duration, how_many, percent, shortened

LEAST_IDLE = 0.02
"""A smaller share of a batch without GPU work is not explained."""
NAMES = {"prefill": "prefill", "decode": "decode", "mixed": "prefill and decode", "other": "other"}
LONGEST_MARK = 60
SECOND_NS = 1e9


def serving_section(phases: Sequence[ServingPhase]) -> Section:
    """Return a server's batches by phase."""
    facts = [Fact(NAMES[phase.name], duration(phase.step_ns), "; ".join(_words(phase))) for phase in phases]
    decode = next((fact for phase, fact in zip(phases, facts, strict=True) if phase.name == DECODE), facts[0])
    brief = f"Batches of {decode.name}: {decode.number} as traced, {decode.meaning}."
    return Section("Batches of the server, as traced", facts=facts, brief=[brief], name="serving")


def _words(phase: ServingPhase) -> Iterator[str]:
    tokens = ""
    if phase.tokens:
        tokens = (
            f" and {how_many(phase.tokens)} tokens, {phase.tokens / phase.step_ns * SECOND_NS:,.0f} tokens per second"
        )
    yield f"{counted(phase.count, 'batch', 'batches')} of {how_many(phase.requests)} requests{tokens}"
    graphs = f"{how_many(phase.graphs)} of them of CUDA graphs" if phase.graphs else "none of a CUDA graph"
    yield f"{how_many(phase.launches)} launches, {graphs}"
    if phase.idle_ns >= LEAST_IDLE * phase.step_ns:
        fills = [f"{duration(ns)} in {shortened(mark, LONGEST_MARK)}" for mark, ns in phase.fills]
        within = f", of it {', '.join(fills)}" if fills else ""
        yield f"no GPU work for {duration(phase.idle_ns)} ({percent(phase.idle_ns / phase.step_ns)}){within}"
