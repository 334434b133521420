"""Pairs whose two sides are workloads of pinprof, or one of them with a line taken out."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch.nn import functional as F  # noqa: N812  torch's own name for it

from pinprof.workloads.catalogue import workload
from pinprof.workloads.model import Build, device_batch, sizes, trainer
from pinprof.workloads.model import Step as PlainStep
from pinprof.workloads.waits import HOST_WORK_MS, WORKSPACE_ROWS, work_on_host
from scripts.pair_programs.parts import Step

PairBuild = Callable[[torch.device, bool, float], Step]


def workloads(before: str, after: str | Build) -> PairBuild:
    """Return the pair of one workload and another, or of one workload and its mended self."""
    return partial(one_of, workload(before).build, workload(after).build if isinstance(after, str) else after)


def one_of(before: Build, after: Build, device: torch.device, fixed: bool, scale: float) -> Step:
    """Return the step of one side, which is left open: it lives as long as its process."""
    return ExitStack().enter_context((after if fixed else before)(device, scale))


@contextmanager
def host_work(device: torch.device, scale: float = 1.0) -> Iterator[PlainStep]:
    """Work on the host as `loss_item_host_work` does, and leave the loss where it is."""
    size = sizes(scale)
    training = trainer(device, size)
    batch = device_batch(size, device)
    total = torch.zeros((), device=device)

    def step() -> None:
        total.add_(training.train(batch))
        work_on_host(HOST_WORK_MS * scale)

    yield step


@contextmanager
def kept_cache(device: torch.device, scale: float = 1.0) -> Iterator[PlainStep]:
    """Take the workspace of `empty_cache`, and keep the memory for the next step."""
    size = sizes(scale)
    training = trainer(device, size)
    batch = device_batch(size, device)

    def step() -> None:
        workspace = torch.empty(round(WORKSPACE_ROWS * scale), 1024, device=device)
        training.train(batch)
        del workspace

    yield step


@contextmanager
def ignored_rows(device: torch.device, scale: float = 1.0) -> Iterator[PlainStep]:
    """Take the loss over the labelled rows as `mask_loss` does, the others marked in the target."""
    size = sizes(scale)
    training = trainer(device, size)
    batch = device_batch(size, device)
    labelled = torch.rand(size.rows, device=device) < 0.5  # noqa: PLR2004  half of them

    def step() -> None:
        target = torch.where(labelled, training.target, -100)
        training.update(F.cross_entropy(training.model(batch), target, ignore_index=-100))

    yield step
