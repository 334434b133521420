"""The code of the seed experiments, by number: their cases, how these are timed, and what their traces show."""

import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from pinprof.bench.article_judges import COPIED
from pinprof.bench.catalogue import experiment_of
from pinprof.bench.results import Figure, Picture
from pinprof.bench.tutorial_judges import AS_MANY, AT_ONCE, EARLY, TWO_COPIES
from pinprof.capture.window.recording import profile
from pinprof.details import Details, details_of
from pinprof.trace import Trace, read_trace
from pinprof.trace.calls import ASYNC_COPY, call_kinds
from pinprof.trace.tables import HTOD, KERNEL, MEMCPY, NONE
from pinprof.units import NS_PER_MS
from pinprof.workloads import bandwidth, custom_batch, hazards, overlap, pinning, processes, training, transfers
from pinprof.workloads.pictures import picture
from pinprof.workloads.pinned_memory import allocations, free_pinned, left_to_the_host, pinned_limits
from pinprof.workloads.timing import FULL, QUICK, Budget, answer, by_host, figure, time_cases
from pinprof.workloads.transfers import Sizes

TRACED_STEPS, TRACED_WARM_UP = 5, 5
MOST_WARM_UP = 20
PLAIN_SECONDS = 5
"""How long the step is timed without a profiler."""
ROUNDS = 7
"""Rounds of quick experiments, each in a process of its own. The median of seven draws lies within the range of seven
others in 93 % of cases, whatever the spread within a round; the median of three in 60 %."""
SOME_ROUNDS = 3
"""Rounds of experiments that take seconds; further ones follow if there is time. The bench runs three in any case."""
ONE_WAIT = ", one synchronize"
"""A part of the names of cases that is left out of the names of their waits."""

TraceResult = Figure | Picture
Timing = Callable[[torch.device, Sizes, Budget], Iterator[Figure]]
RecordCase = Callable[[torch.device, Sizes, int, Path, processes.Recorder], Iterator[str]]
"""Records a case, by its number, and yields the paths of its traces."""


@dataclass(frozen=True)
class ExperimentCode:
    """The code of one experiment."""

    cases: Callable[[torch.device, Sizes], Mapping[str, Callable[[], object]]]
    """The cases, each call a step: they are recorded and, without `timing`, timed."""
    steps: int = 1
    """Steps between two synchronizes when the cases are timed."""
    timing: Timing | None = None
    """Measures what replaces the times of the cases."""
    additional: Timing | None = None
    """Measures what comes in addition to the cases."""
    read: Callable[[str, Trace, Details], Iterator[TraceResult]] | None = None
    """Yields what the trace of a case shows."""
    traced: tuple[str, ...] | None = None
    """The cases whose traces are read; None for all."""
    once: Timing | None = None
    """Measures what takes long, once after the rounds."""
    recording: RecordCase | None = None
    """Records a case, if that takes several processes."""
    rounds: int = ROUNDS
    """The number of rounds: one where the answer is yes or no; fewer than `ROUNDS` where a round takes seconds, and
    fewest where it starts several processes and each counts as a round."""


def _waits(case: str, trace: Trace, measured: Details) -> Iterator[Figure]:  # noqa: ARG001  one signature for all readers
    """Yield how many calls of a step wait for the GPU, except those of a loader's own thread."""
    sites = [site for site in measured.syncs.sites if site.is_wait and site.thread != "pin_memory"]
    yield _count("waits", case, "waits", sum(site.in_steps.count for site in sites), measured)


def _count(what: str, case: str, unit: str, total: int, measured: Details) -> Figure:
    mean = total / max(1, measured.steps.count)
    return Figure(f"{what}, {case.removesuffix(ONE_WAIT)}", unit, mean, mean, mean, measured.steps.count)


def _waits_and_copies(case: str, trace: Trace, measured: Details) -> Iterator[TraceResult]:
    yield from _waits(case, trace, measured)
    in_steps = np.isin(trace.links.call_step, np.flatnonzero(trace.steps.complete))
    copies = int((in_steps & (call_kinds(trace.calls) == ASYNC_COPY)).sum())
    yield _count("asynchronous copies", case, "calls", copies, measured)
    yield from _queued_early(case.removesuffix(ONE_WAIT), trace)
    yield picture(case, trace, measured)


