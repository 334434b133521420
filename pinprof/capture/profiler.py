"""torch's profiler, set up to record some steps, and its trace on disk."""

import shutil
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity

from pinprof.capture.packed import is_packed, trace_file
from pinprof.capture.plain import Progress, uses_cuda
from pinprof.errors import CaptureError
from pinprof.outputs import unfinished

COPIED_BYTES = 1 << 20
WARM_UP_STEPS = 2  # the first steps under a profiler pay for its start


def torch_profiler(
    steps: int,
    *,
    with_stack: bool = False,
    record_shapes: bool = False,
    profile_memory: bool = False,
    cuda_sync_events: bool = True,
) -> torch.profiler.profile:
    """Return torch's profiler for `steps` steps after its warm-up, which it names ProfilerStep#N.

    With 0 steps it records from its start until it is stopped.
    """
    activities = [ProfilerActivity.CPU]
    if uses_cuda():
        activities.append(ProfilerActivity.CUDA)
    return _OneCycle(
        activities=activities,
        schedule=torch.profiler.schedule(wait=0, warmup=WARM_UP_STEPS, active=steps, repeat=1) if steps else None,
        with_stack=with_stack,
        record_shapes=record_shapes,
        profile_memory=profile_memory,
        experimental_config=_sync_events_config() if cuda_sync_events else None,
    )


class _OneCycle(torch.profiler.profile):
    """Records one cycle of steps, and says nothing of events of earlier ones.

    torch up to 2.11 warns that it forgets them, unless it is asked to keep them; then it parses all events at once, for
    half a minute in a trace of 200,000.
    """

    def prepare_trace(self) -> None:
        with _without_warning():
            super().prepare_trace()

    def start_trace(self) -> None:
        with _without_warning():
            super().start_trace()


@contextmanager
def _without_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning: Profiler clears events")
        yield


def _sync_events_config() -> torch._C._profiler._ExperimentalConfig | None:
    """Return the setting that records `cuda_sync` events; None if this torch does not have it."""
    try:
        return torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)  # noqa: SLF001  no public name
    except (AttributeError, TypeError):
        return None


def warm_up_profiler(profiler: torch.profiler.profile) -> Generator[Progress, None, None]:
    """Wait at every step boundary until the profiler begins to record."""
    for step in range(1, WARM_UP_STEPS + 1):
        yield Progress("profiler warm-up", step, WARM_UP_STEPS)
        profiler.step()


def write_trace(profiler: torch.profiler.profile, path: Path) -> None:
    """Write the recorded trace to `path`, whole or not at all; compress it if the name ends in .gz."""
    with unfinished(path) as temporary:
        if not is_packed(path):
            _export(profiler, temporary)
            return
        plain = temporary.with_suffix("")
        _export(profiler, plain)
        with plain.open("rb") as exported, trace_file(temporary, "wb") as packed:
            shutil.copyfileobj(exported, packed, COPIED_BYTES)


def _export(profiler: torch.profiler.profile, path: Path) -> None:
    """Export the trace. Raises OSError if torch wrote none, of which it tells only its log."""
    profiler.export_chrome_trace(str(path))
    if not path.is_file():
        raise OSError("torch could not write its trace; is the disk full, or are files limited in size (ulimit -f)?")


@contextmanager
def as_capture_error(what: str) -> Iterator[None]:
    """Turn an error of torch or of the file system into CaptureError, in one line."""
    try:
        yield
    except (RuntimeError, OSError) as exc:
        text = str(exc).strip() or repr(exc)
        raise CaptureError(f"{what}: {text.splitlines()[0]}") from exc
