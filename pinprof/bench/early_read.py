"""E5: what is copied with non_blocking=True is read at once, on the host or on the GPU."""

import time
from collections.abc import Iterator
from functools import partial
from itertools import count, cycle

from pinprof.bench.early_write import PINNED_SOURCE, wrong_values
from pinprof.bench.experiment import CaseRun, CaseRuns, Experiment, Lab, Size, Tensor
from pinprof.bench.judge import Claim, all_of, mostly, no, wrong
from pinprof.bench.results import Measured, figures

AT_ONCE, AFTER_WAIT, *SENT = CASES = figures(
    "E5",
    "wrong",
    "read at once; read after synchronize; pageable, sent and read on the GPU; pinned, sent and read on the GPU",
)
THREADS = figures("E5", "%", "CPU time of other threads, pageable; CPU time of other threads, pinned")
"""In percent of the copy's time."""


def sent_tensors(lab: Lab) -> list[list[Tensor]]:
    """Return two tensors to send, of ones and of twos, in each memory: a tenth of the one that is read back."""
    import torch

    shape = max(1, lab.sizes["rows"] // 10), lab.sizes["columns"]
    pageable = [torch.full(shape, float(number), dtype=torch.double) for number in (1, 2)]
    return [pageable, [lab.pinned(tensor) for tensor in pageable]]


def early_reads(lab: Lab) -> CaseRuns:
    """Return the tries; each says whether a value was wrong.

    Each has another number in the tensor, so that the memory of an earlier copy cannot hold the right one.
    """
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

    def sent(turns: Iterator[tuple[int, Tensor]]) -> bool:
        number, source = next(turns)
        return source.to(lab.device, non_blocking=True).mean().item() != number

    turns = [cycle(enumerate(tensors, start=1)) for tensors in sent_tensors(lab)]
    return partial(read_back, wait=False), partial(read_back, wait=True), *(partial(sent, of) for of in turns)


def measure_early_reads(lab: Lab) -> Iterator[Measured]:
    """Yield how often values are wrong, and how busy other threads are during a copy."""
    yield from wrong_values(lab, CASES, early_reads(lab))
    for figure, (source, _) in zip(THREADS, sent_tensors(lab), strict=True):
        copy = partial(source.to, lab.device, non_blocking=True)
        yield figure.of(lab.times(copy, partial(share_of_other_threads, lab)))


def share_of_other_threads(lab: Lab, run: CaseRun) -> float:
    """Return the CPU time of other threads, in percent of the time until a copy has ended."""
    clocks = time.perf_counter, time.process_time, time.thread_time
    lab.wait()
    start = [clock() for clock in clocks]
    run()
    lab.wait()
    elapsed, process, own = (clock() - before for clock, before in zip(clocks, start, strict=True))
    return 100 * max(0.0, process - own) / elapsed


EARLY_READ = Experiment(
    "E5",
    "early_read",
    "copied with non_blocking=True and read at once: on the host, there after a synchronize, and on the GPU",
    (
        Claim(
            'Values read right after to("cpu", non_blocking=True) are wrong, after a synchronize right',
            "tutorial: opening; tutorial: other directions",
            all_of(wrong(AT_ONCE), no(AFTER_WAIT)),
            shows="at the first of 100 tries",
        ),
        Claim('to("cuda", non_blocking=True).mean() is right', "tutorial: opening", no(*SENT)),
        Claim("When the call returns, the data may still be on the host", "answer: non_blocking", wrong(PINNED_SOURCE)),
        Claim(
            "A background thread moves the data",
            "answer: non_blocking",
            all_of(*map(mostly, THREADS)),
            "the GPU copies pinned memory by itself; pageable memory the calling thread stages",
        ),
    ),
    CASES,
    early_reads,
    measure_early_reads,
    sizes=(
        Size("rows", 100, "rows of the tensor"),
        Size("columns", 999_999, "numbers of 8 bytes in a row"),
        Size("tries", 100, "how often it is tried", quick=10),
    ),
    changed="each try has other numbers. What goes to the GPU is a tenth as large; how busy other threads "
    "are meanwhile, no text measures",
    rounds=1,
)