def _overlapped(case: str, trace: Trace, measured: Details) -> Iterator[Figure]:
    """Yield which share of the time of copies to the GPU kernels overlap: median and spread over the steps."""
    to_gpu = trace.gpu.direction[measured.overlap.row] == HTOD
    rows, exposed_ns = measured.overlap.row[to_gpu], measured.overlap.exposed_ns[to_gpu]
    steps = trace.links.activity_step[rows]
    shares = [
        100 * (1 - float(exposed_ns[steps == step].sum()) / float(time_ns))
        for step in np.unique(steps[steps != NONE])
        if (time_ns := trace.gpu.duration_ns[rows[steps == step]].sum())
    ]
    if shares:
        yield figure(f"overlapped, {case}", "%", shares)


def _possible(case: str, trace: Trace, measured: Details) -> Iterator[Figure]:  # noqa: ARG001  one signature for all readers
    """Yield which share of a step's copy time its kernels are long enough to hide."""
    gpu, steps = trace.gpu, trace.links.activity_step
    shares = []
    for step in np.flatnonzero(trace.steps.complete):
        copy_ns, kernel_ns = (
            int(gpu.duration_ns[(steps == step) & (gpu.category == category)].sum()) for category in (MEMCPY, KERNEL)
        )
        if copy_ns:
            shares.append(100 * min(1.0, kernel_ns / copy_ns))
    if shares:
        yield figure(f"possible, {case}", "%", shares)


def _at_once(case: str, trace: Trace) -> Iterator[Figure]:
    """Yield in which share of the time with copies several run at once: median and spread over the steps."""
    gpu, steps = trace.gpu, trace.links.activity_step
    shares = []
    for step in np.flatnonzero(trace.steps.complete):
        rows = np.flatnonzero((steps == step) & (gpu.category == MEMCPY))
        times = np.concatenate((gpu.start_ns[rows], gpu.end_ns[rows]))
        changes = np.repeat((1, -1), len(rows))
        order = np.lexsort((changes, times))  # a copy that ends when another begins does not overlap it
        running, lasts_ns = np.cumsum(changes[order])[:-1], np.diff(times[order])
        if any_ns := int(lasts_ns[running > 0].sum()):
            shares.append(100 * int(lasts_ns[running > 1].sum()) / any_ns)
    if shares:
        yield figure(f"{AT_ONCE}{case}", "%", shares)


def _queued_early(case: str, trace: Trace) -> Iterator[Figure]:
    """Yield which share of a step's copies, without the first, the host queues before the copy before has ended."""
    gpu, launch, steps = trace.gpu, trace.links.launch, trace.links.activity_step
    shares = []
    for step in np.flatnonzero(trace.steps.complete):
        rows = np.flatnonzero((steps == step) & (gpu.category == MEMCPY) & (launch != NONE))
        queued_ns = trace.calls.start_ns[launch[rows]]
        order = np.argsort(queued_ns, kind="stable")
        if len(rows) > 1:
            shares.append(100 * float(np.mean(queued_ns[order][1:] < gpu.end_ns[rows][order][:-1])))
    if shares:
        yield figure(f"{EARLY}{case}", "%", shares)


def _how_many_at_once(case: str, trace: Trace, measured: Details) -> Iterator[TraceResult]:
    yield from _queued_early(case, trace)
    yield from _at_once(case, trace)
    yield picture(case, trace, measured)


def _beside_kernels_or_copies(case: str, trace: Trace, measured: Details) -> Iterator[TraceResult]:
    if case in TWO_COPIES:
        yield from _at_once(case, trace)
    else:
        yield from _overlapped_and_drawn(case, trace, measured)


def _overlapped_and_drawn(case: str, trace: Trace, measured: Details) -> Iterator[TraceResult]:
    yield from _overlapped(case, trace, measured)
    yield from _possible(case, trace, measured)
    yield picture(case, trace, measured)


def _waits_and_overlap(case: str, trace: Trace, measured: Details) -> Iterator[TraceResult]:
    yield from _waits(case, trace, measured)
    yield from _overlapped(case, trace, measured)
    yield picture(case, trace, measured)


