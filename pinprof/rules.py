"""What is wrong and what to do about it: rules in plain sight, and what they find in a profile."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pinprof.analyses.overlap import REASONS
from pinprof.analyses.syncs import Site
from pinprof.measure import Profile
from pinprof.trace.tables import DIRECTIONS, NONE, Trace
from pinprof.units import duration, size

HIGH, MEDIUM = 0.10, 0.02
"""Shares of the step from which a cost is of high and of medium severity."""
NEGLIGIBLE = 0.001
"""A cost below this share of the step is not worth a line."""


@dataclass(frozen=True)
class Evidence:
    """What a rule saw: its cost per step in ns, a sentence with the numbers, and the place if there is one."""

    cost_ns: float
    text: str
    file: str | None = None
    line: int | None = None
    function: str | None = None


@dataclass(frozen=True)
class Rule:
    """One kind of problem."""

    id: str
    title: str
    why: str
    fix: str
    look: Callable[[Profile, Trace], Iterator[Evidence]]


@dataclass(frozen=True)
class Finding:
    """A rule that holds in a trace."""

    rule: Rule
    severity: str
    """`high`, `medium` or `low`, by the cost's share of the step."""
    evidence: Evidence


def find(profile: Profile, trace: Trace) -> tuple[Finding, ...]:
    """Return what the rules find, the largest cost first.

    The cost is GPU idle time or exposed copy time per step that goes with the problem. It is no promise: where a wait
    only moves, or something else bounds the step, removing the problem saves less.
    """
    step = profile.step.step_ns or profile.steps.traced_ns
    if not step:
        return ()
    findings = [
        Finding(rule, _severity(evidence.cost_ns / step), evidence)
        for rule in RULES
        for evidence in rule.look(profile, trace)
        if evidence.cost_ns >= NEGLIGIBLE * step
    ]
    return tuple(sorted(findings, key=lambda finding: -finding.evidence.cost_ns))


def _severity(share: float) -> str:
    if share >= HIGH:
        return "high"
    return "medium" if share >= MEDIUM else "low"


# What the rules look at


def _exposed(reason: str, direction: str | None = None) -> Callable[[Profile, Trace], Iterator[Evidence]]:
    """Look for exposed copies of one reason in the complete steps."""

    def look(profile: Profile, trace: Trace) -> Iterator[Evidence]:
        overlap, gpu = profile.overlap, trace.gpu
        step = trace.links.activity_step[overlap.row]
        chosen = (overlap.reason == REASONS.index(reason)) & (step != NONE) & trace.steps.complete[step]
        for code in np.unique(gpu.direction[overlap.row[chosen]]):
            if direction is not None and DIRECTIONS[code] != direction:
                continue
            mine = chosen & (gpu.direction[overlap.row] == code)
            rows = overlap.row[mine]
            cost = float(overlap.exposed_ns[mine].sum()) / profile.steps.count
            time = float(gpu.duration_ns[rows].sum()) / profile.steps.count
            bytes_per_step = int(gpu.bytes[rows][gpu.bytes[rows] != NONE].sum()) / profile.steps.count
            yield Evidence(
                cost,
                f"{len(rows) / profile.steps.count:.3g} {DIRECTIONS[code]} copies per step ({size(bytes_per_step)}) "
                f"are exposed for {duration(cost)} of {duration(time)}",
            )

    return look


def _waits(*causes: str) -> Callable[[Profile, Trace], Iterator[Evidence]]:
    """Look for sites with one of the causes that leave the GPU idle."""

    def look(profile: Profile, trace: Trace) -> Iterator[Evidence]:  # noqa: ARG001  every rule is asked the same way
        for site in profile.syncs.sites:
            if site.cause in causes and site.verdict != "profiler":
                yield _at_site(site, profile.steps.count)

    return look


def _at_site(site: Site, steps: int) -> Evidence:
    stall, bubble = site.in_steps.stall_ns / steps, site.in_steps.bubble_ns / steps
    where = f" in {site.function}" if site.function else ""
    where = f" at {site.file}:{site.line}" if site.line is not None else where
    return Evidence(
        bubble,
        f"{site.op or site.call}{where}: {site.in_steps.count / steps:.3g} per step, the host waits {duration(stall)} "
        f"and the GPU is idle for {duration(bubble)} after it",
        file=site.file,
        line=site.line,
        function=site.function,
    )


