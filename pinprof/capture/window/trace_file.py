"""torch's profiler, and the file of a recording: writing it, and storing pinprof's own sections in it."""

import os
import shutil
import warnings
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from io import BufferedReader, BufferedWriter, FileIO
from multiprocessing import current_process, parent_process
from pathlib import Path
from typing import BinaryIO, Literal, cast

import msgspec
import torch
from torch.profiler import ProfilerActivity

from pinprof.capture.job import rank_of_process
from pinprof.capture.options import WARM_UP_STEPS, Progress, RecordingOptions
from pinprof.capture.window.timing import PlainWindow
from pinprof.ground.errors import CaptureError
from pinprof.ground.outputs import is_own, unfinished
from pinprof.ground.processes import OWN_PROCESS_NAME
from pinprof.program.machine import host_memory, uses_cuda
from pinprof.version import VERSION

COPIED_BYTES = 1 << 20
QUIET_KINETO = "KINETO_LOG_LEVEL", "6"
"""Keeps Kineto's log off standard error: torch 2.13 writes two lines for each recording, at a level above errors."""


def torch_profiler(options: RecordingOptions, steps: int) -> torch.profiler.profile:
    """Return torch's profiler for `steps` steps after its warm-up; with 0 it records until it is stopped."""
    config = torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)  # noqa: SLF001  no public name
    return _OneCycle(
        activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if uses_cuda() else [])],
        schedule=torch.profiler.schedule(wait=0, warmup=WARM_UP_STEPS, active=steps, repeat=1) if steps else None,
        with_stack=options.with_stack,
        record_shapes=options.record_shapes,
        profile_memory=options.profile_memory,
        experimental_config=config,
    )


class _OneCycle(torch.profiler.profile):
    """Records one cycle without torch's warning that it forgets earlier ones: to keep them takes half a minute."""

    def prepare_trace(self) -> None:
        with _silence():
            super().prepare_trace()

    def start_trace(self) -> None:
        with _silence():
            super().start_trace()


@contextmanager
def _silence() -> Iterator[None]:
    """Keep torch's warning off, and Kineto's log, whose level programs that this one starts later do not get."""
    name, level = QUIET_KINETO
    is_new = name not in os.environ
    os.environ.setdefault(name, level)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Warning: Profiler clears events")
            yield
    finally:
        if is_new:
            os.environ.pop(name, None)


def warm_up_profiler(profiler: torch.profiler.profile) -> Generator[Progress, None, None]:
    """Wait at every step boundary until the profiler begins to record."""
    for step in range(1, WARM_UP_STEPS + 1):
        yield Progress("profiler warm-up", step, WARM_UP_STEPS)
        profiler.step()


def write_trace(profiler: torch.profiler.profile, path: Path) -> None:
    """Write the recorded trace to `path`, whole or not at all; compress it if the name ends in .gz."""
    with unfinished(path) as temporary:
        plain = temporary.with_suffix("") if is_packed(path) else temporary
        profiler.export_chrome_trace(str(plain))
        if not plain.is_file():  # torch only logs that
            raise OSError("torch could not write its trace; the disk may be full, or files limited in size (ulimit -f)")
        if plain != temporary:
            with FileIO(plain) as exported, trace_file(temporary, "wb") as packed:
                shutil.copyfileobj(exported, packed, COPIED_BYTES)


@contextmanager
def as_capture_error(what: str) -> Iterator[None]:
    """Turn an error of torch or of the file system into CaptureError, in one line."""
    try:
        yield
    except (RuntimeError, OSError) as exc:
        text = str(exc).strip() or repr(exc)
        raise CaptureError(f"{what}: {text.splitlines()[0]}") from exc


TRACE_GZIP_LEVEL = 2
"""Of isal's levels 0 to 3: as fast as level 1; level 3 takes four times as long for 5 % fewer bytes."""


def is_packed(path: Path) -> bool:
    """Return whether the name says that the file is packed."""
    return path.name.endswith(".gz")


@contextmanager
def trace_file(path: Path, mode: Literal["rb", "wb"]) -> Iterator[BinaryIO]:
    """Open a file, packed if its name says so, without `open`: the program may have replaced that. Raises OSError."""
    from isal import igzip  # noqa: PLC0415  only where a trace is written

    with FileIO(path, mode) as raw, BufferedReader(raw) if mode == "rb" else BufferedWriter(raw) as plain:
        if not is_packed(path):
            yield cast("BinaryIO", plain)
            return
        with igzip.open(plain, mode, compresslevel=TRACE_GZIP_LEVEL) as packed:
            yield cast("BinaryIO", packed)


SECTIONS_PREFIX = b'{"pinprof_'  # the first line of a trace file in which something is stored begins like this


def store(path: Path, sections: Mapping[str, object]) -> None:
    """Store sections in a trace file; a section of the same name is replaced. Their names begin with `pinprof_`."""
    with unfinished(path) as temporary:
        with trace_file(path, "rb") as recorded:
            text = recorded.read().lstrip()
        stored: dict[str, object] = {}
        if text.startswith(SECTIONS_PREFIX):
            first, _, text = text.partition(b",\n")
            stored = msgspec.json.decode(first + b"}")
        line = msgspec.json.encode(stored | dict(sections)).removesuffix(b"}")
        with trace_file(temporary, "wb") as written:
            written.write(line + b",\n" + text.removeprefix(b"{"))


def sections_of(path: Path) -> dict[str, object]:
    """Return the sections that `store` has stored in a trace file."""
    with trace_file(path, "rb") as recorded:
        first = recorded.readline()
    return msgspec.json.decode(first.rstrip().removesuffix(b",") + b"}") if first.startswith(SECTIONS_PREFIX) else {}


TRACE_SUFFIXES = (".json", ".json.gz")


def writable_target(path: Path, options: RecordingOptions) -> Path:
    """Return the path, absolute as the program may change its folder. Raises CaptureError if it is not writable."""
    if not path.name.endswith(TRACE_SUFFIXES):
        raise CaptureError(f"{path}: a trace's name must end in {' or '.join(TRACE_SUFFIXES)}")
    if not path.absolute().parent.is_dir():
        raise CaptureError(f"{path}: there is no folder {path.parent}; make it first")
    if path.exists() and not path.is_file():
        raise CaptureError(f"{path}: not a regular file, and pinprof reads the trace again; name another")
    if path.exists() and not (options.force or (options.replaces_own and is_own(path))):
        raise CaptureError(f"{path}: exists already; choose another name or overwrite it with force=True")
    return path.absolute()


def description(plain: PlainWindow | None, marker: str) -> dict[str, object]:
    """Return the facts that pinprof stores; tensors sent to a `spawned` process lie in shared memory."""
    rank = rank_of_process()
    return {
        "pinprof_version": VERSION,
        "torch_version": str(torch.__version__),
        "cuda_version": torch.version.cuda,
        "gpu": torch.cuda.get_device_name() if uses_cuda() else None,
        "marker": marker,
        "plain": asdict(plain) if plain else None,
        "host_memory": msgspec.to_builtins(host_memory()),
        "spawned": parent_process() is not None and current_process().name != OWN_PROCESS_NAME,
        **(rank._asdict() if rank else {}),
    }