def _waits_overlap_and_lead(case: str, trace: Trace, measured: Details) -> Iterator[TraceResult]:
    yield from _waits_and_overlap(case, trace, measured)
    yield from _ahead(case, trace)


def _waits_overlap_and_rate(case: str, trace: Trace, measured: Details) -> Iterator[TraceResult]:
    yield from _waits_and_overlap(case, trace, measured)
    gpu = trace.gpu
    copies = (gpu.category == MEMCPY) & (gpu.direction == HTOD) & (gpu.bytes != NONE) & (gpu.duration_ns > 0)
    rates = (gpu.bytes[copies] / gpu.duration_ns[copies]).tolist()
    if rates:
        yield figure(f"rate, {case}", "GB/s", rates)


def _how_the_loop_runs(case: str, trace: Trace, measured: Details) -> Iterator[TraceResult]:
    yield from _waits_overlap_and_lead(case, trace, measured)
    yield from _ended_before_the_next_kernel(case, trace)


def _ended_before_the_next_kernel(case: str, trace: Trace) -> Iterator[Figure]:
    """Yield whether each copy to the GPU had ended when the first kernel began that was launched after the copy.

    In the plain loop that is the model's first kernel, which reads the batch; a prefetcher's copy is of the next batch.
    """
    gpu, launch = trace.gpu, trace.links.launch
    launched_ns = np.where(launch != NONE, trace.calls.start_ns[launch], NONE)
    kernels = np.flatnonzero((gpu.category == KERNEL) & (launch != NONE))
    copies = np.flatnonzero((gpu.category == MEMCPY) & (gpu.direction == HTOD) & (launch != NONE))
    later = [kernels[launched_ns[kernels] > launched_ns[copy]] for copy in copies]
    ended = [
        bool(gpu.end_ns[copy] <= gpu.start_ns[after[np.argmin(launched_ns[after])]])
        for copy, after in zip(copies, later, strict=True)
        if len(after)
    ]
    if ended:
        yield answer(f"ended before the next kernel, {case}", ended)


def _ahead(case: str, trace: Trace) -> Iterator[Figure]:
    """Yield how long before the end of the kernels queued so far the host queues the next copy to the GPU.

    It is negative if the GPU was done before.
    """
    gpu, launch = trace.gpu, trace.links.launch
    launched = launch != NONE
    queued_ns = trace.calls.start_ns[launch]
    kernels = launched & (gpu.category == KERNEL)
    copies = launched & (gpu.category == MEMCPY) & (gpu.direction == HTOD)
    ahead = [
        float(gpu.end_ns[before].max() - at_ns) / NS_PER_MS
        for at_ns in queued_ns[copies].tolist()
        if (before := kernels & (queued_ns < at_ns)).any()
    ]
    if ahead:
        yield figure(f"ahead, {case}", "ms", ahead)


PROGRAMS: Mapping[str, ExperimentCode] = {
    "E1": ExperimentCode(transfers.pinning_cost, additional=pinning.pinning_in_full),
    "E2": ExperimentCode(transfers.small_tensors, timing=transfers.small_tensors_in_turn, read=_waits_and_copies),
    "E3": ExperimentCode(
        transfers.six_strategies,
        timing=transfers.six_in_turn,
        additional=transfers.few_tensors,
        read=_how_many_at_once,
        traced=(AS_MANY,),
        rounds=4,
    ),
    "E4": ExperimentCode(
        overlap.copy_overlap,
        additional=overlap.one_kernel_ported,
        read=_beside_kernels_or_copies,
        traced=(*overlap.BESIDE_KERNELS, *TWO_COPIES[1:]),
    ),
    "E5": ExperimentCode(hazards.early_read, timing=hazards.reading_early, rounds=1),
    "E6": ExperimentCode(hazards.early_write, timing=hazards.writing_early, rounds=1),
    "E7": ExperimentCode(transfers.threaded_pinning, additional=transfers.small_and_few, rounds=SOME_ROUNDS),
    "E8": ExperimentCode(
        training.loader,
        timing=training.loader_times,
        additional=training.loader_in_turn,
        read=_waits_overlap_and_rate,
        traced=COPIED,
        rounds=5,
    ),
    "E9": ExperimentCode(
        custom_batch.custom_batch, timing=lambda _device, sizes, _budget: custom_batch.are_pinned(sizes), rounds=1
    ),
    "E10": ExperimentCode(training.prefetching, steps=training.STEPS, read=_how_the_loop_runs, traced=training.FETCHED),
    "E11": ExperimentCode(
        processes.each_copies,
        timing=processes.first_and_later,
        recording=processes.record_bare,
        rounds=SOME_ROUNDS,
    ),
    "E12": ExperimentCode(
        processes.as_sent,
        timing=processes.pinned_in_object,
        recording=processes.record_in_object,
        rounds=SOME_ROUNDS,
    ),
    "E13": ExperimentCode(bandwidth.directions, timing=bandwidth.bandwidth),
    "E14": ExperimentCode(training.training_loop, timing=training.loop_times, read=_waits_overlap_and_lead),
    "E15": ExperimentCode(allocations, timing=pinned_limits, once=left_to_the_host, rounds=4),
}


