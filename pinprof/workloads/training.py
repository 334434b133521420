"""E8, E10, E14: training loops as the texts advise them, and the same loops without one piece of the advice."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  torch's own name for it
from torch.utils.data import DataLoader, Dataset, IterableDataset

from pinprof.bench.article_judges import COPIED, LONGER, SMALL
from pinprof.bench.results import Figure
from pinprof.errors import PinprofError
from pinprof.workloads.loaders import BatchStream
from pinprof.workloads.model import CLASSES, ModelSizes, Step, Trainer, forever, host_batches, trainer
from pinprof.workloads.prefetcher import Prefetcher
from pinprof.workloads.timing import Budget, Cases, by_host, figure, in_turn, of_turns, repeated, time_cases
from pinprof.workloads.transfers import Sizes as Chosen

STEPS = 10
"""Steps between two synchronizes: in a training loop the host runs ahead of the GPU."""
FETCHED = (
    "plain loop",
    "prefetcher",
    "prefetcher, pageable",
    "prefetcher, pageable, kernels first",
    "prefetcher, blocking",
)
"""The cases of E10 that copy."""
WORKER_COUNTS = (1, 2, 4, 8)
UNTIL_STEADY = 4
"""Times the budget of other figures: batches come in bursts, so that their rate takes longer to tell."""
PREFETCHED = 2
"""Batches that a worker makes ahead, as a DataLoader has it by default."""
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  where the workers put their batches
PENALTY = 0.001
"""The factor of the penalty on the weights in the article."""


class SharedMemoryError(PinprofError):
    """The workers of a loader have too little shared memory for their batches."""


def loader(device: torch.device, chosen: Chosen) -> Cases:
    """E8: a step that copies a loader's batch, pinned or not, waiting for the copy or not; and one without a copy."""
    size = _size(chosen)
    training = trainer(device, size, hidden=4)
    batches = host_batches(size)
    resident = batches[0].to(device)

    def drawn(*, pinned: bool) -> Iterator[Tensor]:
        """Yield batches of a loader that starts at the first step: only loaders of cases that ran are at work."""
        yield from DataLoader(BatchStream(batches), batch_size=None, num_workers=chosen["workers"], pin_memory=pinned)

    def step(*, pinned: bool, non_blocking: bool) -> Step:
        stream = drawn(pinned=pinned)

        def run() -> None:
            training.train(next(stream).to(device, non_blocking=non_blocking))

        return run

    ways = [step(pinned=pinned, non_blocking=late) for pinned in (False, True) for late in (False, True)]
    return {**dict(zip(COPIED, ways, strict=True)), "no copy": lambda: training.train(resident)}


def loader_times(device: torch.device, chosen: Chosen, budget: Budget) -> Iterator[Figure]:
    """E8: yield what a step of each case takes, and how much longer one with a pinned copy is than the next without."""
    cases, stopwatch = dict(loader(device, chosen)), by_host(device, steps=STEPS)
    pair = {name: cases.pop(name) for name in (COPIED[-1], "no copy")}
    yield from time_cases(cases, stopwatch, budget)
    turns = in_turn(list(pair.values()), stopwatch, budget)
    yield from of_turns(pair, turns)
    yield figure(LONGER, "ms", [median(copied - without for copied, without in turns)])


def loader_in_turn(device: torch.device, chosen: Chosen, budget: Budget) -> Iterator[Figure]:
    """E8: yield the times of steps, in turn, of a network that computes little per byte, and a loader's rate alone."""
    cases = _small_network(device, chosen)
    yield from of_turns(cases, in_turn(list(cases.values()), by_host(device, steps=STEPS), budget))
    yield from loader_rate(device, chosen, budget)


def _small_network(device: torch.device, chosen: Chosen) -> Cases:
    """Return the steps of one layer: with the slowest and the fastest of the four ways, and with no copy.

    The batches are not a loader's: it would have to make one in less time than such a step takes.
    """
    size = _size(chosen)
    training = trainer(device, size, hidden=0)
    made = host_batches(size)
    pageable = forever(made)
    pinned = forever([batch.pin_memory() for batch in made] if device.type == "cuda" else made)
    resident = made[0].to(device)
    return {
        f"{SMALL}pageable, blocking": lambda: training.train(next(pageable).to(device)),
        f"{SMALL}pinned, non_blocking": lambda: training.train(next(pinned).to(device, non_blocking=True)),
        f"{SMALL}no copy": lambda: training.train(resident),
    }


class RandomBatches(Dataset[Tensor]):
    """Makes each batch anew, as decoding and augmenting would."""

    def __init__(self, size: ModelSizes, count: int) -> None:
        self._size, self._count = size, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Tensor:
        return torch.rand(self._size.rows, self._size.features)


def loader_rate(device: torch.device, chosen: Chosen, budget: Budget) -> Iterator[Figure]:
    """Yield how long a loader that pins takes for a batch when nothing else runs, by its number of workers."""
    size = _size(chosen)
    for workers in WORKER_COUNTS:
        needed = size.rows * size.features * 4 * (PREFETCHED + 1) * workers
        if SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free < needed:
            raise SharedMemoryError(
                f"{workers} workers need {needed / 1e6:.0f} MB of shared memory ({SHARED_MEMORY}), and it has less; "
                f"give more (docker run --shm-size) or choose fewer --rows"
            )
        longer = replace(budget, seconds=UNTIL_STEADY * budget.seconds)
        yield figure("batch, N workers", "ms", _batch_times(device, size, workers, longer), workers)