def _loader(profile: Profile, trace: Trace) -> Iterator[Evidence]:  # noqa: ARG001  every rule is asked the same way
    if profile.loader.waits and profile.bound == "input":
        wait = profile.loader.wait_in_steps_ns / profile.steps.count
        step, traced = profile.step.step_ns, profile.steps.traced_ns or 0.0
        if step is not None and step - traced > wait:
            yield Evidence(
                step - traced,
                f"the step takes {duration(step)} without profiler and {duration(traced)} in the trace: the workers "
                "had filled their queue while the recording began, and are too slow to keep it full",
            )
        else:
            yield Evidence(wait, f"the main thread waits {duration(wait)} per step for the next batch")


RULES = (
    Rule(
        "PIN101",
        "copies of pageable memory",
        "The driver stages pageable memory through its own pinned buffer, at the speed of one CPU thread and after "
        "waiting for the stream: the copy is slow, blocks the host even with non_blocking=True, and hides nothing.",
        "Pin the host side: DataLoader(..., pin_memory=True), or allocate it once with pin_memory=True and refill it. "
        "Do not pin a fresh tensor in each step: that costs more than it saves.",
        _exposed("pageable"),
    ),
    Rule(
        "PIN102",
        "blocking copies",
        "A blocking copy waits for all earlier work on the stream; the host cannot queue the next kernels meanwhile.",
        "x.to(device, non_blocking=True) from pinned memory. Do not write to the source before the copy has ended. "
        "For a copy to the host: a pinned destination, non_blocking=True, and event.synchronize() before it is read.",
        _waits("blocking_copy_htod", "blocking_copy_dtoh", "to_cpu", "tensor_from_host"),
    ),
    Rule(
        "PIN103",
        "asynchronous copies that block all the same",
        "With pageable memory on the host side non_blocking=True changes nothing: the driver waits for the stream and "
        "stages the copy before the call returns.",
        "Pin the host side, as for PIN101.",
        _waits("pageable_copy"),
    ),
    Rule(
        "PIN201",
        "values read on the host",
        ".item(), float(), bool(), tolist() and print() of a CUDA tensor wait for all work queued before them.",
        "Keep the value on the GPU (torch.where, accumulate in a tensor) and read it every N steps, or copy it to "
        "pinned memory with non_blocking=True and read it one step later, before that step's work is queued.",
        _waits("item", "bool", "tolist", "print", "equal"),
    ),
    Rule(
        "PIN202",
        "shapes that depend on data",
        "nonzero, boolean masks, unique and repeat_interleave must tell the host how large their result is.",
        "torch.where(mask, x, 0) or masked_fill instead of x[mask]; repeat_interleave(..., output_size=n).",
        _waits("nonzero", "mask_index", "masked_select", "unique", "repeat_interleave"),
    ),
    Rule(
        "PIN203",
        "explicit synchronization",
        "torch.cuda.synchronize() and its like stop the host until the GPU has caught up.",
        "Remove it from the step; measure time with CUDA events; order streams with wait_stream or wait_event.",
        _waits("device_synchronize", "stream_synchronize", "event_synchronize"),
    ),
    Rule(
        "PIN301",
        "copies on the compute stream",
        "Work on one stream runs one after the other: a copy on the stream of the kernels never overlaps them.",
        "Copy the next batch on a side stream while this step computes: with torch.cuda.stream(side): "
        "batch = batch.to(device, non_blocking=True); before use torch.cuda.current_stream().wait_stream(side) and "
        "batch.record_stream(torch.cuda.current_stream()).",
        _exposed("same_stream", "HtoD"),
    ),
    Rule(
        "PIN302",
        "copies launched too late",
        "The copy has a stream of its own, but starts only when the kernels that need it already wait for it.",
        "Start the copy of the next batch before the kernels of this step are queued.",
        _exposed("launched_late"),
    ),
    Rule(
        "PIN303",
        "device memory allocated and freed in the step",
        "cudaMalloc and cudaFree stop the host, and cudaFree waits for the device.",
        "No torch.cuda.empty_cache() in the loop; keep shapes constant, or warm up with the largest one.",
        _waits("device_malloc", "device_free", "host_alloc"),
    ),
    Rule(
        "PIN401",
        "the step waits for input",
        "The DataLoader does not deliver batches as fast as the GPU consumes them.",
        "More workers (num_workers), persistent_workers=True, cheaper or earlier preprocessing, larger reads.",
        _loader,
    ),
)
