"""Samples the Python stack of a DataLoader's first worker, while it makes batches."""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial, wraps
from inspect import signature
from os import getpid
from pathlib import Path
from typing import Any, Final

import msgspec
from torch.utils.data._utils import fetch, worker

from pinprof.capture.observe.sampler import HostSampler
from pinprof.ground.host_time import HOST_TIME
from pinprof.ground.processes import temporary_folder
from pinprof.program.hooks import contained, replaced
from pinprof.trace.metadata.sampled_stacks import HostProfile, HostStack

WORKER_SAMPLE_INTERVAL_S: Final = 0.005
KEPT_AT_S: Final = (0.1, 0.3, 1.0)
"""A worker writes its samples after these times in batches: it may be killed at any time. The last ends sampling."""
FETCH_FILE: Final = "torch/utils/data/_utils/fetch.py"
"""The file whose functions call the dataset and the function that collates."""


class WorkerSamples:
    """The samples of DataLoader workers, which write them to files."""

    def __init__(self) -> None:
        self._folder: Path | None = None

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Sample the first worker of each DataLoader that the block starts."""
        with ExitStack() as undo:
            with suppress(OSError):  # without a folder for the files there are no samples
                self._folder = undo.enter_context(temporary_folder())
                undo.enter_context(replaced(worker, "_worker_loop", partial(_sampled, self._folder, getpid())))
            yield

    def longest(self) -> HostProfile | None:
        """Return the samples of the worker that was sampled for longest; its steps are batches."""
        profiles = []
        for path in self._folder.glob("*.json") if self._folder else ():
            with suppress(OSError, msgspec.MsgspecError):  # it is being written
                profiles.append(msgspec.json.decode(path.read_bytes(), type=HostProfile))
        return max(profiles, key=lambda profile: profile.window_ms, default=None)


def _sampled(folder: Path, parent: int, loop: Callable[..., Any]) -> Callable[..., Any]:
    position = list(signature(loop).parameters).index("worker_id")

    @wraps(loop)
    def sampled(*args: Any, **kwargs: Any) -> Any:
        with ExitStack() as undo:
            if len(args) > position and args[position] == 0 and getpid() != parent:
                contained(_begin)(folder / f"{getpid()}.json", undo)
            return loop(*args, **kwargs)

    return sampled


def _begin(path: Path, undo: ExitStack) -> None:
    handler = getattr(signal.getsignal(signal.SIGALRM), "__self__", None)
    if isinstance(handler, HostSampler):  # it samples the parent process
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    batches = _Batches(path)
    if batches.begin():
        undo.callback(contained(batches.end))
        for fetcher in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):  # noqa: SLF001  no public names
            undo.enter_context(replaced(fetcher, "fetch", batches.marked))


class _Batches:
    """Samples a worker: each batch is a step of the sampler, and so is the time between two batches."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sampler = HostSampler(WORKER_SAMPLE_INTERVAL_S)
        self._count = 0
        self._busy_s = 0.0
        self._remaining_s = list(KEPT_AT_S)

    def begin(self) -> bool:
        self._sampler.start()
        return self._sampler.why_not is None

    def marked(self, fetched: Callable[..., Any]) -> Callable[..., Any]:
        """Return a fetcher's method, which marks its begin and its end."""
        step = contained(self._sampler.step)  # it may start a thread, which can fail

        @wraps(fetched)
        def fetch_and_mark(*args: Any) -> Any:
            if not self._remaining_s:
                return fetched(*args)
            step()
            began = HOST_TIME.perf_counter()
            try:
                return fetched(*args)
            finally:
                self._count += 1
                self._busy_s += HOST_TIME.perf_counter() - began
                step()
                contained(self._keep)()

        return fetch_and_mark

    def end(self) -> None:
        """Write the samples taken so far, and end the sampling."""
        if self._remaining_s:
            self._remaining_s.clear()
            self._write()

    def _keep(self) -> None:
        due = [time_s for time_s in self._remaining_s if self._busy_s >= time_s]
        if due:
            self._remaining_s = self._remaining_s[len(due) :]
            self._write()

    def _write(self) -> None:
        if not self._remaining_s:
            self._sampler.stop()
        first = 1 if self._count > 1 else 0  # the first batch opens files and imports
        batches = range(2 * first + 1, 2 * self._count, 2)
        profile = _from_fetch_on(self._sampler.profile(batches))
        if profile.samples:
            part = self._path.with_suffix(".part")
            with suppress(OSError):  # the recording has ended and removed the folder
                part.write_bytes(msgspec.json.encode(profile))
                part.replace(self._path)


def _from_fetch_on(profile: HostProfile) -> HostProfile:
    stacks = []
    for stack in profile.stacks:
        fetching = [depth for depth, index in enumerate(stack.frames) if profile.frames[index].is_of(FETCH_FILE)]
        if fetching:
            stacks.append(HostStack(stack.frames[fetching[-1] + 1 :] or stack.frames[-1:], stack.count))
    return msgspec.structs.replace(
        profile, stacks=tuple(stacks), samples=sum(stack.count for stack in stacks), folded=0
    )
