"""How many steps each process makes, in how many turns: by the first runs, for the program may not have more."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from pinprof.ab.times import TimedProcess

TURN_S = 0.02
"""How long a turn is at least: long against the change of turns, short against what else changes on a machine.

On virtual machines a core is as fast as its neighbours let it for some 50 ms: on one with an H200, pairs of processes
with steps of 6 and 12 ms scattered by 3.0 and 6.1 % in 16 turns of 12 steps, by 1.1 and 0.8 % in 56 of 3 steps.
"""
FEWEST_STEPS, FEWEST_TURNS = 3, 8
SETTLING = 0.1
"""The share of a turn's steps that do not count, because they begin with cold caches; at least one."""
LONGEST_START_S = 600.0
TIMES_LONGER = 5.0
"""A process may take this many times as long as the first of its version."""
PREFETCHED = 2
"""Batches that a worker of a DataLoader has ready by default: it made them in its program's last turn."""
COUNTED = 3
"""In a turn with workers, this many times as many steps count as do not: workers that are too slow bring their batches
at nearly the same time, so that only several rounds of batches show their pace."""

LONGER_BESIDE = 2.5
"""Such a turn is this many times as long as one without workers: workers go on only after they have been woken up."""
FEWEST_BESIDE = 2
"""The fewest turns with workers where the user wants turns, even if the first run made too few steps for them."""


@dataclass(frozen=True)
class Plan:
    """How many steps each process makes; both versions make the same, so that they see the same data."""

    warmup: int
    steps: int
    turn_steps: int
    turns: int
    limit_s: float
    """After which a process counts as stuck."""
    start_together: bool
    """Whether both may warm up at the same time: not where they choose kernels by their speed."""
    settling_steps: int | None = None
    """How many steps of a turn do not count, where that is not by its length."""

    @classmethod
    def of(cls, first: Sequence[TimedProcess], seconds: float, took_s: float) -> "Plan":
        """Return the plan by the first run of each version; `seconds` is how long each process times steps."""
        step_s = max(timed.usual_ns for timed in first) / 1e9
        turn_steps = max(FEWEST_STEPS, ceil(TURN_S / step_s))
        return cls(
            warmup=max(timed.warmup for timed in first),
            steps=max(len(timed.steps) for timed in first),
            turn_steps=turn_steps,
            turns=max(FEWEST_TURNS, ceil(seconds / (turn_steps * step_s))),
            limit_s=LONGEST_START_S + TIMES_LONGER * took_s,
            start_together=not any(timed.gpu for timed in first),
        )

    @property
    def settling(self) -> int:
        """Steps of a turn that do not count."""
        return self.settling_steps or max(1, ceil(SETTLING * self.turn_steps))


def of_known_steps(plan: Plan) -> Plan:
    """Return a plan with no more turns than there are known steps for."""
    known = plan.steps // (plan.turn_steps + plan.settling)
    return replace(plan, turns=max(FEWEST_TURNS, min(plan.turns, known)))


def in_one_turn(plan: Plan, workers: int) -> Plan:
    """Return the plan by which each version makes all its steps in one turn."""
    settling = _settling(plan, workers)
    left = plan.steps - settling
    return replace(
        plan, turns=1, turn_steps=left if left >= COUNTED * settling else plan.steps, settling_steps=settling
    )


def without_turns(plan: Plan) -> Plan:
    """Return the plan of processes that make all their steps, one after the other."""
    return replace(plan, turns=1, turn_steps=plan.steps, settling_steps=None)


def beside_workers(plan: Plan, workers: int, fewest: int = 1) -> Plan:
    """Return the plan for versions with DataLoader workers: as many turns as the known steps allow.

    The first batches of a turn were made before it, when the machine may have been another: their steps settle. The
    number of turns is even, A B B A, so that a machine that becomes slower is so for both. Where the steps are too few
    there are `fewest` turns; one has all steps in it.
    """
    settling = _settling(plan, workers)
    whole = settling + max(ceil(LONGER_BESIDE * plan.turn_steps), COUNTED * settling)
    turns = max(plan.steps // whole // 2 * 2, fewest)
    if turns == 1:
        return in_one_turn(plan, workers)
    return replace(plan, turns=turns, turn_steps=max(plan.steps // turns, whole) - settling, settling_steps=settling)


def _settling(plan: Plan, workers: int) -> int:
    """Return the steps with cold caches, or with batches that are ready when a turn begins, and one that is drawn."""
    return max(plan.settling, PREFETCHED * workers + 1)
