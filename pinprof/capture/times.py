"""Writes what a run without a profiler is for: the times of its steps, and which files of the user's it imported."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch

from pinprof.capture.frames import INSTALLED
from pinprof.capture.orders import HOME
from pinprof.capture.packed import trace_file
from pinprof.capture.plain import uses_cuda
from pinprof.capture.profiler import as_capture_error
from pinprof.capture.workers import own_workers

IMPORTED_KEY = "imported"
"""Key of the imported files, as a sorted list."""
DELAYS_KEY = "delays_ns"
"""Key of the time in each timed step in which the CPU was with others; empty where it was not noted."""
CHILDREN_KEY = "children"
"""Key of the number of processes that the program had started and that ran: workers of a DataLoader, for one."""
GPU_MEMORY_KEY = "gpu_memory"
"""Key of the share of the GPU's memory that the program has taken; None without a GPU."""
GPU_FREE_KEY = "gpu_free"
"""Key of the share that no process has taken at the end."""


def write_times(path: Path, description: Mapping[str, object], delays_ns: Sequence[int]) -> None:
    """Write a file like that of a trace, without events; the log of the run is stored in it later."""
    with as_capture_error("the times could not be written"):
        text = json.dumps({"pinprof": description, DELAYS_KEY: list(delays_ns), **_situation()})
        with trace_file(path, "wb") as file:
            file.write(text.encode())


def _situation() -> dict[str, object]:
    return {
        IMPORTED_KEY: sorted(set(_imported())),
        CHILDREN_KEY: len(own_workers()),
        GPU_MEMORY_KEY: _gpu_memory() if uses_cuda() else None,
        GPU_FREE_KEY: _gpu_free() if uses_cuda() else None,
    }


def _gpu_memory() -> float:
    return torch.cuda.max_memory_reserved() / torch.cuda.get_device_properties().total_memory


def _gpu_free() -> float:
    free, total = torch.cuda.mem_get_info()
    return free / total


def _imported() -> Iterator[str]:
    """Yield the files of modules that are neither installed nor pinprof's."""
    own = str(Path(HOME) / "pinprof")
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and Path(file).is_absolute() and not file.startswith((*INSTALLED, own)):
            yield file
