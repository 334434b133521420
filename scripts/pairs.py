"""Training programs before and after a real fix, all in plain sight: what a prediction is held against."""

from dataclasses import dataclass
from functools import partial

from pinprof.errors import PinprofError
from scripts.pair_programs import choices, moves, of_workloads, reads
from scripts.pair_programs.of_workloads import PairBuild, workloads

Scenario = dict[str, str | bool]
"""The change as a prediction takes it."""

NO_WAITS: Scenario = {"drop_syncs": "all"}
PIN: Scenario = {"pin": True}
PIN_AND_GO_ON: Scenario = {"pin": True, "non_blocking": True}
GO_ON: Scenario = {"non_blocking": True}
KEEP_MEMORY: Scenario = {"drop_allocs": True}


@dataclass(frozen=True)
class Pair:
    """One program and the same with a fix.

    `looked_at`: the prediction may be developed with it. The others are for scoring alone.
    """

    name: str
    what: str
    scenario: Scenario
    looked_at: bool
    build: PairBuild


class UnknownPairError(PinprofError, ValueError):
    """No pair has this name."""


PAIRS = (
    Pair(
        "pin_and_non_blocking",
        "a 48 MiB batch copied blocking from pageable memory: from pinned memory, not waited for",
        PIN_AND_GO_ON,
        True,
        workloads("pageable_blocking", "pinned_non_blocking"),
    ),
    Pair(
        "pin_only",
        "a 48 MiB batch copied blocking from pageable memory: from pinned memory, still blocking",
        PIN,
        False,
        workloads("pageable_blocking", "pinned_blocking"),
    ),
    Pair(
        "pin_under_non_blocking",
        "a 48 MiB batch copied with non_blocking=True from pageable memory: from pinned memory",
        PIN,
        True,
        workloads("pageable_non_blocking", "pinned_non_blocking"),
    ),
    Pair(
        "non_blocking_only",
        "a 48 MiB batch copied blocking from pinned memory: not waited for",
        GO_ON,
        False,
        workloads("pinned_blocking", "pinned_non_blocking"),
    ),
    Pair(
        "prefetch_pinned",
        "a 48 MiB batch copied from pinned memory, not waited for: copied ahead on a side stream",
        {"overlap_copies": True},
        True,
        workloads("pinned_non_blocking", "prefetch"),
    ),
    Pair(
        "prefetch_pageable",
        "a 48 MiB batch copied blocking from pageable memory: from pinned memory ahead on a side stream",
        {"pin": True, "non_blocking": True, "overlap_copies": True},
        False,
        workloads("pageable_blocking", "prefetch"),
    ),
    Pair(
        "host_work_and_copy",
        "3 ms of host work, then a 48 MiB batch from pageable memory: from pinned memory, not waited for",
        PIN_AND_GO_ON,
        True,
        moves.host_work_and_copy,
    ),
    Pair(
        "loss_item",
        "the loss read in every step that the GPU bounds: not read",
        NO_WAITS,
        True,
        workloads("loss_item", "clean"),
    ),
    Pair(
        "loss_item_host_work",
        "the loss read, then 3 ms of host work: the loss summed on the GPU, the same host work",
        NO_WAITS,
        False,
        workloads("loss_item_host_work", of_workloads.host_work),
    ),
    Pair(
        "readback_side_stream",
        "16 MiB of outputs copied back and waited for: to pinned memory on a side stream, read one step later",
        {"pin": True, "non_blocking": True, "overlap_copies": True},
        True,
        workloads("readback_blocking", "readback_async"),
    ),
    Pair(
        "readback_late",
        "16 MiB of outputs copied back and waited for: to pinned memory on the same stream, read one step later",
        PIN_AND_GO_ON,
        False,
        moves.readback_late,
    ),
    Pair(
        "empty_cache",
        "torch.cuda.empty_cache() in every step that the GPU bounds, with a workspace of 256 MiB: no call",
        KEEP_MEMORY,
        True,
        workloads("empty_cache", of_workloads.kept_cache),
    ),
    Pair(
        "emptied_cache_gpt",
        "torch.cuda.empty_cache() in every step of a small GPT: no call",
        KEEP_MEMORY,
        False,
        moves.emptied_cache,
    ),
    Pair(
        "mask_loss",
        "the loss over output[mask] in a step that the GPU bounds: over all rows with ignore_index",
        NO_WAITS,
        True,
        workloads("mask_loss", of_workloads.ignored_rows),
    ),
    Pair(
        "gan_meters",
        "a GAN with four item() and a print in every step: summed on the GPU",
        NO_WAITS,
        True,
        reads.gan,
    ),
    Pair(
        "resnet_meters",
        "ResNet-18 with item() of loss, top 1 and top 5 before backward: summed on the GPU",
        NO_WAITS,
        False,
        reads.resnet_meters,
    ),
    Pair(
        "gpt_micro_batches",
        "a small GPT with four micro-batches, item() after each: summed on the GPU",
        NO_WAITS,
        True,
        reads.micro_batches,
    ),
    Pair(
        "nan_check",
        "a ResNet that asks `if torch.isnan(loss)` before backward: torch.where on the GPU",
        NO_WAITS,
        False,
        choices.nan_check,
    ),
    Pair(
        "nan_check_gpu_bound",
        "the same question in a step that the GPU bounds: torch.where on the GPU",
        NO_WAITS,
        True,
        choices.nan_check_gpu_bound,
    ),
    Pair(
        "amp_clip_norm",
        "mixed precision, item() of the gradients' norm before the optimizer's step: summed on the GPU",
        NO_WAITS,
        True,
        reads.amp_clip_norm,
    ),
    Pair(
        "timed_parts",
        "torch.cuda.synchronize() around forward and backward of a small ResNet: none",
        NO_WAITS,
        False,
        reads.timed_parts,
    ),
    Pair(
        "timed_parts_gpu_bound",
        "torch.cuda.synchronize() around forward and backward of a ResNet that the GPU bounds: none",
        NO_WAITS,
        True,
        partial(reads.timed_parts, rows=256, width=64),
    ),
    Pair(
        "graph_masks",
        "a graph network with boolean masks in every layer and in the loss: weights of nought and one",
        NO_WAITS,
        True,
        choices.graph_masks,
    ),
    Pair(
        "hard_examples",
        "the loss over losses[losses >= mean]: over all of them, weighed",
        NO_WAITS,
        False,
        choices.hard_examples,
    ),
    Pair(
        "print_loss",
        "print(loss) of a tensor on the GPU in every step of a small GPT: none",
        NO_WAITS,
        False,
        reads.print_loss,
    ),
    Pair(
        "adam_item",
        "many small layers with Adam, item() after every step: summed on the GPU",
        NO_WAITS,
        False,
        reads.adam_item,
    ),
    Pair(
        "chain_item",
        "hundreds of tiny operations, item() between forward and backward: summed on the GPU",
        NO_WAITS,
        True,
        reads.chain_item,
    ),
    Pair(
        "late_item",
        "the loss of the step before read once this step is queued, small ResNet: not read",
        NO_WAITS,
        True,
        reads.late_item,
    ),
    Pair(
        "late_item_gpu_bound",
        "the loss of the step before read once this step is queued, bound by the GPU: not read",
        NO_WAITS,
        False,
        reads.late_item_gpu_bound,
    ),
    Pair(
        "five_losses",
        "item() of five losses in a row before backward: summed on the GPU",
        NO_WAITS,
        False,
        reads.five_losses,
    ),
    Pair(
        "best_loss",
        "a small GPT that asks `if loss < best` after every step: torch.minimum on the GPU",
        NO_WAITS,
        True,
        reads.best_loss,
    ),
    Pair(
        "policy_checks",
        "policy gradients with eight Categorical that check their arguments: validate_args=False",
        NO_WAITS,
        True,
        choices.policy_checks,
    ),
    Pair(
        "lightning_item",
        "a LightningModule that reads its loss in training_step: summed on the GPU",
        NO_WAITS,
        False,
        reads.lightning_log,
    ),
    Pair(
        "gpt2_item",
        "GPT-2 of transformers, item() and an attention mask that is looked into: neither",
        NO_WAITS,
        True,
        reads.gpt2_item,
    ),
    Pair(
        "lstm_lengths",
        "an LSTM whose sentences' lengths are on the GPU, lengths.cpu() in every step: on the host from the start",
        NO_WAITS,
        False,
        choices.lstm_lengths,
    ),
    Pair(
        "many_small_copies",
        "forty copies of 4 KB from pageable memory, each waited for: from pinned memory, none waited for",
        PIN_AND_GO_ON,
        True,
        moves.many_small_copies,
    ),
    Pair(
        "small_batch_chain",
        "hundreds of tiny operations on a pinned batch of 4 KB that is waited for: not waited for",
        GO_ON,
        False,
        moves.small_batch_chain,
    ),
    Pair(
        "images_pageable",
        "a small ResNet with 3 MiB of images copied blocking from pageable memory: pinned, not waited for",
        PIN_AND_GO_ON,
        True,
        moves.images,
    ),
    Pair(
        "tokens_pageable",
        "a small GPT with 16 KB of tokens copied with non_blocking=True from pageable memory: pinned",
        PIN,
        False,
        moves.tokens,
    ),
    Pair(
        "predictions_late",
        "predictions.cpu() in every step of many small layers: to pinned memory, read one step later",
        PIN_AND_GO_ON,
        False,
        moves.predictions_late,
    ),
    Pair(
        "two_gpus_item",
        "many small layers of which half are on a second GPU, item() after every step: summed on the GPU",
        NO_WAITS,
        False,
        reads.two_gpus_item,
    ),
    Pair(
        "everything_at_once",
        "a pageable batch, item() and many small layers: a pinned batch not waited for, no item()",
        {"pin": True, "non_blocking": True, "drop_syncs": "all"},
        True,
        moves.everything_at_once,
    ),
)


def pair(name: str) -> Pair:
    """Return the pair of this name."""
    for known in PAIRS:
        if known.name == name:
            return known
    raise UnknownPairError(f"no pair is named {name!r}; there are {', '.join(known.name for known in PAIRS)}")
