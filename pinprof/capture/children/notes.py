"""The protocol between a script and its children: a child gets a config, and writes notes at its start and its end."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from os import getpid
from pathlib import Path
from secrets import token_hex
from typing import Literal, TypeVar

import msgspec

from pinprof.capture.job import Rank, path_of_child, path_of_rank
from pinprof.capture.options import RecordingOptions
from pinprof.ground.errors import CaptureError
from pinprof.ground.host_time import HOST_TIME
from pinprof.ground.processes import temporary_folder
from pinprof.program.hooks import faults
from pinprof.program.user_program import IMPORT_FOLDER

Noted = TypeVar("Noted")


class ChildConfig(msgspec.Struct, frozen=True):
    """How to record a child."""

    path: str  # the trace of the script itself, from which those of children have their names
    step_marker: str
    keep_going: bool
    options: RecordingOptions
    notes: str  # the folder into which the children write
    inherited: Rank | None = None  # the rank of the starting process: a child with the same one only helps it


class ChildStart(msgspec.Struct, frozen=True):
    """The note of a process whose first step has ended: the path of the trace that it will write."""

    process: int
    path: str
    rank: Rank | None


class ChildEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The note of a process at its end. The defaults say that it made no step; `why` says why nothing was recorded."""

    recorded: bool = False
    marker: str = ""
    stopped: bool = False
    why: str | None = None
    trains: bool = True  # whether its steps train; a loop that only draws batches or calls modules evaluates


ENDED_EARLY = "it ended before it had recorded a step"


@dataclass(frozen=True)
class ChildRun:
    """A process that made steps, and its recording; `path` is None without one, the rank outside of a job."""

    path: Path | None
    rank: int | None
    world_size: int | None
    marker: str
    stopped: bool
    why: str | None
    trains: bool = True

    @property
    def name(self) -> str:
        """Its name at the start of a sentence."""
        return "A child" if self.rank is None else f"Rank {self.rank}"

    def place(self) -> tuple[bool, int, str]:
        """Return the key by which runs are sorted: the ranks in their order, then the others."""
        return self.rank is None, self.rank or 0, str(self.path)


HIDDEN_FOLDER_PREFIX = ".pinprof-"
"""How the names of hidden folders beside traces begin; the number of the process that made the folder follows."""
FIRST_STEP_WITHIN_S = 60.0
"""How long a process may take to make its first step after the script has ended: it loads torch, model and data."""
CHILD_POLL_S = 0.05  # how often to look whether a child has ended
ANNOUNCE_WAIT_AFTER_S = 5.0  # a longer wait is announced on standard error


@contextmanager
def notes_folder() -> Iterator[Path]:
    """Give the block a folder for notes. Raises CaptureError if none can be made."""
    with ExitStack() as undo:
        try:
            folder = undo.enter_context(temporary_folder())
        except OSError as error:
            raise CaptureError(f"no temporary folder can be made ({error.strerror}); set TMPDIR") from error
        yield folder