def _batch_times(device: torch.device, size: ModelSizes, workers: int, budget: Budget) -> list[float]:
    loader = DataLoader(
        RandomBatches(size, 1_000_000),
        batch_size=None,
        num_workers=workers,
        pin_memory=device.type == "cuda",
        prefetch_factor=PREFETCHED,
    )
    steps = PREFETCHED * workers  # what was made ahead is used up in the run that is not counted
    draw, stopwatch = partial(next, iter(loader)), by_host(device, steps=steps)
    return repeated(draw, stopwatch, budget)


def prefetching(device: torch.device, chosen: Chosen) -> Cases:
    """E10: the plain loop, prefetchers of pinned and of pageable batches, one that blocks, and a step with no copy."""
    size = _size(chosen)
    training = trainer(device, size)
    pageable = host_batches(size, count=3)
    pinned = [batch.pin_memory() for batch in pageable] if device.type == "cuda" else pageable
    resident = pinned[0].to(device)
    plain = forever(pinned)
    prefetched, staged = (iter(Prefetcher(forever(batches), device)) for batches in (pinned, pageable))
    return {
        "plain loop": lambda: training.train(next(plain).to(device, non_blocking=True)),
        "prefetcher": lambda: training.train(next(prefetched)),
        "prefetcher, pageable": lambda: training.train(next(staged)),
        "prefetcher, pageable, kernels first": _kernels_first(training, pageable, device, non_blocking=True),
        "prefetcher, blocking": _kernels_first(training, pinned, device, non_blocking=False),
        "no copy": lambda: training.train(resident),
    }


def _kernels_first(training: Trainer, batches: list[Tensor], device: torch.device, *, non_blocking: bool) -> Step:
    """Return a step that trains on a batch, then copies the next one on a side stream.

    The kernels are launched before the copy, so that it can run beside them even if its call holds the host, as that of
    a blocking copy or of a pageable batch does; a `Prefetcher` asks for its copy first.
    Two buffers take turns on the device: a copy writes the one that the kernels of the step before have read.
    """
    host = forever(batches)
    buffers = [torch.empty_like(batches[0], device=device) for _ in range(2)]
    buffers[0].copy_(next(host))
    side = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
    launched: list[torch.cuda.Event] = []

    def step() -> None:
        training.train(buffers[0])
        if side is not None:
            launched.append(torch.cuda.current_stream(device).record_event())
            if len(launched) > 1:
                side.wait_event(launched.pop(0))
        with torch.cuda.stream(side):
            buffers[1].copy_(next(host), non_blocking=non_blocking)
        if side is not None:
            torch.cuda.current_stream(device).wait_stream(side)
        buffers.reverse()

    return step


class LabelledStream(IterableDataset[tuple[Tensor, Tensor]]):
    """Yields the same batches of inputs and labels again and again, so that the workers always keep up."""

    def __init__(self, size: ModelSizes) -> None:
        super().__init__()
        self._inputs = [batch.share_memory_() for batch in host_batches(size)]  # type: ignore[no-untyped-call]
        self._labels = torch.randint(size.classes, (size.rows,)).share_memory_()  # type: ignore[no-untyped-call]

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return ((inputs, self._labels) for inputs in forever(self._inputs))


def training_loop(device: torch.device, chosen: Chosen) -> Cases:
    """E14: the article's loop, and one that keeps loss and hits on the device; with its batches and larger ones."""
    larger = {**chosen, "rows": chosen["larger"]}
    return {**_loops(device, chosen, ""), **_loops(device, larger, ", larger")}


def loop_times(device: torch.device, chosen: Chosen, budget: Budget) -> Iterator[Figure]:
    """E14: yield what a step of each loop takes, and how much longer one with .item() takes than the next without."""
    cases, stopwatch = training_loop(device, chosen), by_host(device, steps=STEPS)
    for size in ("", ", larger"):
        names = (f"as written{size}", f"without .item(){size}")
        turns = in_turn([cases[name] for name in names], stopwatch, budget)
        yield from of_turns(names, turns)
        yield figure(f"cost of .item(){size}", "%", [median(100 * (read / kept - 1) for read, kept in turns)])


def _loops(device: torch.device, chosen: Chosen, name: str) -> Cases:
    size = _size(chosen)
    training = trainer(device, size)
    parameters = list(training.model.parameters())

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        stream = LabelledStream(size)
        made = DataLoader(stream, batch_size=None, num_workers=chosen["workers"], pin_memory=device.type == "cuda")
        for inputs, labels in made:
            yield inputs.to(device, non_blocking=True), labels.to(device, non_blocking=True)

    def trained(inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        output = training.model(inputs)
        loss = F.cross_entropy(output, labels)
        loss = loss + PENALTY * sum(parameter.pow(2.0).sum() for parameter in parameters)
        training.update(loss)
        return loss.detach(), output.max(1).indices.eq(labels).sum()

    read, kept = batches(), batches()
    total_loss, total_hits = 0.0, 0
    device_loss, device_hits = torch.zeros((), device=device), torch.zeros((), dtype=torch.long, device=device)

    def as_written() -> None:
        nonlocal total_loss, total_hits
        loss, hits = trained(*next(read))
        total_loss += loss.item()
        total_hits += int(hits.item())

    def without_item() -> None:
        loss, hits = trained(*next(kept))
        device_loss.add_(loss)
        device_hits.add_(hits)

    return {f"as written{name}": as_written, f"without .item(){name}": without_item}


def _size(chosen: Chosen) -> ModelSizes:
    return ModelSizes(chosen["rows"], chosen["features"], CLASSES)
