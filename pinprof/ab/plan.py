"""Plans from the first runs how pairs are measured: how many start at once, in how many turns of how many steps."""

import resource
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal, TypeAlias

from pinprof.ab.times import TimedProcess
from pinprof.processes import available_cores, machine_memory

TurnMode: TypeAlias = Literal["auto", "steps", "runs"]
"""Whether the versions take turns of some steps, both in memory, or run one after the other."""

TURN_S = 0.02
"""The shortest turn: long compared with the switch between turns, short compared with changes of the machine.

On virtual machines the speed of a core depends on its neighbours and changes after some 50 ms: on one with an H200,
pairs of processes with steps of 6 and 12 ms scattered by 3.0 and 6.1 % in 16 turns of 12 steps, by 1.1 and 0.8 % in 56
turns of 3 steps.
"""
FEWEST_STEPS, FEWEST_TURNS = 3, 8
SETTLING = 0.1
"""The share of a turn's steps, at least one, that do not count because caches are cold."""
LONGEST_START_S = 600.0
TIMES_LONGER = 5.0
"""A process may take this many times as long as the first of its version."""
PREFETCHED = 2
"""Batches that a worker of a DataLoader has ready by default: it made them in its program's last turn."""
COUNTED = 3
"""In a turn with workers, the steps that count are this multiple of those that do not: slow workers deliver their
batches at nearly the same time, so that only several rounds of batches show their pace."""

LONGER_WITH_WORKERS = 2.5
"""A turn with workers is this many times as long as one without: workers go on only after they have been woken up."""
FEWEST_WITH_WORKERS = 2
"""The fewest turns with workers where the user wants turns, even if the first run made too few steps for them."""

MOST_GPU_MEMORY = 0.8
"""The share of a GPU's free memory that all processes may hold at once."""
MOST_OF_ONE = 0.4
"""The share of a GPU's memory up to which two processes may hold theirs at once."""
CONTEXT = 0.006
"""The share of a GPU's memory that a process takes for itself, without tensors: some 600 MB of 80 GB and more."""
MOST_MEMORY = 0.6
"""The share of the host's free memory that all processes may hold."""
STARTING_PER_CORE = 1.25
"""Programs that start at once: nine pairs on 16 cores."""
PROCESSES_PER_CORE = 4
"""Programs and their workers: nearly all of them wait."""


@dataclass(frozen=True)
class Plan:
    """How many steps each process makes; both versions make the same, so that they see the same data."""

    warmup: int
    steps: int
    turn_steps: int
    turns: int
    limit_s: float
    """After this time a process counts as stuck."""
    start_together: bool
    """Whether both may warm up at the same time: not on a GPU, where they choose kernels by their speed."""
    settling_steps: int | None = None
    """How many steps of a turn do not count; None: a share of its length."""
    at_once: int = 1
    """How many pairs start at once; 0 where one process runs after the other."""
    why_runs: str = ""
    """Why they run one after the other although the user did not ask for that; empty otherwise."""

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

    @property
    def takes_turns(self) -> bool:
        """Whether each process waits for the other after some of its steps."""
        return self.turns > 1


def plans(mode: TurnMode, first: Sequence[TimedProcess], plan: Plan, at_once: int) -> list[Plan]:
    """Return how to measure, the best plan first: several pairs at once, one in turns, process after process.

    A program that may end before it has made the steps of all turns takes fewer turns.
    """
    why_runs = _why_runs(first) if mode == "auto" else ""
    takes_turns = mode == "steps" or (mode == "auto" and not why_runs)
    workers = max(timed.children for timed in first)
    candidates = []
    if at_once > 1 and workers and mode != "runs":  # started at once, programs with workers may take turns
        turned = turns_with_workers(plan, workers, FEWEST_WITH_WORKERS if mode == "steps" else 1)
        few = "" if turned.takes_turns else f"{why_runs}, and --seconds has too few steps for turns with them"
        candidates.append(replace(turned, at_once=at_once, why_runs=few))
    elif at_once > 1:
        plain = fewer_turns(plan) if takes_turns else replace(in_one_turn(plan, workers), why_runs=why_runs)
        candidates.append(replace(plain, at_once=at_once))
    if takes_turns and workers:
        candidates.append(turns_with_workers(plan, workers, FEWEST_WITH_WORKERS))
    elif takes_turns:
        candidates += [plan, fewer_turns(plan)]
    if mode != "steps":
        candidates.append(replace(without_turns(plan), at_once=0, why_runs=why_runs))
    return list(dict.fromkeys(candidates))


