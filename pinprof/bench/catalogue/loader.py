"""E8: training on a DataLoader that pins or not, with copies that are waited for or not."""

from collections.abc import Iterator
from functools import partial

from pinprof.bench.catalogue.six_strategies import COPIED
from pinprof.bench.experiment import COPIES_HIDDEN, WAITED, CaseRuns, Experiment, Lab, Size
from pinprof.bench.judge import Claim, Ratio, at_least, at_most, less, mostly
from pinprof.bench.results import figures

PAGEABLE, PAGEABLE_ASYNC, PINNED, PINNED_ASYNC, NO_COPY = CASES = figures("E8", "ms", f"{COPIED}; no copy")
STEPS_BETWEEN_WAITS = 10
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


TRAINING_ON_A_LOADER = Experiment(
    "E8",
    "loader",
    "training on a DataLoader with and without pin_memory=True and non_blocking=True",
    (
        Claim(
            "DataLoader(pin_memory=True) makes its copies faster",
            "article: pin_memory=True",
            less(PINNED_ASYNC, PAGEABLE_ASYNC),
        ),
        Claim(
            "A non_blocking copy of a pinned batch does not wait",
            "article: non_blocking",
            at_most(WAITED(PINNED_ASYNC), 0.5, 1),
        ),
        Claim(
            "The way of copying makes a training step a tenth longer, or more",
            "article: opening",
            at_least(Ratio(PAGEABLE, PINNED_ASYNC), 1.1),
            "it depends on how long the copy is, compared with the rest of the step",
        ),
        Claim(
            "In a plain loop over the loader transfers so overlap with computation",
            "article: non_blocking",
            mostly(COPIES_HIDDEN(PINNED_ASYNC)),
            OWN_STREAM,
        ),
    ),
    CASES,
    training_on_a_loader,
    lambda lab: lab.each(CASES, training_on_a_loader(lab), partial(lab.time, steps=STEPS_BETWEEN_WAITS)),
    sizes=(
        Size("rows", 2048, "samples in a batch"),
        Size("features", 3072, "numbers of 4 bytes in a sample"),
        Size("workers", 2, "worker processes of the training steps"),
    ),
    changed="the article shows a loader and a loop and prints nothing; the four ways and the larger batch, whose "
    "copy can be seen in the step, are ours. The loop as it is: E14",
    traced=dict.fromkeys(CASES[:4], (WAITED, COPIES_HIDDEN)),
    rounds=5,
)
