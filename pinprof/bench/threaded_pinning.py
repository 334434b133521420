"""E7: a dictionary of tensors, pinned by the main thread or by others before it is copied."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from operator import methodcaller

from pinprof.bench.experiment import SOME_ROUNDS, CaseRuns, Experiment, Lab, Size
from pinprof.bench.judge import Claim, Predicate, all_of, at_most, less, ratio
from pinprof.bench.results import Figure, Measured, figures
from pinprof.bench.six_strategies import FEW_TENSORS

BLOCKING, NON_BLOCKING, PIN_FIRST, IN_THREADS, IN_TURN = CASES = figures(
    "E7", "ms", "blocking; non_blocking; pin then copy; pin in threads then copy; pin and copy in turn"
)
SMALL, FEW = ([Figure("E7", f"{which}, {case.name}") for case in CASES[2:4]] for which in ("small", "few"))
"""The two ways to pin first, for tensors as small as in E2, and for a few large ones."""


def copies_of_a_dictionary(lab: Lab) -> CaseRuns:
    """Return the steps of the cases: the main thread pins all tensors first, as in the text, or each in turn."""
    tensors, pool = dict(enumerate(lab.tensors())), ThreadPoolExecutor(lab.sizes["threads"])
    device, pin = lab.device, methodcaller("pin_memory")

    def pin_first() -> object:
        pinned = {key: tensor.pin_memory() for key, tensor in tensors.items()}
        return {key: tensor.to(device, non_blocking=True) for key, tensor in pinned.items()}

    def in_threads() -> object:
        pinned = zip(tensors, pool.map(pin, tensors.values()), strict=True)
        return {key: tensor.to(device, non_blocking=True) for key, tensor in pinned}

    return (
        lambda: {key: tensor.to(device) for key, tensor in tensors.items()},
        lambda: {key: tensor.to(device, non_blocking=True) for key, tensor in tensors.items()},
        pin_first,
        in_threads,
        lambda: {key: tensor.pin_memory().to(device, non_blocking=True) for key, tensor in tensors.items()},
    )


def measure_pinning_threads(lab: Lab) -> Iterator[Measured]:
    """Yield the cases, and what it takes to pin and copy small tensors, and a few large ones."""
    yield from lab.each(CASES, copies_of_a_dictionary(lab))
    small = lab.with_sizes(floats=min(lab.sizes["floats"], 1000))
    few = lab.with_sizes(tensors=min(lab.sizes["tensors"], FEW_TENSORS))
    for figures_of, chosen in ((SMALL, small), (FEW, few)):
        yield from lab.each(figures_of, copies_of_a_dictionary(chosen)[2:4])


def gains_less(main: Figure, threads: Figure) -> Predicate:
    """Return that threads gain less by pinning such tensors than by pinning many large ones."""
    return at_most(ratio(main, threads) / ratio(PIN_FIRST, IN_THREADS), 1)


THREADED_PINNING = Experiment(
    "E7",
    "threaded_pinning",
    "a dictionary of 1000 tensors of 4 MB: copied, pinned and copied, pinned by four threads and copied",
    (
        Claim(
            "To pin in other threads is faster than in the main one",
            "tutorial: considerations",
            all_of(less(IN_THREADS, PIN_FIRST), less(IN_THREADS, IN_TURN)),
        ),
        Claim(
            "It is faster than plain copies, non_blocking or not",
            "tutorial: considerations",
            all_of(less(IN_THREADS, NON_BLOCKING), less(IN_THREADS, BLOCKING)),
        ),
        Claim("Of small tensors, threads that pin gain less", "tutorial: considerations", gains_less(*SMALL)),
        Claim("Of few tensors, threads that pin gain less", "tutorial: considerations", gains_less(*FEW)),
    ),
    CASES,
    copies_of_a_dictionary,
    measure_pinning_threads,
    sizes=(
        Size("tensors", 1000, "how many tensors", quick=100),
        Size("floats", 1_000_000, "numbers of 4 bytes in each tensor"),
        Size("threads", 4, "threads that pin"),
    ),
    published={BLOCKING: 396.8, NON_BLOCKING: 317.4, PIN_FIRST: 320.5, IN_THREADS: 301.9},
    changed="the text has TensorDict do it; here a dictionary and a pool of threads do the same. To pin and copy in "
    "turn is ours. The text has no program for small tensors and few: here they are of 4 kB, and four",
    rounds=SOME_ROUNDS,
)
