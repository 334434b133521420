"""E7: a dictionary of tensors, pinned by the main thread or by others before it is copied."""

from concurrent.futures import ThreadPoolExecutor
from operator import methodcaller

from pinprof.bench.experiment import SOME_ROUNDS, CaseRuns, Experiment, Lab, Size
from pinprof.bench.judge import Claim, all_of, less
from pinprof.bench.results import figures

BLOCKING, NON_BLOCKING, PIN_FIRST, IN_THREADS, IN_TURN = CASES = figures(
    "E7", "ms", "blocking; non_blocking; pin then copy; pin in threads then copy; pin and copy in turn"
)


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
    ),
    CASES,
    copies_of_a_dictionary,
    lambda lab: lab.each(CASES, copies_of_a_dictionary(lab)),
    sizes=(
        Size("tensors", 1000, "how many tensors", quick=100),
        Size("floats", 1_000_000, "numbers of 4 bytes in each tensor"),
        Size("threads", 4, "threads that pin"),
    ),
    published={BLOCKING: 396.8, NON_BLOCKING: 317.4, PIN_FIRST: 320.5, IN_THREADS: 301.9},
    changed="the text has TensorDict do it; here a dictionary and a pool of threads do the same. To pin and copy in "
    "turn is ours",
    rounds=SOME_ROUNDS,
)
