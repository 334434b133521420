"""E12: a pinned tensor in an object that is sent to two processes, copied to the GPU there; and one sent bare."""

from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Any, NamedTuple

from pinprof.bench.catalogue import processes
from pinprof.bench.catalogue.processes import copies_in_a_process, copy_both, sent, spawned, two_tensors
from pinprof.bench.experiment import SOME_ROUNDS, CaseRuns, Experiment, Lab, Tensor
from pinprof.bench.judge import Claim, all_of, at_least, at_most, no, yes
from pinprof.bench.results import Figure, Measured, figures

PAGEABLE, SENT, OWN = CASES = figures("E12", "ms", "pageable; pinned, sent to the child; pinned in the child itself")
BARE = Figure("E12", "pinned, sent bare")
PAGEABLE_WRITTEN, PINNED_WRITTEN = figures("E12", "ms", "pageable, as written; pinned, as written")
AS_WRITTEN, FASTER_SENT, FASTER_BARE = figures(
    "E12",
    "times",
    "times as fast, as written; times as fast, sent to the child; times as fast, bare instead of in an object",
)
IN_PARENT, IN_CHILD, BARE_IN_CHILD = figures(
    "E12", "yes", "pinned in the parent; pinned in the child; pinned, bare in the child"
)
MAX_RATIO_OF_EQUALS = 1.25
"""Copies are as fast as each other if neither is this many times as fast; pinned ones are three or four times."""


class Holder(NamedTuple):
    """An object with tensors that is sent to another process."""

    pageable: Tensor
    pinned: Tensor


def copy_in_turn(_rank: int, queue: Any, lab: Lab, holder: Holder, bare: Tensor) -> None:
    """Send back whether the tensors are pinned here, and what their copies take in turn."""
    runs: CaseRuns = (*copies_in_a_process(lab, *holder), partial(sent, bare, lab))
    queue.put((holder.pinned.is_pinned(), bare.is_pinned(), [*zip(*lab.turns(runs, lab.between_events), strict=True)]))


def measure_object(lab: Lab) -> Iterator[Measured]:
    """Yield what copies take: as in the text, and repeated in turn.

    Sending moves a tensor to shared memory in this process too, so we check before that it is pinned here. Each
    program has tensors of its own.
    """
    written, holder, bare = Holder(*two_tensors(lab)), Holder(*two_tensors(lab)), two_tensors(lab)[1]
    yield IN_PARENT.of([holder.pinned.is_pinned(), bare.is_pinned()])
    for pageable, pinned in spawned(lab, copy_both, written, Lab.between_events):
        yield from (PAGEABLE_WRITTEN.of([pageable]), PINNED_WRITTEN.of([pinned]), AS_WRITTEN.of([pageable / pinned]))
    for is_pinned, bare_is_pinned, times in spawned(lab, copy_in_turn, holder, bare):
        yield from (IN_CHILD.of([is_pinned]), BARE_IN_CHILD.of([bare_is_pinned]))
        yield from (figure.of(taken) for figure, taken in zip((*CASES, BARE), times, strict=True))
        of_pageable, of_sent, _, of_bare = map(median, times)
        yield from (FASTER_SENT.of([of_pageable / of_sent]), FASTER_BARE.of([of_sent / of_bare]))


PINNED_IN_OBJECT = Experiment(
    "E12",
    "pinned_in_object",
    "a pinned tensor in an object that is sent to two processes, copied to the GPU there; and one sent bare",
    (
        Claim(
            "The pinned tensor of an object is no faster than the pageable one",
            "processes: counterintuitive case",
            at_most(FASTER_SENT, MAX_RATIO_OF_EQUALS),
            shows="13.7 against 13.5 and 13.8 against 13.6 ms: 1.01 times",
        ),
        Claim(
            "The object makes it slow: sent bare, the tensor is faster",
            "processes: counterintuitive case",
            at_least(FASTER_BARE, MAX_RATIO_OF_EQUALS),
            "the clock of one program counts the first use of CUDA, the events of the other do not",
            "bare 12.9 and 13.0 ms (E11)",
        ),
        Claim(
            "The tensor arrives unpinned and in shared memory, in an object or bare",
            "pinprof",
            all_of(yes(IN_PARENT, processes.IN_SHARED_MEMORY), no(IN_CHILD, BARE_IN_CHILD)),
        ),
    ),
    CASES,
    lambda lab: copies_in_a_process(lab, *two_tensors(lab)),
    measure_object,
    sizes=processes.SIZES_OF_PROCESSES,
    published={PAGEABLE_WRITTEN: 13.695, PINNED_WRITTEN: 13.505, AS_WRITTEN: 1.01},
    changed="the program is run as it is; then each copy is repeated after a warm-up. The repeated bare tensor and "
    "the one pinned in the child are ours",
    record=lambda lab, *to_record: spawned(lab, processes.record_in_process, Holder(*two_tensors(lab)), *to_record),
    rounds=SOME_ROUNDS,
)
