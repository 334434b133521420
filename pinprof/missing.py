"""What a trace lacks, what follows from that, and the way out."""

from dataclasses import dataclass

import numpy as np

from pinprof.trace.tables import NONE, UNKNOWN, Trace


@dataclass(frozen=True)
class Missing:
    """Something that the trace does not hold, what follows from that, and the way out."""

    what: str
    effect: str
    remedy: str


def find_missing(trace: Trace, *, step_is_known: bool) -> tuple[Missing, ...]:
    """Return what the trace lacks, the gravest first; `step_is_known` says whether the step without profiler is."""
    gpu, calls = len(trace.gpu), len(trace.calls)
    unlinked = _unlinked(trace)
    reasons = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in trace.skipped.items())
    checks = (
        (
            not gpu,
            "GPU activities",
            "copies, overlap, idle and stalls cannot be measured",
            "record with ProfilerActivity.CUDA on a machine with a GPU",
        ),
        (
            gpu and not calls,
            "runtime calls",
            "stalls and the causes of idle time are unknown",
            "record with ProfilerActivity.CPU too",
        ),
        (
            unlinked,
            f"the launch of {unlinked} of {gpu} GPU activities",
            "they belong to no step, and idle time before them has no cause",
            "record with ProfilerActivity.CPU too; a launch can also be lost when the profiler's buffers overflow",
        ),
        (
            trace.steps.source == "whole_trace",
            "step marks",
            "the whole trace counts as one step",
            "call profiler.step() once per training step",
        ),
        (
            gpu and not step_is_known,
            "the step without profiler",
            "it is estimated: the profiler slows a step that the host bounds, and the trace does not tell how much",
            "record with pinprof.profile or pinprof run, which measure it in the same run",
        ),
        (
            (trace.gpu.host_memory == UNKNOWN).any(),
            "the host memory of copies",
            "pageable and pinned copies cannot be told apart",
            "nothing helps: the vendor's profiler does not record it",
        ),
        (
            calls and not len(trace.functions) and not trace.info.lines,
            "source lines",
            "files and functions of waits are unknown",
            "record with pinprof.profile or pinprof run; with_stack=True of torch.profiler gives functions",
        ),
        (
            trace.skipped,
            f"{sum(trace.skipped.values())} unusable events ({reasons})",
            "they are left out",
            "record the trace again",
        ),
    )
    return tuple(Missing(what, effect, remedy) for holds, what, effect, remedy in checks if holds)


def _unlinked(trace: Trace) -> int:
    """Return how many activities have lost their launch.

    What a stream did before its first linked activity does not count: it was queued before the recording began.
    """
    if len(trace.calls) == 0:
        return 0
    lost = 0
    for device, stream in np.unique(np.stack((trace.gpu.device, trace.gpu.stream)), axis=1).T:
        linked = trace.links.launch[(trace.gpu.device == device) & (trace.gpu.stream == stream)] != NONE
        lost += int((~linked[linked.argmax() :]).sum())
    return lost
