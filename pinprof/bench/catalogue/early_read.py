"""E5: a copy with non_blocking=True is read at once, on the host or on the GPU."""

from collections.abc import Iterator
from functools import partial
from itertools import count, cycle

from pinprof.bench.catalogue.bandwidth import CPU_PERCENT
from pinprof.bench.catalogue.early_write import PINNED_SOURCE, wrong_values
from pinprof.bench.experiment import CaseRuns, Experiment, Lab, Size, Tensor
from pinprof.bench.judge import PINNED_RATE, Claim, all_of, mostly, no, wrong
from pinprof.bench.results import AT_LARGEST, figures

AT_ONCE, AFTER_WAIT, *SENT = CASES = figures(
    "E5",
    "wrong",
    "read at once; read after synchronize; pageable, sent and read on the GPU; pinned, sent and read on the GPU",
)


def early_reads(lab: Lab) -> CaseRuns:
    """Return the tries. Each copies a new number: memory left over from an earlier try must not pass as right."""
    import torch

    tensor = torch.empty(lab.sizes["rows"], lab.sizes["columns"], dtype=torch.double, device=lab.device)
    numbers = count(1)

    def read_back(*, wait: bool) -> bool:
        number = next(numbers)
        tensor.fill_(number)
        lab.wait()
        copied = tensor.to("cpu", non_blocking=True)
        if wait:
            lab.wait()
        is_wrong = copied.mean().item() != number
        lab.wait()
        return is_wrong

    def gpu_read(sources: Iterator[tuple[int, Tensor]]) -> bool:
        number, source = next(sources)
        return source.to(lab.device, non_blocking=True).mean().item() != number

    shape = max(1, lab.sizes["rows"] // 10), lab.sizes["columns"]  # a tenth of what is read back
    pageable = [torch.full(shape, float(number), dtype=torch.double) for number in (1, 2)]
    turns = [cycle(enumerate(tensors, start=1)) for tensors in (pageable, [*map(lab.pinned, pageable)])]
    return partial(read_back, wait=False), partial(read_back, wait=True), *(partial(gpu_read, turn) for turn in turns)


EARLY_READ = Experiment(
    "E5",
    "early_read",
    "a copy with non_blocking=True is read at once: on the host, there after a synchronize, and on the GPU",
    (
        Claim(
            'Values read right after to("cpu", non_blocking=True) are wrong; after a synchronize they are right',
            "tutorial: opening; tutorial: other directions",
            all_of(wrong(AT_ONCE), no(AFTER_WAIT)),
            shows="at the first of 100 tries",
        ),
        Claim('to("cuda", non_blocking=True).mean() is right', "tutorial: opening", no(*SENT)),
        Claim("When the call returns, the data may still be on the host", "answer: non_blocking", wrong(PINNED_SOURCE)),
        Claim(
            "A background thread moves the data",
            "answer: non_blocking",
            mostly(CPU_PERCENT[PINNED_RATE["HtoD"]].at(AT_LARGEST)),
            "the GPU copies pinned memory by itself, with no thread busy; the calling thread stages pageable memory",
        ),
    ),
    CASES,
    early_reads,
    lambda lab: wrong_values(lab, CASES, early_reads(lab)),
    sizes=(
        Size("rows", 100, "rows of the tensor"),
        Size("columns", 999_999, "numbers of 8 bytes in a row"),
        Size("tries", 100, "tries of each case", quick=10),
    ),
    changed="each try has other numbers. The tensor that goes to the GPU is a tenth as large",
    rounds=1,
)
