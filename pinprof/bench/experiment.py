"""What an experiment is made of: its rows, the clocks that it runs with, and what it reads in traces of its cases."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from msgspec import structs

from pinprof.analyses.copies import EXPOSURES
from pinprof.analyses.syncs.causes import WAIT_CAUSES
from pinprof.bench.judge import Claim
from pinprof.bench.results import Bar, Figure, Measured, Picture
from pinprof.details import Details
from pinprof.ground.intervals import divided, union
from pinprof.ground.units import ms, percent
from pinprof.trace.calls import ASYNC_COPY, COPY, DEVICE, EVENT, STREAM, call_kinds
from pinprof.trace.tables import HTOD, KERNEL, MEMCPY, NONE, Int64s, Trace

if TYPE_CHECKING:
    import torch

TEXTS_WITH_CLAIMS = {
    "tutorial": "the PyTorch tutorial on pin_memory() and non_blocking",
    "article": "an article on pinned memory in data loading",
    "question": "a question on prefetching",
    "answer": "answers to a question on prefetching",
    "processes": "an article that times pinned against pageable memory over several processes",
    "pinprof": "pinprof; no text says so",
}
MIB, GIB = 1 << 20, 1 << 30
ONE_SYNCHRONIZE = ", one synchronize"
"""A part of a case's name that the names of what its trace shows leave out."""
ROUNDS, SOME_ROUNDS = 7, 3
"""Rounds of a bench, and of experiments that take seconds. The median of seven draws lies within the range of seven
others in 93 % of cases, whatever the spread within a round; the median of three in 60 %."""
MIN_CASE_S = 0.1
"""A case runs again until this time is up: many rounds of a few runs say more than one of many."""

Tensor: TypeAlias = "torch.Tensor"
"""For annotations: what the experiments found is read without torch."""
CaseRun: TypeAlias = Callable[[], object]
CaseRuns: TypeAlias = tuple[CaseRun, ...]
Stopwatch: TypeAlias = Callable[[CaseRun], float]
"""Runs a step once and returns its milliseconds."""


