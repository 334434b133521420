"""All seed experiments, in plain sight: what each does, what its text claims, and what was published of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pinprof.errors import PinprofError

TUTORIAL = "the PyTorch tutorial on pin_memory() and non_blocking"
ARTICLE = "an article on pinned memory in data loading"
QUESTION = "a question on prefetching"
PROCESSES = "an article that times pinned against pageable memory over several processes"

GIB = 1024**3
MIB = 1024**2


class UnknownExperimentError(PinprofError, ValueError):
    """No experiment has this name or number."""


@dataclass(frozen=True)
class Size:
    """One option of an experiment."""

    name: str
    default: int
    """What the text has."""
    means: str
    quick: int | None = None
    """What `--quick` takes, where the default takes too long."""


@dataclass(frozen=True)
class Published:
    """One figure that the text gives: its name and unit are those of `pinprof.bench.results.Figure`."""

    figure: str
    value: float


@dataclass(frozen=True)
class Experiment:
    """A question with its answer in a published text, to be asked again on this machine."""

    number: str
    """`E1` to `E14`."""
    name: str
    summary: str
    claim: str
    source: str
    """Which text claims it."""
    published: tuple[Published, ...] = ()
    said: str = ""
    """What the text shows where it is no figure."""
    sizes: tuple[Size, ...] = ()
    cases: tuple[str, ...] = ()
    """What can be recorded of it, each as a trace."""

    def defaults(self, *, quick: bool = False) -> dict[str, int]:
        """Return the sizes that it runs with if none is chosen."""
        return {size.name: size.quick if quick and size.quick is not None else size.default for size in self.sizes}


EXPERIMENTS = (
    Experiment(
        "E1",
        "pinning_cost",
        "one tensor of 4 MB: copied from pageable memory, from pinned memory, pinned, and pinned and copied",
        "a copy from pinned memory is faster; to pin a tensor just to copy it is slower than the plain copy",
        TUTORIAL,
        (
            Published("pageable.to", 0.369),
            Published("pinned.to", 0.315),
            Published("pageable.pin_memory()", 0.112),
            Published("pageable.pin_memory().to", 0.433),
        ),
        sizes=(Size("floats", 1_000_000, "numbers of 4 bytes in the tensor"),),
        cases=("pageable.to", "pinned.to", "pageable.pin_memory()", "pageable.pin_memory().to"),
    ),
    Experiment(
        "E2",
        "small_tensors",
        "1000 tensors of 4 kB, each waited for, or all and one synchronize",
        "non_blocking wins: one wait instead of one for each tensor",
        TUTORIAL,
        (
            Published("blocking", 16.35),
            Published("non_blocking, one synchronize", 12.05),
            Published("waits, blocking", 1000),
            Published("waits, non_blocking", 1),
        ),
        sizes=(
            Size("tensors", 1000, "how many tensors"),
            Size("floats", 1000, "numbers of 4 bytes in each tensor"),
        ),
        cases=("blocking", "non_blocking, one synchronize"),
    ),
    Experiment(
        "E3",
        "six_strategies",
        "1000 tensors of 4 MB: pageable, pinned, or pinned just before the copy; blocking or not",
        "to pin, copy and wait for each is worst; memory pinned beforehand and non_blocking is best",
        TUTORIAL,
        (
            Published("pageable, blocking", 394.3),
            Published("pageable, non_blocking", 316.2),
            Published("pinned, blocking", 315.1),
            Published("pinned, non_blocking", 300.0),
            Published("pin and copy, blocking", 573.3),
            Published("pin and copy, non_blocking", 324.2),
        ),
        sizes=(
            Size("tensors", 1000, "how many tensors", quick=200),
            Size("floats", 1_000_000, "numbers of 4 bytes in each tensor"),
        ),
        cases=(
            "pageable, blocking",
            "pageable, non_blocking",
            "pinned, blocking",
            "pinned, non_blocking",
            "pin and copy, blocking",
            "pin and copy, non_blocking",
        ),
    ),
    Experiment(
        "E4",
        "copy_overlap",
        "a copy of 20 MiB beside kernels: on their stream or a side stream, from pageable or pinned memory",
        "a copy hides behind kernels only from pinned memory and on a side stream: one case of four",
        TUTORIAL,
        said="of four traces, one shows the copy beside the kernels: side stream, pinned",
        sizes=(Size("floats", 5 * MIB, "numbers of 4 bytes in the copied tensor"),),
        cases=("default stream, pageable", "default stream, pinned", "side stream, pageable", "side stream, pinned"),
    ),
    Experiment(
        "E5",
        "early_read",
        "a result copied to the host with non_blocking=True, read at once or after a synchronize",
        "read at once, the result is wrong; after a synchronize it never is",
        TUTORIAL,
        said="wrong at the first try; never with a synchronize",
        sizes=(
            Size("rows", 100, "rows of the tensor"),
            Size("columns", 999_999, "numbers of 8 bytes in a row"),
            Size("tries", 100, "how often it is tried", quick=10),
        ),
        cases=("read at once", "read after synchronize"),
    ),
    Experiment(
        "E6",
        "early_write",
        "a source overwritten on the host right after its copy to the GPU was queued behind a kernel",
        "from pinned memory the GPU gets the new values; from pageable memory it never does",
        TUTORIAL,
        said="wrong within two tries from pinned memory; never from pageable memory",
        sizes=(
            Size("side", 1024, "rows and columns of the tensor, of 4 bytes each"),
            Size("tries", 100, "how often it is tried", quick=20),
        ),
        cases=("pinned source", "pageable source", "pinned source, written after synchronize"),
    ),
    Experiment(
        "E7",
        "threaded_pinning",
        "a dictionary of 1000 tensors of 4 MB: copied, pinned and copied, pinned by four threads and copied",
        "to pin in other threads is better than in the main one",
        TUTORIAL,
        (
            Published("blocking", 396.8),
            Published("non_blocking", 317.4),
            Published("pin then copy", 320.5),
            Published("pin in threads then copy", 301.9),
        ),
        sizes=(
            Size("tensors", 1000, "how many tensors", quick=200),
            Size("floats", 1_000_000, "numbers of 4 bytes in each tensor"),
            Size("threads", 4, "threads that pin"),
        ),
        cases=("blocking", "non_blocking", "pin then copy", "pin in threads then copy"),
    ),
    Experiment(
        "E8",
        "loader",
        "training on a DataLoader with and without pin_memory=True and non_blocking=True, and its rate alone",
        "pinned batches and non_blocking together let the host go on while the batch is copied",
        ARTICLE,
        sizes=(
            Size("rows", 2048, "samples in a batch"),
            Size("features", 3072, "numbers of 4 bytes in a sample"),
            Size("workers", 2, "worker processes of the training steps"),
        ),
        cases=("pageable, blocking", "pageable, non_blocking", "pinned, blocking", "pinned, non_blocking", "no copy"),
    ),
    Experiment(
        "E9",
        "custom_batch",
        "a batch of a class of one's own from DataLoader(pin_memory=True), with and without a pin_memory() method",
        "without the method the loader hands the batch back unpinned and says nothing",
        TUTORIAL,
        (Published("pinned, without pin_memory()", 0), Published("pinned, with pin_memory()", 1)),
        sizes=(Size("rows", 64, "samples in a batch"),),
        cases=("pinned, without pin_memory()", "pinned, with pin_memory()"),
    ),
    Experiment(
        "E10",
        "prefetching",
        "the plain loop with non_blocking=True against a prefetcher that copies the next batch on a side stream",
        "in the plain loop the GPU waits for the copy; only the prefetcher hides it",
        QUESTION,
        sizes=(
            Size("rows", 4096, "samples in a batch"),
            Size("features", 3072, "numbers of 4 bytes in a sample"),
        ),
        cases=("plain loop", "prefetcher", "no copy"),
    ),
    Experiment(
        "E11",
        "processes",
        "two processes that copy 40 MB each from pageable and from pinned memory: the first time and later",
        "that pinned memory is 80 times faster is the cost of first use; later the two are close",
        PROCESSES,
        (Published("pageable, first", 1054.0), Published("pinned, first", 12.9)),
        sizes=(
            Size("floats", 10_000_000, "numbers of 4 bytes that each process copies"),
            Size("processes", 2, "processes that copy at the same time"),
        ),
        cases=("pageable", "pinned"),
    ),
    Experiment(
        "E12",
        "pinned_in_object",
        "a pinned tensor in an object that is sent to another process, copied to the GPU there",
        "what arrives is no longer pinned, so the copy is no faster than from pageable memory",
        PROCESSES,
        (Published("pageable", 13.7), Published("pinned, sent to the child", 13.5)),
        sizes=(Size("floats", 10_000_000, "numbers of 4 bytes in the tensor"),),
        cases=("pageable", "pinned, sent to the child", "pinned in the child itself"),
    ),
    Experiment(
        "E13",
        "bandwidth",
        "copies of 4 KiB to 1 GiB in both directions, from and to pageable and pinned memory",
        "pinned memory reaches the rate of the link; pageable memory that of one thread that stages the copy",
        ARTICLE,
        (Published("HtoD pageable", 2.3), Published("HtoD pinned", 5.8)),
        said="the figures are those of an old laptop",
        sizes=(
            Size("least", 4096, "bytes of the smallest copy"),
            Size("most", GIB, "bytes of the largest copy; each is four times the one before", quick=64 * MIB),
        ),
        cases=("HtoD pageable", "HtoD pinned", "DtoH pageable", "DtoH pinned"),
    ),
    Experiment(
        "E14",
        "training_loop",
        "a training loop with asynchronous copies, a penalty over all parameters, and two .item() in every step",
        "the .item() calls wait for the GPU in every step and undo the asynchronous copies",
        ARTICLE,
        sizes=(
            Size("rows", 512, "samples in a batch"),
            Size("features", 3072, "numbers of 4 bytes in a sample"),
            Size("workers", 2, "worker processes of the loader"),
        ),
        cases=("as written", "without .item()"),
    ),
)


def experiment(name: str) -> Experiment:
    """Return the experiment of this name or number, in capitals or not. Raises UnknownExperimentError."""
    for known in EXPERIMENTS:
        if name.strip().lower() in (known.name, known.number.lower()):
            return known
    names = ", ".join(f"{known.number} {known.name}" for known in EXPERIMENTS)
    raise UnknownExperimentError(f"no experiment is named {name!r}; there are {names}")


def resized(known: Experiment, chosen: Mapping[str, int]) -> Experiment:
    """Return the experiment with the chosen sizes in place of its own, quick or not."""
    sizes = (
        replace(size, default=chosen[size.name], quick=None) if size.name in chosen else size for size in known.sizes
    )
    return replace(known, sizes=tuple(sizes))
