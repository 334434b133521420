"""Simulates comparisons on machines with noise of many kinds."""

from random import Random

import numpy as np

from pinprof.ab.sequential_test import Bounds, run_test
from pinprof.ab.statistics import Floats, PairsVerdict
from pinprof.ab.times import Difference, Pair


def quiet(count: int, random: np.random.Generator) -> Floats:
    """Return noise of 1.5 % per process, as on a GPU machine of one's own."""
    return 0.015 * random.standard_normal(count)


def heavy(count: int, random: np.random.Generator) -> Floats:
    """Return noise without a variance: Student's distribution with two degrees of freedom."""
    return 0.03 * random.standard_t(2, count)


def bimodal(count: int, random: np.random.Generator) -> Floats:
    """Return processes of two kinds, one a quarter slower, as by where their memory lies."""
    return np.where(random.random(count) < 1 / 2, 0.0, 0.25) + 0.01 * random.standard_normal(count)


def drifting(count: int, random: np.random.Generator) -> Floats:
    """Return a machine that becomes slower by half, as it warms up."""
    return np.linspace(0.0, 0.5, count) + 0.02 * random.standard_normal(count)


def wandering(count: int, random: np.random.Generator) -> Floats:
    """Return a load that wanders: each run mostly has that of the one before."""
    noise, load = np.empty(count), 0.0
    for place, shock in enumerate(0.05 * random.standard_normal(count)):
        noise[place] = load = 0.9 * load + shock
    return noise + 0.02 * random.standard_exponential(count)


def periodic(count: int, random: np.random.Generator) -> Floats:
    """Return a load that returns after four runs, as turns of A B B A do."""
    return 0.2 * np.sin(np.arange(count) * np.pi / 2 + 0.3) + 0.01 * random.standard_normal(count)


def in_bursts(count: int, random: np.random.Generator) -> Floats:
    """Return a machine on which another job runs for some runs now and then, and takes half of it."""
    begins = random.random(count) < 1 / 15
    return 0.7 * (np.convolve(begins, np.ones(6))[:count] > 0) + 0.02 * random.standard_normal(count)


NOISES = {made.__name__: made for made in (quiet, heavy, bimodal, drifting, wandering, periodic, in_bursts)}


def simulated(noise: str, slower: float, rng: Random, *, pairs: int, limit: float = 0.02) -> PairsVerdict:
    """Return the verdict on a version that is slower by this share, within the time for so many pairs."""
    slots = NOISES[noise](2 * pairs, np.random.default_rng(rng.getrandbits(64))).reshape(pairs, 2)
    effect, now = float(np.log1p(slower)), 0

    def measure(first: int) -> Pair:
        nonlocal now
        earlier, later = slots[now].tolist()
        now += 1
        difference = (later - earlier if first == 0 else earlier - later) + effect
        return Pair(first, (1.0, 1.0), (1.0, 1.0), Difference(difference), Difference(difference))

    return run_test(measure, Bounds(limit, pairs), clock=lambda: now, rng=rng).judgement.verdict