class Notes:
    """The notes in a folder that the script's own process makes; once it is gone, they are dropped without an error."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def follow(self, process: int) -> None:
        """Note that a process is followed; called in its parent."""
        with suppress(OSError):
            (self.folder / f"{process}.followed").touch()

    def start(self, base: Path, rank: Rank | None) -> ChildStart | Literal["recorded", "at work"]:
        """Claim the trace of a rank, or of the next child, unless another process has recorded it, or is at work."""
        if rank is not None:
            return self._start(f"rank{rank.rank}", path_of_rank(base, rank.rank), rank)
        starts = (self._start(f"child{number}", path_of_child(base, number), None) for number in count())
        return next(start for start in starts if isinstance(start, ChildStart) or not self.folder.is_dir())

    def _start(self, name: str, path: Path, rank: Rank | None) -> ChildStart | Literal["recorded", "at work"]:
        file, start = self.folder / f"{name}.start", ChildStart(getpid(), str(path), rank)
        with suppress(FileNotFoundError, FileExistsError):
            _write(file, start)
            return start
        holder = _read(file, ChildStart)
        end = self._end_of(holder.process) if holder else None
        if not self.folder.is_dir() or (holder and end is None and _is_running(holder.process)):
            return "at work"  # or the script is gone, and nobody would report
        if rank is None or holder is None or (end and end.recorded):
            return "recorded"
        file.unlink(missing_ok=True)  # it failed, and its launcher has started the rank again
        return self._start(name, path, rank)

    def end(self, end: ChildEnd) -> None:
        """Note how this process has ended."""
        with suppress(FileNotFoundError, FileExistsError):  # the latter if it leaves by os._exit after its end
            _write(self.folder / f"{getpid()}.end", end)

    def remark(self, text: str) -> None:
        """Note a sentence for the user; several processes may note the same one."""
        with suppress(OSError):
            (self.folder / f"{sha256(text.encode()).hexdigest()}.remark").write_text(text)

    def remarks(self) -> list[str]:
        """Return the sentences for the user."""
        return sorted(path.read_text() for path in self.folder.glob("*.remark"))

    @property
    def processes(self) -> list[int]:
        """The processes that were followed."""
        return [int(path.stem) for path in self.folder.glob("*.followed")]

    @property
    def running(self) -> list[int]:
        """The followed processes that have not ended."""
        return [process for process in self.processes if not self._end_of(process) and _is_running(process)]

    @property
    def are_stopped(self) -> bool:
        """Whether pinprof has stopped a process, and none runs any more."""
        return not self.running and any(child.stopped for child in self.children())

    @property
    def have_trained(self) -> bool:
        """Whether the training of a process was recorded."""
        return any(child.path and child.trains for child in self.children())

    def children(self) -> tuple[ChildRun, ...]:
        """Return the processes that made steps: the ranks in their order, then the others."""
        return tuple(sorted((self._child(*item) for item in self._starts().items()), key=ChildRun.place))

    def wait(self, seconds: float, first_step_s: float = FIRST_STEP_WITHIN_S) -> None:
        """Wait until no followed process runs, for `seconds` at most, or `first_step_s` if none has made a step."""
        begin = HOST_TIME.monotonic()
        while running := self.running:
            at_work = any(start.process in running for start in self._starts().values())
            waited_s, most_s = HOST_TIME.monotonic() - begin, seconds if at_work else min(seconds, first_step_s)
            if waited_s >= most_s:
                break
            if waited_s >= ANNOUNCE_WAIT_AFTER_S:
                faults.say(f"pinprof waits for processes that the script has started, for {most_s:.0f} s at most")
            HOST_TIME.sleep(CHILD_POLL_S)

    def remove(self) -> None:
        """Remove the folder, and the hidden folders of killed children next to their traces."""
        for start in self._starts().values():
            if not _is_running(start.process):
                for folder in Path(start.path).parent.glob(f"{HIDDEN_FOLDER_PREFIX}{start.process}-*"):
                    shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _starts(self) -> dict[Path, ChildStart]:
        files = sorted(self.folder.glob("*.start"))
        return {file: start for file in files if (start := _read(file, ChildStart))}

    def _child(self, file: Path, start: ChildStart) -> ChildRun:
        path, end = Path(start.path), self._end_of(start.process)
        rank, world_size = start.rank or (None, None)
        if end is None:  # it was killed; a trace that it has written is whole
            written = None
            with suppress(OSError):
                written = path if path.stat().st_mtime_ns >= file.stat().st_mtime_ns else None
            return ChildRun(written, rank, world_size, "", stopped=False, why=ENDED_EARLY)
        recorded = path if end.recorded else None
        return ChildRun(recorded, rank, world_size, end.marker, end.stopped, end.why, end.trains)

    def _end_of(self, process: int) -> ChildEnd | None:
        return _read(self.folder / f"{process}.end", ChildEnd)


def _write(file: Path, document: ChildStart | ChildEnd) -> None:
    """Write a note, so that others see it whole or not at all. Raises FileExistsError if the file exists."""
    temporary = file.with_name(f"{getpid()}-{token_hex(4)}.part")
    temporary.write_bytes(msgspec.json.encode(document))
    try:
        os.link(temporary, file)
    finally:
        temporary.unlink()


def _read(file: Path, kind: type[Noted]) -> Noted | None:
    with suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(file.read_bytes(), type=kind)
    return None


def _is_running(process: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


@contextmanager
def importable() -> Iterator[None]:
    """Let the processes that the block starts import pinprof: they get this process's `sys.path`."""
    if IMPORT_FOLDER in sys.path:
        yield
        return
    sys.path.append(IMPORT_FOLDER)
    try:
        yield
    finally:
        with suppress(ValueError):  # the script has removed it
            sys.path.remove(IMPORT_FOLDER)
