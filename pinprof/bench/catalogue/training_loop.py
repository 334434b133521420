"""E14: the article's training loop, and one that keeps loss and hits on the device."""

from collections.abc import Iterator
from functools import partial

from pinprof.bench.catalogue.loader import STEPS_BETWEEN_WAITS
from pinprof.bench.catalogue.prefetching import LEAD_MS
from pinprof.bench.experiment import WAITED, CaseRuns, Experiment, Lab, Size, of_turns
from pinprof.bench.judge import Claim, at_most, less, yes
from pinprof.bench.results import figures

WRITTEN, KEPT = CASES = figures("E14", "ms", "as written; without .item()")
PENALTY = 0.001
"""The factor of the penalty on the weights in the article."""


def _training_steps(lab: Lab) -> CaseRuns:
    import torch
    from torch.utils.data import DataLoader

    from pinprof.workloads.loaders import BatchStream
    from pinprof.workloads.model import host_batches, model_sizes, trainer

    size, device = model_sizes(lab.sizes), lab.device
    training = trainer(device, size)
    parameters = list(training.model.parameters())

    def trained() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        labels_of_all = torch.randint(size.classes, (size.rows,)).share_memory_()  # type: ignore[no-untyped-call]
        stream, pair = BatchStream(host_batches(size)), lambda inputs: (inputs, labels_of_all)
        loader = DataLoader(stream, None, collate_fn=pair, num_workers=lab.sizes["workers"], pin_memory=lab.on_gpu)
        for inputs, labels in ((part.to(device, non_blocking=True) for part in batch) for batch in loader):
            output = training.model(inputs)
            loss = torch.nn.functional.cross_entropy(output, labels)
            loss = loss + PENALTY * sum(parameter.pow(2.0).sum() for parameter in parameters)
            training.update(loss)
            yield loss.detach(), output.max(1).indices.eq(labels).sum()

    read, kept = trained(), trained()
    total, on_device = [0.0, 0.0], torch.zeros(2, device=device)

    def as_written() -> None:
        for number, value in enumerate(next(read)):
            total[number] += value.item()

    def without_item() -> None:
        for number, value in enumerate(next(kept)):
            on_device[number].add_(value)

    return as_written, without_item


TRAINING_LOOP = Experiment(
    "E14",
    "training_loop",
    "a training loop with asynchronous copies, a penalty over all parameters, and two .item() in every step",
    (
        Claim("The kernels wait for the data, not the host", "article: the loop", at_most(WAITED(KEPT), 0.5, 1)),
        Claim("Its two .item() make the host wait in every step", "pinprof", yes(WAITED(WRITTEN))),
        Claim(
            "The two .item() cost the host its lead over the GPU: it queues the next copies later",
            "pinprof",
            less(LEAD_MS(WRITTEN), LEAD_MS(KEPT)),
        ),
    ),
    CASES,
    _training_steps,
    lambda lab: of_turns(CASES, lab.turns(_training_steps(lab), partial(lab.time, steps=STEPS_BETWEEN_WAITS))),
    sizes=(
        Size("rows", 32, "samples in a batch"),
        Size("features", 3072, "numbers of 4 bytes in a sample"),
        Size("workers", 2, "worker processes of the loader"),
    ),
    changed="the network is a small one of ours, as the article has none; the batches are made beforehand, so that the "
    "loader keeps up",
    traced=dict.fromkeys(CASES, (WAITED, LEAD_MS)),
)