def time_experiment(number: str, sizes: Sizes, quick: bool, device: str = "cuda") -> Iterator[Figure]:
    """Yield what is measured of an experiment without a profiler, and free all memory."""
    program, gpu, budget = PROGRAMS[number], torch.device(device), QUICK if quick else FULL
    try:
        if program.timing is not None:
            yield from program.timing(gpu, sizes, budget)
        else:
            yield from time_cases(program.cases(gpu, sizes), by_host(gpu, steps=program.steps), budget)
        if program.additional is not None:
            yield from program.additional(gpu, sizes, budget)
    finally:
        free_memory()


def measure_once(number: str, sizes: Sizes, quick: bool, device: str = "cuda") -> Iterator[Figure]:
    """Yield what is measured once of an experiment, if anything."""
    program = PROGRAMS[number]
    if program.once is None:
        return
    try:
        yield from program.once(torch.device(device), sizes, QUICK if quick else FULL)
    finally:
        free_memory()


def trace_experiment(number: str, sizes: Sizes, quick: bool, device: str = "cuda") -> Iterator[TraceResult]:  # noqa: ARG001
    """Yield what the traces of an experiment's cases show, if any is read.

    Time nothing in this process afterwards: CUPTI, once loaded, slows the host.
    """
    program = PROGRAMS[number]
    if program.read is None:
        return
    cases = program.cases(torch.device(device), sizes)
    with TemporaryDirectory(prefix="pinprof-") as folder:
        for case in program.traced or cases:
            path = Path(folder) / "case.json.gz"
            record(cases[case], path, plain_steps=0, line_steps=0)
            trace = read_trace(str(path))
            yield from program.read(case, trace, details_of(trace))
    del cases
    free_memory()


def free_memory() -> None:
    """Free the device memory of the experiment before and, if this torch can, its pinned memory."""
    gc.collect()
    torch.cuda.empty_cache()
    free_pinned()


def record(run: Callable[[], object], path: Path, *, plain_steps: int = 20, line_steps: int = 3) -> None:
    """Record some steps of a case as a trace, and overwrite an existing one; see `pinprof.profile`."""
    recording = profile(
        path,
        steps=TRACED_STEPS,
        warmup=TRACED_WARM_UP,
        max_warmup=MOST_WARM_UP,
        plain_steps=plain_steps,
        plain_max_seconds=PLAIN_SECONDS,
        line_steps=line_steps,
        watch_steps=0,  # all steps of a case are alike
        force=True,
    )
    with recording:
        while not recording.done:
            run()
            recording.step()


def record_case(number: str, sizes: Sizes, case: str, path: str, device: str = "cuda") -> Iterator[str]:
    """Record a case of an experiment, its step timed without a profiler before; yield the paths that are written."""
    program = PROGRAMS[number]
    if program.recording is not None:
        case_number = experiment_of(number).cases.index(case)
        yield from program.recording(torch.device(device), sizes, case_number, Path(path), record)
        return
    record(program.cases(torch.device(device), sizes)[case], Path(path))
    yield path