@dataclass(frozen=True)
class Lab:
    """What an experiment runs with: a device, its sizes, and clocks. It imports torch only when it runs."""

    device: "torch.device"
    sizes: Mapping[str, int]
    quick: bool = False

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU; in tests it need not be one."""
        return self.device.type == "cuda"

    def pinned(self, tensor: Tensor) -> Tensor:
        """Return the tensor in pinned memory, if there is a GPU."""
        return tensor.pin_memory() if self.on_gpu else tensor

    def wait(self) -> None:
        """Wait until the device has done all its work."""
        import torch

        if self.on_gpu:
            torch.cuda.synchronize()

    def time(self, run: CaseRun, steps: int = 1, before: CaseRun | None = None) -> float:
        """Return the milliseconds of a step, until its work is done; some steps run between two synchronizes."""
        if before is not None:
            before()
        self.wait()
        start = time.perf_counter()
        for _ in range(steps):
            run()
        self.wait()
        return (time.perf_counter() - start) * 1e3 / steps

    def hold(self, run: CaseRun, before: CaseRun | None = None, behind: CaseRun | None = None) -> float:
        """Return for how many ms a call holds the host, idle or behind work; freeing its result is not timed."""
        if before is not None:
            before()
        self.wait()
        if behind is not None:
            behind()
        start = time.perf_counter()
        result = run()
        held_ms = (time.perf_counter() - start) * 1e3
        self.wait()
        del result
        return held_ms

    def between_events(self, run: CaseRun) -> float:
        """Return the milliseconds of a step between two CUDA events of the current stream."""
        import torch

        if not self.on_gpu:
            return self.time(run)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        self.wait()
        start.record()
        run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    def times(self, run: CaseRun, clock: Stopwatch | None = None) -> list[float]:
        """Return the milliseconds of each run of a step that counts."""
        return [one for (one,) in self.turns([run], clock)]

    def turns(self, runs: Sequence[CaseRun], clock: Stopwatch | None = None) -> list[tuple[float, ...]]:
        """Return those of several steps that run in turn, so that what slows the machine slows all alike.

        The first run of each does not count.
        """
        clock = clock or self.time
        for run in runs:
            clock(run)
        taken: list[tuple[float, ...]] = []
        least, most = (3, 20) if self.quick else (1, 40)
        end = time.perf_counter() + len(runs) * MIN_CASE_S
        while len(taken) < least or (len(taken) < most and time.perf_counter() < end):
            taken.append(tuple(clock(run) for run in runs))
        return taken

    def tensors(self) -> list[Tensor]:
        """Return the tensors that an experiment copies: ones, because fresh zeros all share one page of memory."""
        import torch

        return [torch.ones(self.sizes["floats"]) for _ in range(self.sizes["tensors"])]

    def growing(self) -> Iterator[int]:
        """Yield the sizes from the least to the most, each four times the one before."""
        count = self.sizes["least"]
        while count <= self.sizes["most"]:
            yield count
            count *= 4

    def each(self, cases: Iterable[Figure], runs: CaseRuns, clock: Stopwatch | None = None) -> Iterator[Measured]:
        """Yield what the step of each case takes."""
        return (case.of(self.times(run, clock)) for case, run in zip(cases, runs, strict=True))


def of_turns(figures: Iterable[Figure], turns: Iterable[tuple[float, ...]]) -> Iterator[Measured]:
    """Yield what each of the cases that ran in turn took."""
    return (figure.of(times) for figure, times in zip(figures, zip(*turns, strict=True), strict=True))


def free_pinned() -> None:
    """Free the pinned memory that torch keeps for later and that no copy uses any more, if this torch can."""
    import torch

    getattr(torch._C, "_host_emptyCache", lambda: None)()  # noqa: SLF001  no public name


def long_kernel() -> None:
    """Queue a kernel that does nothing for about 5 ms: work behind it has not begun when the host goes on."""
    import torch

    torch.cuda._sleep(10_000_000)  # type: ignore[no-untyped-call]  # noqa: SLF001  no public name


@dataclass(frozen=True)
class Size:
    """One option of an experiment."""

    name: str
    default: int
    means: str
    quick: int | None = None
    """The size with `--quick`, if the default takes too long."""


@dataclass(frozen=True)
class InTrace:
    """A figure that the trace of a case shows."""

    what: str
    unit: str
    values: Callable[[Trace, Details], Iterable[float]]
    """Returns those of the steps, or of the copies; none if the trace does not show it."""

    def __call__(self, case: Figure) -> Figure:
        """Return the figure of a case."""
        return Figure(case.number, f"{self.what}, {case.name.removesuffix(ONE_SYNCHRONIZE)}", self.unit)

    def read(self, case: Figure, trace: Trace, details: Details) -> Iterator[Measured]:
        """Yield what the trace shows of it, if anything."""
        if values := list(self.values(trace, details)):
            yield self(case).of(values)


Recorder: TypeAlias = Callable[[CaseRun, Path], None]
"""Records some steps to a file; it must be picklable."""


@dataclass(frozen=True)
class Experiment:
    """A program of a published text, to be run again on this machine."""

    number: str
    name: str
    summary: str
    claims: tuple[Claim, ...]
    cases: tuple[Figure, ...]
    """Its cases, each a step that can be recorded as a trace."""
    steps: Callable[[Lab], CaseRuns]
    """The steps of the cases; no loader is at work before its case runs."""
    measure: Callable[[Lab], Iterator[Measured]]
    sizes: tuple[Size, ...] = ()
    published: Mapping[Figure, float] | None = None
    changed: str = ""
    traced: Mapping[Figure, tuple[InTrace, ...]] | None = None
    """The cases whose traces are drawn, with the figures that they show."""
    record: Callable[[Lab, int, Sequence[Path], Recorder], object] | None = None
    """Records a case, by its number, in several processes: each to one of the files."""
    rounds: int = ROUNDS
    """The number of rounds: one if a single round answers, fewer than `ROUNDS` if a round takes seconds."""

    def defaults(self, *, quick: bool = False) -> dict[str, int]:
        """Return the sizes that it runs with by default."""
        return {size.name: size.quick if quick and size.quick is not None else size.default for size in self.sizes}

    def published_at(self, sizes: Mapping[str, int]) -> dict[tuple[str, int | str | None], float]:
        """Return the published values by name and size; if other sizes were chosen, only those with a size."""
        as_published = all(sizes.get(size.name, size.default) == size.default for size in self.sizes)
        published = self.published or {}
        return {(each.name, each.size): value for each, value in published.items() if as_published or each.size}

    def resized(self, chosen: Mapping[str, int]) -> "Experiment":
        """Return the experiment with the chosen sizes in place of its own, quick or not."""
        own = {size.name: size for size in self.sizes}
        new = {name: replace(own[name], default=count, quick=None) for name, count in chosen.items()}
        return replace(self, sizes=(*(own | new).values(),))

    def traces(self, path: Path) -> list[Path]:
        """Return the traces of a case: one, or one of each process: `e12.process0.json.gz` and so on."""
        if self.record is None:
            return [path]
        stem, dot, suffix = path.name.partition(".json")
        numbers = range(next(size.default for size in self.sizes if size.name == "processes"))
        return [path.with_name(f"{stem}.process{number}{dot}{suffix}") for number in numbers]


def calls_that_wait(_trace: Trace, details: Details) -> list[float]:
    """Return how many calls of a step wait for the GPU, except those of a loader's own thread: the mean for each."""
    sites = [site for site in details.syncs.sites if site.is_wait and site.thread != "pin_memory"]
    steps = details.steps.count
    return [sum(site.in_steps.count for site in sites) / max(1, steps)] * steps


