"""E8: training on a DataLoader that pins or not, with copies that are waited for or not."""

from collections.abc import Iterator
from functools import partial
from math import prod
from statistics import median

from pinprof.bench import judge
from pinprof.bench.experiment import OVERLAPPED, WAITS, CaseRuns, Experiment, InTrace, Lab, Size, of_turns
from pinprof.bench.judge import Claim, Ratio, any_of, at_least, less, mostly, opposite, ratio, yes
from pinprof.bench.results import Figure, Measured, amount, figures, shown
from pinprof.bench.six_strategies import COPIED
from pinprof.details import Details
from pinprof.trace.tables import HTOD, MEMCPY, NONE, Trace

PAGEABLE, PAGEABLE_ASYNC, PINNED, PINNED_ASYNC, NO_COPY = CASES = figures("E8", "ms", f"{COPIED}; no copy")
LONGER = Figure("E8", "cost of a pinned copy")
"""By how many ms a step with a pinned, non_blocking copy is longer than the next step without a copy."""
SMALL = [Figure("E8", f"small network, {case.name}") for case in (PAGEABLE, PINNED_ASYNC)]
"""Steps of a network that computes little for each byte."""
STEPS = 10
"""Steps between two synchronizes: in a training loop the host runs ahead of the GPU."""
OWN_STREAM = "the copy is on the stream of the kernels: the host runs ahead, the GPU copies and computes in turn (E10)"


def training_on_a_loader(lab: Lab) -> CaseRuns:
    """Return the steps of the cases. Each loader starts at its first step: only those of cases that ran are at work."""
    from torch.utils.data import DataLoader

    from pinprof.workloads.loaders import BatchStream
    from pinprof.workloads.model import host_batches, model_sizes, trainer

    size = model_sizes(lab.sizes)
    training, batches = trainer(lab.device, size, hidden=4), host_batches(size)
    resident = batches[0].to(lab.device)

    def steps(*, pinned: bool, non_blocking: bool) -> Iterator[object]:
        stream = BatchStream(batches)
        for batch in DataLoader(stream, batch_size=None, num_workers=lab.sizes["workers"], pin_memory=pinned):
            yield training.train(batch.to(lab.device, non_blocking=non_blocking))

    ways = [steps(pinned=pinned, non_blocking=late) for pinned in (False, True) for late in (False, True)]
    return *(partial(next, way) for way in ways), lambda: training.train(resident)


def training_a_small_network(lab: Lab) -> CaseRuns:
    """Return steps of one layer. No loader makes their batches: it would need more time for one than such a step."""
    from pinprof.workloads.model import forever, host_batches, model_sizes, trainer

    size = model_sizes(lab.sizes)
    training, made = trainer(lab.device, size, hidden=0), host_batches(size)
    pageable, pinned = forever(made), forever([*map(lab.pinned, made)])
    return (
        lambda: training.train(next(pageable).to(lab.device)),
        lambda: training.train(next(pinned).to(lab.device, non_blocking=True)),
    )


def measure_loaders(lab: Lab) -> Iterator[Measured]:
    """Yield the steps, and how much longer one with a pinned copy is than the next without."""
    steps, clock, small = training_on_a_loader(lab), partial(lab.time, steps=STEPS), training_a_small_network(lab)
    yield from lab.each(CASES[:3], steps[:3], clock)
    turns = lab.turns(steps[3:], clock)
    yield from of_turns(CASES[3:], turns)
    yield LONGER.of([median(copied - without for copied, without in turns)])
    yield from of_turns(SMALL, lab.turns(small, clock))


def rates_of_copies(trace: Trace, _details: Details) -> list[float]:
    """Return the rate of each copy to the GPU, in GB/s."""
    gpu = trace.gpu
    copies = (gpu.category == MEMCPY) & (gpu.direction == HTOD) & (gpu.bytes != NONE) & (gpu.duration_ns > 0)
    return (gpu.bytes[copies] / gpu.duration_ns[copies]).tolist()


RATE = InTrace("rate", "GB/s", rates_of_copies)


def off_the_path(read: judge.Readings) -> judge.ClaimJudgement:
    """Judge by how much longer a step with a pinned copy is than the next step without one, as a share of the copy."""
    longer, rate, result = read(LONGER), read(RATE(PINNED_ASYNC)), read.bench.result("E8")
    megabytes = 4e-6 * prod(result.sizes.get(name, 0) if result else 0 for name in ("rows", "features"))
    if min(rate.low, megabytes) <= 0:
        return judge.ClaimJudgement("unknown", f"not measured: rows, features or {rate.name}")
    meanwhile = read(Ratio((LONGER, RATE(PINNED_ASYNC))))  # megabytes that are copied in that time
    takes = amount("ms", megabytes / rate.median)
    why = f"in turn, a pinned copy makes the step {shown(longer)} longer; the copy itself takes {takes}"
    return judge.decided(why, confirmed=meanwhile.high < megabytes / 2, refuted=meanwhile.low > megabytes / 2)


LOADER = Experiment(
    "E8",
    "loader",
    "training on a DataLoader with and without pin_memory=True and non_blocking=True",
    (
        Claim(
            "DataLoader(pin_memory=True) makes its copies faster",
            "article: pin_memory=True",
            less(RATE(PAGEABLE_ASYNC), RATE(PINNED_ASYNC)),
        ),
        Claim(
            "A non_blocking copy of a pinned batch does not wait",
            "article: non_blocking",
            opposite(yes(WAITS(PINNED_ASYNC))),
        ),
        Claim(
            "The way of copying can double the time of a step",
            "article: opening",
            any_of(*(at_least(ratio(*pair), 2) for pair in ((PAGEABLE, PINNED_ASYNC), SMALL))),
            "it depends on how long the copy is, compared with the rest of the step",
        ),
        Claim(
            "In a plain loop over the loader transfers so overlap with computation",
            "article: non_blocking",
            mostly(OVERLAPPED(PINNED_ASYNC)),
            OWN_STREAM,
        ),
        Claim("Pinned batches and non_blocking take the copy off the step's path", "pinprof", off_the_path, OWN_STREAM),
    ),
    CASES,
    training_on_a_loader,
    measure_loaders,
    sizes=(
        Size("rows", 2048, "samples in a batch"),
        Size("features", 3072, "numbers of 4 bytes in a sample"),
        Size("workers", 2, "worker processes of the training steps"),
    ),
    changed="the article shows a loader and a loop and prints nothing; the four ways, the larger batch, whose copy can "
    "be seen in the step, and the small network of one layer are ours. The loop as it is: E14",
    traced=dict.fromkeys(CASES[:4], (WAITS, OVERLAPPED, RATE)),
    rounds=5,
)
