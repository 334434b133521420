"""The file of a recording: whether it can be written, and what pinprof stores in it."""

from dataclasses import asdict
from multiprocessing import current_process, parent_process
from pathlib import Path

import torch

from pinprof.capture.job import rank_of_process
from pinprof.capture.memory import host_memory
from pinprof.capture.plain import PlainWindow, uses_cuda
from pinprof.errors import CaptureError
from pinprof.processes import OWN
from pinprof.version import VERSION

SUFFIXES = (".json", ".json.gz")


def writable_target(path: Path, *, force: bool) -> Path:
    """Return the absolute `path` if a trace can be written there. Raises CaptureError otherwise.

    It is absolute because the program may change its working directory before pinprof writes the file.
    """
    if not path.name.endswith(SUFFIXES):
        raise CaptureError(f"{path}: a trace's name must end in {' or '.join(SUFFIXES)}")
    if not path.absolute().parent.is_dir():
        raise CaptureError(f"{path}: there is no folder {path.parent}; make it first")
    if path.exists() and not path.is_file():
        raise CaptureError(f"{path}: not a regular file, and pinprof reads the trace again; name another")
    if path.exists() and not force:
        raise CaptureError(f"{path}: exists already; choose another name or overwrite it with force=True")
    return path.absolute()


def was_spawned() -> bool:
    """Return whether multiprocessing started this process for the program: what it was sent lies in shared memory."""
    return parent_process() is not None and current_process().name != OWN


def description(plain: PlainWindow | None, marker: str) -> dict[str, object]:
    """Return what pinprof stores in the trace.

    These are versions, GPU, rank, the marker of steps, the step without the profiler, the memory pinned now, and
    whether multiprocessing started the process.
    """
    rank, memory = rank_of_process(), host_memory()
    return {
        "pinprof_version": VERSION,
        "torch_version": torch.__version__,
        "cuda_version": torch.version.cuda,
        "gpu": torch.cuda.get_device_name() if uses_cuda() else None,
        "marker": marker,
        "plain": asdict(plain) if plain else None,
        "host_memory": asdict(memory) if memory else None,
        "spawned": was_spawned(),
        **(rank._asdict() if rank else {}),
    }