def shares_under_kernels(trace: Trace, details: Details) -> Iterator[float]:
    """Yield which share of the time of each step's copies to the GPU kernels overlap, in percent."""
    to_gpu = trace.gpu.direction[details.overlap.row] == HTOD
    rows, exposed_ns = details.overlap.row[to_gpu], details.overlap.exposed_ns[to_gpu]
    steps = trace.links.activity_step[rows]
    for step in np.unique(steps[steps != NONE]):
        if time_ns := trace.gpu.duration_ns[rows[steps == step]].sum():
            yield 100 * (1 - float(exposed_ns[steps == step].sum()) / float(time_ns))


def copies_of_steps(trace: Trace) -> Iterator[Int64s]:
    """Yield the rows of the copies of each complete step."""
    for step in np.flatnonzero(trace.steps.complete):
        yield np.flatnonzero((trace.links.activity_step == step) & (trace.gpu.category == MEMCPY))


def shares_at_once(trace: Trace, _details: Details) -> Iterator[float]:
    """Yield in which share of the time with copies several run at once, in percent of each step."""
    for rows in copies_of_steps(trace):
        times = np.concatenate((trace.gpu.start_ns[rows], trace.gpu.end_ns[rows]))
        changes = np.repeat((1, -1), len(rows))
        order = np.lexsort((changes, times))  # a copy that ends when another begins does not overlap it
        running, lasts_ns = np.cumsum(changes[order])[:-1], np.diff(times[order])
        if any_ns := int(lasts_ns[running > 0].sum()):
            yield 100 * int(lasts_ns[running > 1].sum()) / any_ns


def shares_asked_early(trace: Trace, _details: Details) -> Iterator[float]:
    """Yield which share of a step's copies, without the first, the host queues before the copy before has ended."""
    for copies in copies_of_steps(trace):
        rows = copies[trace.links.launch[copies] != NONE]
        queued_ns = trace.calls.start_ns[trace.links.launch[rows]]
        order = np.argsort(queued_ns, kind="stable")
        if len(rows) > 1:
            yield 100 * float(np.mean(queued_ns[order][1:] < trace.gpu.end_ns[rows][order][:-1]))


