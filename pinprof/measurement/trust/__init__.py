"""Checks of a trace: each finds a doubt about it, and the figures to withhold because of it."""

from dataclasses import replace

from pinprof.measurement.trust import losses, recording, sessions, unseen
from pinprof.measurement.trust.doubt import DOUBT_LEVELS, FIGURE_KINDS, Check, Doubt, TrustFacts

__all__ = ["CHECKS", "FIGURE_KINDS", "Doubt", "TrustFacts", "find_doubts"]

GRAVEST_FIRST: tuple[Check, ...] = (
    recording.no_gpu,
    recording.no_calls,
    recording.no_ops,
    recording.truncated,
    sessions.several_processes,
    sessions.several_sessions,
    losses.lost_ops,
    losses.skipped_steps,
    losses.lost_steps,
    losses.lost_launches,
    losses.lost_graph_work,
    unseen.lost_calls,
    losses.unlinked_activities,
    unseen.lost_start,
    unseen.queued_before,
    sessions.one_time,
    unseen.shared_gpu,
    recording.clock_skew,
    recording.unusable_events,
    recording.copy_times,
    recording.waits_apart,
    recording.repaired_events,
    recording.trailing_bytes,
    recording.no_step_marks,
    recording.irregular_steps,
    recording.other_steps,
    recording.profiler_cost,
    recording.same_stream_overlap,
    recording.host_memory,
    recording.copy_sizes,
    recording.source_lines,
)
CHECKS = {check.__name__: check for check in GRAVEST_FIRST}
"""All checks by the names that reports give them, the gravest first."""


def find_doubts(facts: TrustFacts) -> tuple[Doubt, ...]:
    """Return the doubts about a trace: those that withhold figures first, those about absent data last."""
    doubts = [replace(doubt, check=name) for name, check in CHECKS.items() if (doubt := check(facts))]
    return tuple(sorted(doubts, key=lambda doubt: DOUBT_LEVELS.index(doubt.level)))
