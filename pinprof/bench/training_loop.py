"""E14: the article's training loop, and one that keeps loss and hits on the device."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from statistics import median

from pinprof.bench.experiment import WAITS, CaseRun, CaseRuns, Experiment, Lab, Size, of_turns
from pinprof.bench.judge import SAME_SHARE as SAME
from pinprof.bench.judge import Claim, all_of, any_of, at_least, at_most, less, yes
from pinprof.bench.loader import STEPS
from pinprof.bench.prefetching import AHEAD
from pinprof.bench.results import Measured, figures

WRITTEN, KEPT, WRITTEN_LARGER, KEPT_LARGER = CASES = figures(
    "E14", "ms", "as written; without .item(); as written, larger; without .item(), larger"
)
COST, COST_LARGER = figures("E14", "%", "cost of .item(); cost of .item(), larger")
PAIRS = (CASES[:2], CASES[2:])
PENALTY = 0.001
"""The factor of the penalty on the weights in the article."""


def articles_loops(lab: Lab) -> CaseRuns:
    """Return the steps of the cases, of both sizes of a batch."""
    return *_loops(lab), *_loops(replace(lab, sizes={**lab.sizes, "rows": lab.sizes["larger"]}))


def _loops(lab: Lab) -> tuple[CaseRun, CaseRun]:
    import torch
    from torch.utils.data import DataLoader

    from pinprof.workloads.loaders import BatchStream
    from pinprof.workloads.model import host_batches, model_sizes, trainer

    size, device = model_sizes(lab.sizes), lab.device
    training = trainer(device, size)
    parameters = list(training.model.parameters())

    def trained() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        of_all = torch.randint(size.classes, (size.rows,)).share_memory_()  # type: ignore[no-untyped-call]
        made = DataLoader(
            BatchStream(host_batches(size)),
            batch_size=None,
            collate_fn=lambda inputs: (inputs, of_all),
            num_workers=lab.sizes["workers"],
            pin_memory=lab.on_gpu,
        )
        for inputs, labels in ((part.to(device, non_blocking=True) for part in batch) for batch in made):
            output = training.model(inputs)
            loss = torch.nn.functional.cross_entropy(output, labels)
            loss = loss + PENALTY * sum(parameter.pow(2.0).sum() for parameter in parameters)
            training.update(loss)
            yield loss.detach(), output.max(1).indices.eq(labels).sum()

    read, kept = trained(), trained()
    total_loss, total_hits = 0.0, 0
    device_loss, device_hits = torch.zeros((), device=device), torch.zeros((), dtype=torch.long, device=device)

    def as_written() -> None:
        nonlocal total_loss, total_hits
        loss, hits = next(read)
        total_loss += loss.item()
        total_hits += int(hits.item())

    def without_item() -> None:
        loss, hits = next(kept)
        device_loss.add_(loss)
        device_hits.add_(hits)

    return as_written, without_item


def measure_loops(lab: Lab) -> Iterator[Measured]:
    """Yield what a step of each loop takes, and how much longer one with .item() takes than the next without."""
    steps = articles_loops(lab)
    for pair, runs, cost in zip(PAIRS, (steps[:2], steps[2:]), (COST, COST_LARGER), strict=True):
        turns = lab.turns(runs, partial(lab.time, steps=STEPS))
        yield from of_turns(pair, turns)
        yield cost.of([median(100 * (read / kept - 1) for read, kept in turns)])


TRAINING_LOOP = Experiment(
    "E14",
    "training_loop",
    "a training loop with asynchronous copies, a penalty over all parameters, and two .item() in every step",
    (
        Claim("Not the host, the kernels wait for the data", "article: the loop", at_most(WAITS(KEPT), 0.5, 1)),
        Claim("Its two .item() make the host wait in every step", "pinprof", yes(WAITS(WRITTEN))),
        Claim(
            "They make the step longer, with batches of 32 or larger ones",
            "pinprof",
            any_of(*(at_least(cost, 100 * SAME, otherwise="unknown") for cost in (COST, COST_LARGER))),
        ),
        Claim(
            "The two .item() cost the host its lead over the GPU: it queues the next copies later",
            "pinprof",
            all_of(*(less(AHEAD(read), AHEAD(kept)) for read, kept in PAIRS)),
        ),
    ),
    CASES,
    articles_loops,
    measure_loops,
    sizes=(
        Size("rows", 32, "samples in a batch"),
        Size("larger", 512, "samples in a larger batch"),
        Size("features", 3072, "numbers of 4 bytes in a sample"),
        Size("workers", 2, "worker processes of the loader"),
    ),
    changed="the network is a small one of ours, as the article has none; the batches are made beforehand, so that the "
    "loader keeps up",
    traced=dict.fromkeys(CASES, (WAITS, AHEAD)),
)
