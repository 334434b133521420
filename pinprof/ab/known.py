"""Fits a plan to the steps that the first runs made: the program may not have more of them."""

from dataclasses import replace
from math import ceil

from pinprof.ab.measuring import FEWEST_TURNS, Plan

PREFETCHED = 2
"""Batches that a worker of a DataLoader has ready by default: it made them in its program's last turn."""
COUNTED = 3
"""A turn beside workers has so many times as many steps that count as it has before them: of several workers that are
too slow, all bring their batches at nearly the same time, so that only several rounds of them tell their pace."""

LONGER_BESIDE = 2.5
"""And it is so many times as long as another: workers go on only after they have been woken up."""
FEWEST_BESIDE = 2
"""So many turns beside workers are asked for where turns are wished for, known steps or not."""


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
    """Return the plan for versions with so many workers each: as many turns as the known steps allow.

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
