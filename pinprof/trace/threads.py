"""The names and roles of the host threads of a trace: main, autograd, pin_memory, other."""

import re
from typing import Final, TypeAlias

import numpy as np

from pinprof.trace.metadata.info import Thread
from pinprof.trace.reader.events import Number
from pinprof.trace.tables import NONE, Bools, Calls, HostEvents

ThreadKey: TypeAlias = tuple[Number, Number]  # process and thread id as the trace gives them
STEP_PREFIX = "ProfilerStep#"
STEP_MARK: Final = re.compile(rf"{STEP_PREFIX}(\d{{1,18}})")
"""torch's mark of a step; its number also counts steps that were not recorded."""
OPTIMIZER_MARK: Final = re.compile(r"Optimizer\.(?:step|zero_grad)#")
"""Begins torch's marks of the calls of an optimizer, such as `Optimizer.step#Adam.step`."""
LOADER_MARK: Final = re.compile(r"enumerate\((?:DataLoader|DataPipe)\)#")
"""Begins torch's marks of a batch that is taken from a loader."""
TORCH_MARK: Final = re.compile(
    rf"{STEP_PREFIX}\d|{LOADER_MARK.pattern}|{OPTIMIZER_MARK.pattern}|DistributedDataParallel\.forward$"
)
"""Begins the names of torch's own marks, which torch 1.8 to 1.10 record as ops."""
BACKWARD_OP: Final = re.compile(
    r"autograd::engine::|CompiledFunctionBackward|torch::autograd::(?:AccumulateGrad|Copy|GraphRoot)|\w+Backward\d*$"
)
"""Begins the names of the autograd engine's own ops, on whatever thread it runs; torch 1.8 names only their nodes."""
PIN_THREAD_NAME = "pt_data_pin"  # name that torch/utils/data/_utils/pin_memory.py gives its thread
PIN_OPS = frozenset({"aten::pin_memory", "aten::_pin_memory"})


def optimizer_marks(annotations: HostEvents, method: str) -> Bools:
    """Return for each annotation whether it marks this method of an optimizer, `step` or `zero_grad`."""
    return annotations.named(lambda name: name.startswith(f"Optimizer.{method}#"))


def name_threads(
    keys: tuple[ThreadKey, ...], labels: dict[ThreadKey, str], ops: HostEvents, annotations: HostEvents, calls: Calls
) -> tuple[Thread, ...]:
    """Return the threads with their names and roles, in the order of `keys`.

    The main thread is the one with most of the profiler's step marks. Ties are broken by the number of annotations
    (optimizers and DataLoaders make them), then by whether it is the process's first thread, then by the number of ops
    and calls: a backward pass often has more of these than the main thread.
    """
    count = len(keys)
    steps = _per_thread(annotations, annotations.named(lambda name: name.startswith(STEP_PREFIX)), count)
    activity = _per_thread(ops, None, count) + _per_thread(calls, None, count)
    own = np.array([pid == tid for pid, tid in keys], dtype=bool) & (activity > 0)
    main = int(np.lexsort((activity, own, _per_thread(annotations, None, count), steps))[-1]) if count else NONE
    backward = _per_thread(ops, ops.named(BACKWARD_OP.match), count)
    pinning = _per_thread(ops, ops.named(PIN_OPS.__contains__), count)
    roles = []
    for index, key in enumerate(keys):
        if index == main:
            role = "main"
        elif PIN_THREAD_NAME in labels.get(key, "") or (pinning[index] and not backward[index]):
            role = "pin_memory"
        else:
            role = "autograd" if backward[index] else "other"
        roles.append(role)
    return tuple(
        Thread(pid, tid, labels.get((pid, tid), f"thread {tid}"), role)
        for (pid, tid), role in zip(keys, roles, strict=True)
    )


def _per_thread(events: HostEvents, chosen: Bools | None, count: int) -> np.ndarray:
    return np.bincount(events.thread if chosen is None else events.thread[chosen], minlength=count)