WAITED = InTrace("waits", "waits", calls_that_wait)
COPIES_HIDDEN = InTrace("overlapped", "%", shares_under_kernels)
COPIES_AT_ONCE = InTrace("copies at once", "%", shares_at_once)
QUEUED_EARLY = InTrace("copies asked for early", "%", shares_asked_early)


HOST_BARS = {COPY: "copy", ASYNC_COPY: "copy", STREAM: "wait", DEVICE: "wait", EVENT: "wait"}
"""The name of a call's bar, by what it may wait for; that of a launch is `launch`, other calls have none."""
MAX_BARS, BAR_DIGITS = 150, 4
"""The beginning of a step with thousands of copies shows how they follow; no picture shows less than 0.1 µs."""


def picture(case: Figure, trace: Trace, details: Details) -> Picture:
    """Return one step in the middle of a trace, or its beginning, with what the report says about its copies."""
    share, reasons = details.overlap.fraction, details.overlap.by_reason
    rest = f"; otherwise: {EXPOSURES[reasons[0][0]].sentence}" if reasons else ""
    why = "no copy was recorded" if share is None else f"{percent(share)} of the copy time overlapped{rest}"
    complete = np.flatnonzero(trace.steps.complete)
    if len(complete) == 0:
        return Picture(case.name, (), why)
    step = int(complete[len(complete) // 2])
    begin_ns, end_ns = int(trace.steps.start_ns[step]), int(trace.steps.end_ns[step])
    drawn = (
        Bar(row, name, *(round(ms(int(time_ns) - begin_ns), BAR_DIGITS) for time_ns in times))
        for row, name, *times in _drawn(trace, details, step)
    )
    bars = sorted(drawn, key=lambda bar: bar.start_ms)
    if len(bars) <= MAX_BARS:
        return Picture(case.name, tuple(bars), why)
    cut_ms = bars[MAX_BARS].start_ms
    first = (structs.replace(bar, end_ms=min(bar.end_ms, cut_ms)) for bar in bars if bar.start_ms < cut_ms)
    return Picture(case.name, tuple(first), why, ms(end_ns - begin_ns))


def _drawn(trace: Trace, details: Details, step: int) -> Iterator[tuple[str, str, int, int]]:
    calls, gpu, stalls = trace.calls, trace.gpu, details.syncs.stalls
    kinds, launches = call_kinds(calls), set(trace.links.launch[gpu.category == KERNEL].tolist())
    for row in np.flatnonzero(trace.links.call_step == step).tolist():
        if name := HOST_BARS.get(int(kinds[row])) or ("launch" if row in launches else None):
            yield "host", name, calls.start_ns[row], calls.end_ns[row]
    for row in np.flatnonzero((stalls.call_step == step) & ~stalls.profiler).tolist():
        call = stalls.call[row]
        yield "stalls", WAIT_CAUSES[int(details.syncs.cause[row])], calls.start_ns[call], calls.end_ns[call]
    of_step = trace.links.activity_step == step
    for row in np.flatnonzero(of_step & (gpu.category == KERNEL)).tolist():
        yield f"stream {gpu.stream[row]}", "kernel", gpu.start_ns[row], gpu.end_ns[row]
    for device, rows in gpu.of_device.items():
        kernels = rows[gpu.category[rows] == KERNEL]
        copies = np.flatnonzero(of_step & (gpu.category == MEMCPY) & (gpu.device == device))
        busy = union(gpu.start_ns[kernels], gpu.end_ns[kernels])
        parts = zip(*divided(busy, gpu.start_ns[copies], gpu.end_ns[copies]), strict=True)
        for start, end, is_overlapped, copy in parts:
            name = "overlapped copy" if is_overlapped else "exposed copy"
            yield f"stream {gpu.stream[copies[copy]]}", name, start, end
