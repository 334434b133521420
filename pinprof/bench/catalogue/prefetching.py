"""E10: the plain loop with non_blocking=True against a prefetcher that copies the next batch on a side stream."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from pinprof.bench.catalogue.loader import STEPS_BETWEEN_WAITS
from pinprof.bench.experiment import COPIES_HIDDEN, WAITED, CaseRun, CaseRuns, Experiment, InTrace, Lab, Size, Tensor
from pinprof.bench.judge import Claim, all_of, at_most, barely, less, mostly, yes
from pinprof.bench.results import figures
from pinprof.details import Details
from pinprof.ground.units import NS_PER_MS
from pinprof.trace.tables import HTOD, KERNEL, MEMCPY, NONE, Trace

if TYPE_CHECKING:
    from pinprof.workloads.model import Trainer

PLAIN, PREFETCHER, PAGEABLE, PAGEABLE_LATE, BLOCKING, NO_COPY = CASES = figures(
    "E10",
    "ms",
    "plain loop; prefetcher; prefetcher, pageable; prefetcher, pageable, kernels first; prefetcher, blocking; no copy",
)


def _prefetching_steps(lab: Lab) -> CaseRuns:
    from pinprof.workloads.model import forever, host_batches, model_sizes, trainer
    from pinprof.workloads.prefetcher import Prefetcher

    size = model_sizes(lab.sizes)
    training, pageable = trainer(lab.device, size), host_batches(size, count=3)
    pinned = [lab.pinned(batch) for batch in pageable]
    resident, plain = pinned[0].to(lab.device), forever(pinned)
    prefetched, staged = (iter(Prefetcher(forever(batches), lab.device)) for batches in (pinned, pageable))
    return (
        lambda: training.train(next(plain).to(lab.device, non_blocking=True)),
        lambda: training.train(next(prefetched)),
        lambda: training.train(next(staged)),
        kernels_first(training, pageable, lab, non_blocking=True),
        kernels_first(training, pinned, lab, non_blocking=False),
        lambda: training.train(resident),
    )


def kernels_first(training: "Trainer", batches: list[Tensor], lab: Lab, *, non_blocking: bool) -> CaseRun:
    """Return a step that trains on a batch, then copies the next one on a side stream.

    The kernels are launched before the copy: it can overlap them even if its call blocks the host, as for a blocking
    copy or a pageable batch. A `Prefetcher` launches its copy first. Two buffers take turns on the device: a copy
    writes the one that the kernels of the previous step have read.
    """
    import torch

    from pinprof.workloads.model import forever

    host, buffers = forever(batches), [torch.empty_like(batches[0], device=lab.device) for _ in range(2)]
    buffers[0].copy_(next(host))
    side = torch.cuda.Stream() if lab.on_gpu else None  # type: ignore[no-untyped-call]

    def step() -> None:
        if side is not None:
            side.wait_stream(torch.cuda.current_stream())  # for the kernels of the step before
        training.train(buffers[0])
        with torch.cuda.stream(side):
            buffers[1].copy_(next(host), non_blocking=non_blocking)
        if side is not None:
            torch.cuda.current_stream().wait_stream(side)
        buffers.reverse()

    return step


def host_leads_ms(trace: Trace, _details: Details) -> Iterator[float]:
    """Yield per copy to the GPU the ms from its launch to the end of all kernels launched before; may be negative."""
    gpu, launch = trace.gpu, trace.links.launch
    launched, queued_ns = launch != NONE, trace.calls.start_ns[launch]
    kernels = launched & (gpu.category == KERNEL)
    copies = launched & (gpu.category == MEMCPY) & (gpu.direction == HTOD)
    for at_ns in queued_ns[copies].tolist():
        before = kernels & (queued_ns < at_ns)
        if before.any():
            yield float(gpu.end_ns[before].max() - at_ns) / NS_PER_MS


LEAD_MS = InTrace("ahead", "ms", host_leads_ms)
PREFETCHING = Experiment(
    "E10",
    "prefetching",
    "the plain loop with non_blocking=True against a prefetcher that copies the next batch on a side stream",
    (
        Claim(
            "To overlap, copies must be from pinned memory",
            "question: opening; answer: data prefetcher",
            all_of(mostly(COPIES_HIDDEN(PREFETCHER)), *map(barely, map(COPIES_HIDDEN, (PAGEABLE, PAGEABLE_LATE)))),
            "a pageable copy holds the host, but overlaps kernels that were launched before it",
        ),
        Claim(
            "To overlap, copies must be non_blocking",
            "question: opening; answer: data prefetcher",
            all_of(mostly(COPIES_HIDDEN(PREFETCHER)), barely(COPIES_HIDDEN(BLOCKING))),
            "a blocking copy overlaps kernels that were launched before it; it needs a side stream, as any copy does",
        ),
        Claim(
            "The images are on the GPU before the kernels of model(images) run: the plain loop overlaps no copy",
            "question: the loop",
            barely(COPIES_HIDDEN(PLAIN)),
        ),
        Claim(
            "model(images) is a synchronization point: the host waits until the batch is on the GPU",
            "question: the loop",
            yes(WAITED(PLAIN)),
            "the kernels wait on the stream behind the copy; the host does not",
            "the answer says that it is not one",
        ),
        Claim(
            "The next batch's copy is not requested before the output is computed",
            "question: the loop",
            at_most(LEAD_MS(PLAIN), 0),
            "the host launches and goes on: it runs ahead of the GPU",
        ),
        Claim(
            "Copies and computation can overlap: on a side stream a prefetcher hides the copy and shortens the step",
            "article: non_blocking; answer: accepted",
            all_of(mostly(COPIES_HIDDEN(PREFETCHER)), less(PREFETCHER, PLAIN)),
        ),
    ),
    CASES,
    _prefetching_steps,
    lambda lab: lab.each(CASES, _prefetching_steps(lab), partial(lab.time, steps=STEPS_BETWEEN_WAITS)),
    sizes=(Size("rows", 4096, "samples in a batch"), Size("features", 3072, "numbers of 4 bytes in a sample")),
    changed="the question shows the loop of PyTorch's ImageNet example; here it trains a small network, on batches "
    "that are made beforehand. The prefetchers are ours",
    traced=dict.fromkeys(CASES[:-1], (WAITED, COPIES_HIDDEN, LEAD_MS)),
)
