"""Training programs before and after a real fix, in plain sight: measured, they show whether predictions hold."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch.nn import functional as F  # noqa: N812  torch's own name for it

from pinprof.workloads import workload
from pinprof.workloads.model import Build
from pinprof.workloads.model import Step as PlainStep
from pinprof.workloads.waits import HOST_WORK_MS, WORKSPACE_ROWS, work_on_host
from scripts.pair_programs import choices, jobs, moves, of_ranks, reads
from scripts.pair_programs.parts import Step, resident

Scenario = dict[str, str | bool]
"""The change as a prediction takes it."""

NO_WAITS: Scenario = {"drop_syncs": "all"}
PIN: Scenario = {"pin": True}
GO_ON: Scenario = {"non_blocking": True}
PIN_AND_GO_ON: Scenario = {**PIN, **GO_ON}
COPY_AHEAD: Scenario = {"overlap_copies": True}
PIN_AND_COPY_AHEAD: Scenario = {**PIN_AND_GO_ON, **COPY_AHEAD}
KEEP_MEMORY: Scenario = {"drop_allocs": True}


PairBuild = Callable[[torch.device, bool, float], Step]
"""Prepares a program: device, whether it has the fix, sizes times so much."""


@dataclass(frozen=True)
class Pair:
    """One program and the same with a fix: the docstring of what builds it says what it does on both sides.

    `looked_at`: the prediction may be developed with it. The others are for scoring alone.
    """

    name: str
    build: PairBuild
    scenario: Scenario | None
    """None: nothing predicts what the fix brings."""
    looked_at: bool = False
    late: str | None = None
    """Of a job, which rank holds up the others before the fix: the last, or none."""
    rule: str | None = None
    """What is to be found before the fix."""


def workloads(before: str, after: str | Build) -> PairBuild:
    """Return the pair of one workload and another, or of one workload and its mended self."""
    return partial(one_of, workload(before).build, workload(after).build if isinstance(after, str) else after)


def one_of(before: Build, after: Build, device: torch.device, fixed: bool, scale: float) -> Step:
    """Return the step of one side, which is left open: it lives as long as its process."""
    return ExitStack().enter_context((after if fixed else before)(device, scale))


@contextmanager
def host_work(device: torch.device, scale: float = 1.0) -> Iterator[PlainStep]:
    """Work on the host as `loss_item_host_work` does, and leave the loss where it is."""
    training, batch = resident(device, scale)
    total = torch.zeros((), device=device)

    def step() -> None:
        total.add_(training.train(batch))
        work_on_host(HOST_WORK_MS * scale)

    yield step


@contextmanager
def kept_cache(device: torch.device, scale: float = 1.0) -> Iterator[PlainStep]:
    """Take the workspace of `empty_cache`, and keep the memory for the next step."""
    training, batch = resident(device, scale)

    def step() -> None:
        workspace = torch.empty(round(WORKSPACE_ROWS * scale), 1024, device=device)
        training.train(batch)
        del workspace

    yield step


@contextmanager
def ignored_rows(device: torch.device, scale: float = 1.0) -> Iterator[PlainStep]:
    """Take the loss over the labelled rows as `mask_loss` does, the others marked in the target."""
    training, batch = resident(device, scale)
    labelled = torch.rand(len(batch), device=device) < 0.5  # noqa: PLR2004  half of them

    def step() -> None:
        target = torch.where(labelled, training.target, -100)
        training.update(F.cross_entropy(training.model(batch), target, ignore_index=-100))

    yield step


PAIRS = (
    Pair("pin_and_non_blocking", workloads("pageable_blocking", "pinned_non_blocking"), PIN_AND_GO_ON, looked_at=True),
    Pair("pin_only", workloads("pageable_blocking", "pinned_blocking"), PIN),
    Pair("pin_under_non_blocking", workloads("pageable_non_blocking", "pinned_non_blocking"), PIN, looked_at=True),
    Pair("non_blocking_only", workloads("pinned_blocking", "pinned_non_blocking"), GO_ON),
    Pair("prefetch_pinned", workloads("pinned_non_blocking", "prefetch"), COPY_AHEAD, looked_at=True),
    Pair("prefetch_pageable", workloads("pageable_blocking", "prefetch"), PIN_AND_COPY_AHEAD),
    Pair("host_work_and_copy", moves.host_work_and_copy, PIN_AND_GO_ON, looked_at=True),
    Pair("loss_item", workloads("loss_item", "clean"), NO_WAITS, looked_at=True),
    Pair("loss_item_host_work", workloads("loss_item_host_work", host_work), NO_WAITS),
    Pair("readback_side_stream", workloads("readback_blocking", "readback_async"), PIN_AND_COPY_AHEAD, looked_at=True),
    Pair("readback_late", moves.readback_late, PIN_AND_GO_ON),
    Pair("empty_cache", workloads("empty_cache", kept_cache), KEEP_MEMORY, looked_at=True),
    Pair("emptied_cache_gpt", moves.emptied_cache, KEEP_MEMORY),
    Pair("mask_loss", workloads("mask_loss", ignored_rows), NO_WAITS, looked_at=True),
    Pair("gan_meters", reads.gan, NO_WAITS, looked_at=True),
    Pair("resnet_meters", reads.resnet_meters, NO_WAITS),
    Pair("gpt_micro_batches", reads.micro_batches, NO_WAITS, looked_at=True),
    Pair("nan_check", choices.nan_check, NO_WAITS),
    Pair("nan_check_gpu_bound", choices.nan_check_gpu_bound, NO_WAITS, looked_at=True),
    Pair("amp_clip_norm", reads.amp_clip_norm, NO_WAITS, looked_at=True),
    Pair("timed_parts", reads.timed_parts, NO_WAITS),
    Pair("timed_parts_gpu_bound", partial(reads.timed_parts, rows=256, width=64), NO_WAITS, looked_at=True),
    Pair("graph_masks", choices.graph_masks, NO_WAITS, looked_at=True),
    Pair("hard_examples", choices.hard_examples, NO_WAITS),
    Pair("print_loss", reads.print_loss, NO_WAITS),
    Pair("adam_item", reads.adam_item, NO_WAITS),
    Pair("chain_item", reads.chain_item, NO_WAITS, looked_at=True),
    Pair("late_item", reads.late_item, NO_WAITS, looked_at=True),
    Pair("late_item_gpu_bound", reads.late_item_gpu_bound, NO_WAITS),
    Pair("five_losses", reads.five_losses, NO_WAITS),
    Pair("best_loss", reads.best_loss, NO_WAITS, looked_at=True),
    Pair("policy_checks", choices.policy_checks, NO_WAITS, looked_at=True),
    Pair("lightning_item", reads.lightning_log, NO_WAITS),
    Pair("gpt2_item", reads.gpt2_item, NO_WAITS, looked_at=True),
    Pair("lstm_lengths", choices.lstm_lengths, NO_WAITS),
    Pair("many_small_copies", moves.many_small_copies, PIN_AND_GO_ON, looked_at=True),
    Pair("small_batch_chain", moves.small_batch_chain, GO_ON),
    Pair("images_pageable", moves.images, PIN_AND_GO_ON, looked_at=True),
    Pair("tokens_pageable", moves.tokens, PIN),
    Pair("predictions_late", moves.predictions_late, PIN_AND_GO_ON),
    Pair("two_gpus_item", reads.two_gpus_item, NO_WAITS),
    Pair("everything_at_once", moves.everything_at_once, {**PIN_AND_GO_ON, **NO_WAITS}, looked_at=True),
)

LAST = "last"

RANK_PAIRS = (
    Pair("logging_rank", of_ranks.logging_rank, NO_WAITS),
    Pair("pageable_rank", of_ranks.pageable_rank, PIN_AND_GO_ON, looked_at=True, late=LAST),
    Pair("pageable_ranks", of_ranks.pageable_ranks, PIN_AND_GO_ON),
    Pair("averaged_loss", of_ranks.averaged_loss, NO_WAITS),
    Pair("timed_parts_ranks", of_ranks.timed_parts, NO_WAITS),
    Pair("sleeping_rank", of_ranks.sleeping_rank, None, late=LAST),
    Pair("slow_loader_rank", jobs.slow_loader_rank, None, looked_at=True, late=LAST),
    Pair("slow_python_rank", jobs.slow_python_rank, None, looked_at=True, late=LAST),
    Pair("saving_rank", jobs.saving_rank, None, looked_at=True, late=LAST),
    Pair("collecting_rank", jobs.collecting_rank, None, looked_at=True, late=LAST),
    Pair("sharded", jobs.sharded, None, looked_at=True, rule="PIN710"),
    Pair("tensor_parallel", jobs.tensor_parallel, None, looked_at=True),
    Pair("experts", jobs.experts, None, looked_at=True),
    Pair("accumulating", jobs.accumulating, None, looked_at=True, rule="PIN707"),
    Pair("small_buckets", jobs.small_buckets, None, looked_at=True, rule="PIN708"),
    Pair("unused_searched", jobs.unused_searched, None, looked_at=True, rule="PIN709"),
    Pair("bucket_views", jobs.bucket_views, None, looked_at=True),
    Pair("buffers_sent", jobs.buffers_sent, None, looked_at=True, rule="PIN709"),
    Pair("clipping", jobs.clipping, NO_WAITS, looked_at=True),
    Pair("pipeline", jobs.pipeline, None, looked_at=True),
)
"""Jobs of several ranks: each is built in the process of a rank."""

NAMED_PAIRS = {pair.name: pair for pair in (*PAIRS, *RANK_PAIRS)}
