"""E12: a pinned tensor in an object that is sent to two processes, copied to the GPU there; and one sent bare."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from pinprof.bench import processes
from pinprof.bench.experiment import SOME_ROUNDS, CaseRuns, Experiment, Lab
from pinprof.bench.judge import Claim, all_of, at_least, at_most, less, mostly, no, ratio, yes
from pinprof.bench.processes import by_perf_counter, copies_in_a_process, copy_both, sent, spawned, two_tensors
from pinprof.bench.results import Figure, Measured, figures

if TYPE_CHECKING:
    from torch import Tensor

PAGEABLE, SENT, OWN = CASES = figures("E12", "ms", "pageable; pinned, sent to the child; pinned in the child itself")
BARE = Figure("E12", "pinned, sent bare")
CALL_SENT = Figure("E12", "call, pinned, sent to the child", "%")
"""Percent of the copy's time that its call lasts."""
PAGEABLE_WRITTEN, PINNED_WRITTEN = figures("E12", "ms", "pageable, as written; pinned, as written")
AS_WRITTEN, BARE_BY_EVENTS, OBJECT_BY_CLOCK, FASTER_SENT, FASTER_BARE = (
    Figure("E12", f"times as fast, {which}", "times")
    for which in (
        *("as written", "bare, by events", "in the object, by perf_counter"),
        *("sent to the child", "bare instead of in an object"),
    )
)
"""The text's second program as written, both programs with the clock of the other, and copies in turn."""
IN_PARENT, IN_CHILD, BARE_IN_CHILD = figures(
    "E12", "yes", "pinned in the parent; pinned in the child; pinned, bare in the child"
)
ALIKE = 1.25
"""Copies are as fast as each other if neither is this many times as fast; pinned ones are three or four times."""


@dataclass
class Holder:
    """An object with tensors that is sent to another process."""

    pageable: "Tensor"
    pinned: "Tensor"

    def __iter__(self) -> "Iterator[Tensor]":
        return iter((self.pageable, self.pinned))


def copy_in_turn(_rank: int, queue: Any, lab: Lab, holder: Holder, bare: "Tensor") -> None:
    """Send back whether the tensors are pinned here, what their copies take in turn, and how long a call takes."""
    runs: CaseRuns = (*copies_in_a_process(lab, *holder), partial(sent, bare, lab))
    times = [[*taken] for taken in zip(*lab.turns(runs, lab.between_events), strict=True)]
    queue.put((holder.pinned.is_pinned(), bare.is_pinned(), times, median(lab.hold(runs[1]) for _ in range(5))))


def measure_object(lab: Lab) -> Iterator[Measured]:
    """Yield what copies take: as in the text, with the clocks of its two programs exchanged, and repeated.

    Sending moves a tensor to shared memory in this process too, so we check before that it is pinned here. Each
    program has tensors of its own.
    """
    written, other_clock, holder = (Holder(*two_tensors(lab)) for _ in range(3))
    bare = two_tensors(lab)
    yield IN_PARENT.of([holder.pinned.is_pinned(), bare[1].is_pinned()])
    for pageable, pinned in spawned(lab, copy_both, written, Lab.between_events):
        yield from (PAGEABLE_WRITTEN.of([pageable]), PINNED_WRITTEN.of([pinned]), AS_WRITTEN.of([pageable / pinned]))
    for figure, tensors, clock in (
        (BARE_BY_EVENTS, two_tensors(lab), Lab.between_events),
        (OBJECT_BY_CLOCK, other_clock, by_perf_counter),
    ):
        yield from (figure.of([pageable / pinned]) for pageable, pinned in spawned(lab, copy_both, tensors, clock))
    for is_pinned, bare_is_pinned, times, held in spawned(lab, copy_in_turn, holder, bare[1]):
        yield from (IN_CHILD.of([is_pinned]), BARE_IN_CHILD.of([bare_is_pinned]))
        yield from (figure.of(taken) for figure, taken in zip((*CASES, BARE), times, strict=True))
        of_pageable, of_sent, _, of_bare = map(median, times)
        yield from (CALL_SENT.of([100 * held / of_sent]), FASTER_SENT.of([of_pageable / of_sent]))
        yield FASTER_BARE.of([of_sent / of_bare])


PINNED_IN_OBJECT = Experiment(
    "E12",
    "pinned_in_object",
    "a pinned tensor in an object that is sent to two processes, copied to the GPU there; and one sent bare",
    (
        Claim(
            "The pinned tensor of an object is no faster than the pageable one",
            "processes: counterintuitive case",
            at_most(FASTER_SENT, 1.1),
            shows="13.7 against 13.5 and 13.8 against 13.6 ms: 1.01 times",
        ),
        Claim(
            "The object makes it slow: sent bare, the tensor is faster",
            "processes: counterintuitive case",
            at_least(FASTER_BARE, 1.1),
            "the clock of one program counts the first use of CUDA, the events of the other do not",
            "bare 12.9 and 13.0 ms (E11)",
        ),
        Claim(
            "The two programs of the text differ in the clock, not in the object",
            "pinprof",
            all_of(
                *(at_least(ratio(by_clock, AS_WRITTEN), 2, 1) for by_clock in (processes.AS_WRITTEN, OBJECT_BY_CLOCK)),
                *(
                    at_least(ratio(by_clock, BARE_BY_EVENTS), 2, 1)
                    for by_clock in (processes.AS_WRITTEN, OBJECT_BY_CLOCK)
                ),
            ),
            shows="81 times (E11) by time.perf_counter; 1.01 times in the object by CUDA events",
        ),
        Claim(
            "The tensor arrives unpinned, in an object or bare",
            "pinprof",
            all_of(yes(IN_PARENT), no(IN_CHILD, BARE_IN_CHILD)),
        ),
        Claim(
            "Data in shared memory are copied to the GPU as pageable data are, not as pinned",
            "tutorial: considerations",
            all_of(
                at_least(FASTER_SENT, 1 / ALIKE), at_most(FASTER_SENT, ALIKE), mostly(CALL_SENT), less(OWN, PAGEABLE)
            ),
            "judged by how such a copy behaves compared with a pageable one; E13 says how that one goes",
        ),
    ),
    CASES,
    lambda lab: copies_in_a_process(lab, *two_tensors(lab)),
    measure_object,
    sizes=processes.SIZES,
    published={PAGEABLE_WRITTEN: 13.695, PINNED_WRITTEN: 13.505, AS_WRITTEN: 1.01},
    changed="the program is run as it is; then with the clock of E11, and that of E11 with CUDA events; then each copy "
    "is repeated after a warm-up. The repeated bare tensor and the one pinned in the child are ours",
    record=lambda lab, *to_record: spawned(lab, processes.record_in_process, Holder(*two_tensors(lab)), *to_record),
    rounds=SOME_ROUNDS,
)