def _why_runs(first: Sequence[TimedProcess]) -> str:
    """Return why versions cannot take turns; empty if they can."""
    if any(timed.ranks > 1 for timed in first):
        return "the program has several ranks"
    if any(timed.children for timed in first):
        return "the program has processes of its own, as workers of a DataLoader"
    if any((timed.gpu_memory or 0.0) > MOST_OF_ONE for timed in first):
        return f"the program takes more than {MOST_OF_ONE:.0%} of the GPU's memory"
    return ""


def pairs_at_once(most: int, first: Sequence[TimedProcess]) -> int:
    """Return how many pairs may start at once, by the memory and processes of the first runs; 0 or 1: none."""
    if any(timed.ranks > 1 for timed in first):
        return 0
    cores = available_cores()
    processes = 1 + max(timed.children for timed in first)
    limits = [most, int(STARTING_PER_CORE * cores / 2), PROCESSES_PER_CORE * cores // (2 * processes)]
    memory = max(timed.gpu_memory or 0.0 for timed in first)
    if any(timed.gpu for timed in first):
        free = min(min(timed.gpu_free for timed in first) + memory + CONTEXT, 1.0)  # the first run has ended
        limits.append(int(MOST_GPU_MEMORY * free / (2 * (memory + CONTEXT))))
    with suppress(OSError, KeyError):
        largest = max(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 1) * 1024 * processes
        limits.append(int(MOST_MEMORY * machine_memory()[1] / (2 * largest)))
    return max(min(limits), 0)


def fewer_turns(plan: Plan) -> Plan:
    """Return a plan with as many turns as the steps of the first run allow."""
    possible = plan.steps // (plan.turn_steps + plan.settling)
    return replace(plan, turns=max(FEWEST_TURNS, min(plan.turns, possible)))


def in_one_turn(plan: Plan, workers: int) -> Plan:
    """Return the plan by which each version makes all its steps in one turn."""
    settling = _settling_steps(plan, workers)
    timed_steps = plan.steps - settling
    turn_steps = timed_steps if timed_steps >= COUNTED * settling else plan.steps
    return replace(plan, turns=1, turn_steps=turn_steps, settling_steps=settling)


def without_turns(plan: Plan) -> Plan:
    """Return the plan of processes that make all their steps, one after the other."""
    return replace(plan, turns=1, turn_steps=plan.steps, settling_steps=None)


def turns_with_workers(plan: Plan, workers: int, fewest: int = 1) -> Plan:
    """Return the plan for versions with DataLoader workers: as many turns as the steps of the first run allow.

    The first batches of a turn were made before it, perhaps at another speed of the machine: their steps do not count.
    The number of turns is even, A B B A, so that a machine that becomes slower does so for both. If the steps are too
    few there are `fewest` turns; a single turn has all steps.
    """
    settling = _settling_steps(plan, workers)
    whole = settling + max(ceil(LONGER_WITH_WORKERS * plan.turn_steps), COUNTED * settling)
    turns = max(plan.steps // whole // 2 * 2, fewest)
    if turns == 1:
        return in_one_turn(plan, workers)
    return replace(plan, turns=turns, turn_steps=max(plan.steps // turns, whole) - settling, settling_steps=settling)


def _settling_steps(plan: Plan, workers: int) -> int:
    """Return how many steps have cold caches or a batch that was ready when the turn began, plus one being made."""
    return max(plan.settling, PREFETCHED * workers + 1)
