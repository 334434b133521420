"""Checks of a trace: each finds a doubt about it, and the figures to withhold because of it."""

from dataclasses import replace

from pinprof.measurement.trust.doubt import FIGURE_KINDS, LEVELS, Check, Doubt, TrustFacts
from pinprof.measurement.trust.losses import (
    lost_graph_work,
    lost_launches,
    lost_steps,
    skipped_steps,
    unlinked_activities,
)
from pinprof.measurement.trust.recording import (
    clock_skew,
    copy_sizes,
    copy_times,
    host_memory,
    irregular_steps,
    no_calls,
    no_gpu,
    no_step_marks,
    profiler_cost,
    repaired_events,
    same_stream_overlap,
    source_lines,
    truncated,
    unusable_events,
    waits_apart,
)
from pinprof.measurement.trust.sessions import one_time, several_processes, several_sessions
from pinprof.measurement.trust.unseen import lost_calls, lost_start, queued_before, shared_gpu

__all__ = ["CHECKS", "FIGURE_KINDS", "Doubt", "TrustFacts", "find_doubts"]

CHECKS: dict[str, Check] = {
    "no_gpu": no_gpu,
    "no_calls": no_calls,
    "truncated": truncated,
    "several_processes": several_processes,
    "several_sessions": several_sessions,
    "skipped_steps": skipped_steps,
    "lost_steps": lost_steps,
    "lost_launches": lost_launches,
    "lost_graph_work": lost_graph_work,
    "lost_calls": lost_calls,
    "unlinked_activities": unlinked_activities,
    "lost_start": lost_start,
    "queued_before": queued_before,
    "one_time": one_time,
    "shared_gpu": shared_gpu,
    "clock_skew": clock_skew,
    "unusable_events": unusable_events,
    "copy_times": copy_times,
    "waits_apart": waits_apart,
    "repaired_events": repaired_events,
    "no_step_marks": no_step_marks,
    "irregular_steps": irregular_steps,
    "profiler_cost": profiler_cost,
    "same_stream_overlap": same_stream_overlap,
    "host_memory": host_memory,
    "copy_sizes": copy_sizes,
    "source_lines": source_lines,
}
"""All checks, the gravest first."""


def find_doubts(facts: TrustFacts) -> tuple[Doubt, ...]:
    """Return the doubts about a trace: those that withhold figures first, those about absent data last."""
    doubts = [replace(doubt, check=name) for name, check in CHECKS.items() if (doubt := check(facts))]
    return tuple(sorted(doubts, key=lambda doubt: LEVELS.index(doubt.level)))
