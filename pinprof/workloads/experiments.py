"""What runs the seed experiments: for each number its cases, how they are timed, and what their traces tell."""

import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from pinprof.bench.results import Figure, Picture
from pinprof.capture.profiling import profile
from pinprof.measure import Profile, measure
from pinprof.trace import Trace, read_trace
from pinprof.trace.tables import HTOD
from pinprof.workloads import bandwidth, custom_batch, hazards, overlap, processes, training, transfers
from pinprof.workloads.pictures import picture
from pinprof.workloads.timing import FULL, QUICK, Budget, by_host, figure, time_cases
from pinprof.workloads.transfers import Sizes

TRACED_STEPS = 5
TRACED_WARM_UP = 5
MOST_WARM_UP = 20
PLAIN_SECONDS = 5
"""How long the step is timed without a profiler, however long it is."""
ONE_WAIT = ", one synchronize"
"""What the name of a case says, and that of its waits need not."""

Found = Figure | Picture
Timing = Callable[[torch.device, Sizes, Budget], Iterator[Figure]]


@dataclass(frozen=True)
class Program:
    """The code of one experiment."""

    cases: Callable[[torch.device, Sizes], Mapping[str, Callable[[], object]]]
    """What is recorded and, unless `timing` says else, timed; each call is a step."""
    steps: int = 1
    """Steps between two synchronizes when the cases are timed."""
    timing: Timing | None = None
    """What is measured instead."""
    besides: Timing | None = None
    """What is measured besides the cases."""
    tell: Callable[[str, Trace, Profile], Iterator[Found]] | None = None
    """What the trace of a case tells."""
    told: tuple[str, ...] | None = None
    """The cases whose traces are read; None for all."""
    once: bool = False
    """Whether it asks what is so, and no time is taken: one round tells all."""


def _waits(case: str, trace: Trace, measured: Profile) -> Iterator[Figure]:  # noqa: ARG001  one shape for all that tell
    """Yield how many calls of a step wait for the GPU."""
    waits = sum(site.in_steps.count for site in measured.syncs.sites if site.is_wait) / max(1, measured.steps.count)
    name = f"waits, {case.removesuffix(ONE_WAIT)}"
    yield Figure(name, "waits", waits, waits, waits, measured.steps.count)


def _overlapped(case: str, trace: Trace, measured: Profile) -> Iterator[Figure]:
    """Yield the share of the time of a copy to the GPU that kernels overlap, in the middle and over the copies."""
    to_gpu = trace.gpu.direction[measured.overlap.row] == HTOD
    time_ns = trace.gpu.duration_ns[measured.overlap.row[to_gpu]]
    exposed_ns = measured.overlap.exposed_ns[to_gpu]
    shares = [100 * (1 - float(part)) for part in exposed_ns[time_ns > 0] / time_ns[time_ns > 0]]
    if shares:
        yield figure(f"overlapped, {case}", "%", shares)


def _overlapped_and_drawn(case: str, trace: Trace, measured: Profile) -> Iterator[Found]:
    yield from _overlapped(case, trace, measured)
    yield picture(case, trace, measured)


def _tries(cases: Callable[[torch.device, Sizes], Mapping[str, hazards.Try]]) -> Timing:
    return lambda device, sizes, _budget: hazards.count_wrong(cases(device, sizes), sizes["tries"])


PROGRAMS: Mapping[str, Program] = {
    "E1": Program(transfers.pinning_cost),
    "E2": Program(transfers.small_tensors, tell=_waits),
    "E3": Program(transfers.six_strategies),
    "E4": Program(overlap.copy_overlap, tell=_overlapped_and_drawn),
    "E5": Program(hazards.early_read, timing=_tries(hazards.early_read), once=True),
    "E6": Program(hazards.early_write, timing=_tries(hazards.early_write), once=True),
    "E7": Program(transfers.threaded_pinning),
    "E8": Program(training.loader, steps=training.STEPS, besides=training.loader_rate),
    "E9": Program(
        custom_batch.custom_batch, timing=lambda _device, sizes, _budget: custom_batch.are_pinned(sizes), once=True
    ),
    "E10": Program(training.prefetching, steps=training.STEPS, tell=_overlapped, told=("plain loop", "prefetcher")),
    "E11": Program(processes.each_copies, timing=processes.first_and_later),
    "E12": Program(processes.as_sent, timing=processes.pinned_in_object),
    "E13": Program(bandwidth.directions, timing=bandwidth.bandwidth),
    "E14": Program(training.training_loop, steps=training.STEPS, tell=_waits),
}


def time_experiment(number: str, sizes: Sizes, quick: bool, device: str = "cuda") -> Iterator[Figure]:
    """Yield what is measured of an experiment without a profiler, and leave no memory taken."""
    program, on, budget = PROGRAMS[number], torch.device(device), QUICK if quick else FULL
    try:
        if program.timing is not None:
            yield from program.timing(on, sizes, budget)
        else:
            yield from time_cases(program.cases(on, sizes), by_host(on, steps=program.steps), budget)
        if program.besides is not None:
            yield from program.besides(on, sizes, budget)
    finally:
        free_memory()


def trace_experiment(number: str, sizes: Sizes, quick: bool, device: str = "cuda") -> Iterator[Found]:  # noqa: ARG001
    """Yield what the traces of an experiment's cases tell; nothing if none is read.

    Not for a process in which anything is timed afterwards: CUPTI, once loaded, slows what the host bounds.
    """
    program = PROGRAMS[number]
    if program.tell is None:
        return
    cases = program.cases(torch.device(device), sizes)
    with TemporaryDirectory(prefix="pinprof-") as folder:
        for case in program.told or cases:
            path = Path(folder) / "case.json.gz"
            record(cases[case], path, plain_steps=0, line_steps=0)
            trace = read_trace(str(path))
            yield from program.tell(case, trace, measure(trace))
    del cases
    free_memory()


def free_memory() -> None:
    """Give back what the experiment before held: device memory and, where this torch can, pinned memory."""
    gc.collect()
    torch.cuda.empty_cache()
    getattr(torch._C, "_host_emptyCache", lambda: None)()  # noqa: SLF001  no public name


def record(run: Callable[[], object], path: Path, *, plain_steps: int = 20, line_steps: int = 3) -> None:
    """Record some steps of a case as a trace, over one that is there; see `pinprof.profile`."""
    recording = profile(
        path,
        steps=TRACED_STEPS,
        warmup=TRACED_WARM_UP,
        max_warmup=MOST_WARM_UP,
        plain_steps=plain_steps,
        plain_max_seconds=PLAIN_SECONDS,
        line_steps=line_steps,
        force=True,
    )
    with recording:
        while not recording.done:
            run()
            recording.step()


def record_case(number: str, sizes: Sizes, case: str, path: str, device: str = "cuda") -> Iterator[str]:
    """Record a case of an experiment, its step timed without a profiler before; yield the path when it is written."""
    cases = PROGRAMS[number].cases(torch.device(device), sizes)
    record(cases[case], Path(path))
    yield path
