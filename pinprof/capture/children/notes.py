"""The protocol of a script and its children: what a child is told, and the notes it leaves at its start and its end."""

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal

import msgspec

from pinprof.capture.bounds import RecordingOptions
from pinprof.capture.job import Rank, path_of_child, path_of_rank
from pinprof.capture.program import HOME


class ChildConfig(msgspec.Struct, frozen=True):
    """How to record a child; `path` is the trace of the script itself, which gives the children's their names.

    `options` are those of `profile()`. `notes` is the folder for what the children say of themselves. `inherited` is
    the rank that the environment of the starting process gives: a child with the same is a helper of that rank.
    """

    path: str
    step_marker: str
    keep_going: bool
    options: RecordingOptions
    notes: str
    inherited: Rank | None = None


@contextmanager
def importable() -> Iterator[None]:
    """Let the processes that the block starts import pinprof: they get this process's `sys.path`."""
    if HOME in sys.path:
        yield
        return
    sys.path.append(HOME)
    try:
        yield
    finally:
        with suppress(ValueError):  # the script has removed it
            sys.path.remove(HOME)


PREFIX = ".pinprof-"
"""How the names of hidden folders begin; the process that made one follows."""

FIRST_STEP_WITHIN_S = 60.0
"""How long a process may take to make its first step after the script has ended: it loads torch, model and data."""

LEFT_S = 86_400.0
"""How old a folder must be to count as left: its process may run in another container, where nobody here sees it."""

LOOK_S = 0.05
"""How often to look whether a child has ended."""

NOT_TOLD = "it ended before it had recorded a step"


@dataclass(frozen=True)
class ChildRun:
    """A process that made steps, and its recording; `path` is None without one, and `why` says why.

    `rank` and `world_size` are None outside of a job.
    """

    path: Path | None
    rank: int | None
    world_size: int | None
    marker: str
    stopped: bool
    why: str | None
    trains: bool = True
    """Whether its steps train; a loop that only draws batches or calls modules evaluates."""

    @property
    def name(self) -> str:
        """What to call it in a line."""
        return "A child" if self.rank is None else f"Rank {self.rank}"

    def place(self) -> tuple[bool, int, str]:
        """Return its place among others: the ranks in their order, then the others."""
        return self.rank is None, self.rank or 0, str(self.path)


@dataclass(frozen=True)
class Claim:
    """The trace that a process is going to write, as nobody else does; its file is made when the first step ends."""

    file: Path
    process: int
    path: str
    rank: int | None
    world_size: int | None


Held = Literal["recorded", "at work"]
"""Why a trace cannot be claimed: another process has ended its recording, or is at it."""


class Notes:
    """The folder of notes. The first child makes it, and the script's own process removes it.

    A child whose script is gone cannot note anything; nothing fails for that.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    @staticmethod
    def new_name() -> str:
        """Return the name for a folder that does not exist so far."""
        return str(Path(tempfile.gettempdir()) / f"{PREFIX}{os.getpid()}-{token_hex(8)}")

    def make(self) -> None:
        """Make the folder, unless it is there, and remove those of scripts that were killed."""
        with suppress(FileExistsError, OSError):
            self.folder.mkdir(mode=0o700)
            _remove_left_folders()

    def begin(self, process: int) -> None:
        """Note that a child runs."""
        with suppress(OSError):
            (self.folder / f"{process}.begun").touch()

    def claim(self, base: Path, rank: Rank | None) -> "Claim | Held":
        """Claim the trace of a rank, or the next number of a child, for this process."""
        if rank is not None:
            return self._claim(f"rank{rank.rank}", path_of_rank(base, rank.rank), rank)
        claims = (self._claim(f"child{number}", path_of_child(base, number), None) for number in count())
        return next(claim for claim in claims if isinstance(claim, Claim) or not self.folder.is_dir())

    def _claim(self, name: str, path: Path, rank: Rank | None) -> "Claim | Held":
        file = self.folder / f"{name}.claim"
        claim = Claim(file, os.getpid(), str(path), *(rank or (None, None)))
        with _gone(), suppress(FileExistsError):
            _link_whole(file, json.dumps(asdict(claim), default=str))
            return claim
        if not self.folder.is_dir():  # nobody is left who would report
            return "at work"
        holder = _read(file)
        if holder and _is_running(holder["process"]) and not self._has_ended(holder["process"]):
            return "at work"
        ended = self._end_of(holder["process"]) if holder else None
        if rank is None or (ended and ended["recorded"]) or not holder:
            return "recorded"
        with suppress(FileNotFoundError):  # it failed, and its launcher has started the rank again
            file.unlink()
        return self._claim(name, path, rank)

    def end(
        self,
        claim: Claim | None,
        *,
        recorded: bool,
        marker: str,
        stopped: bool,
        why: str | None,
        trains: bool = True,
    ) -> None:
        """Note how the recording of this process has ended; without a claim, that it made no step to record."""
        told = {"claim": claim and claim.file.name, "recorded": recorded, "marker": marker, "stopped": stopped}
        with _gone(), suppress(FileExistsError):  # where it left by os._exit at its end
            _link_whole(self.folder / f"{os.getpid()}.end", json.dumps(told | {"why": why, "trains": trains}))
        maker = _maker_of(self.folder)
        if maker and not _is_running(maker) and not self.running:
            self.remove()

    def remark(self, text: str) -> None:
        """Note a sentence for the user, once however many processes say it."""
        self.make()
        with suppress(OSError):
            (self.folder / f"{sha256(text.encode()).hexdigest()}.remark").write_text(text)

    def remarks(self) -> list[str]:
        """Return the sentences for the user."""
        return sorted(path.read_text() for path in self.folder.glob("*.remark"))

    @property
    def processes(self) -> list[int]:
        """The processes that were followed."""
        return [int(path.stem) for path in self.folder.glob("*.begun")]

    @property
    def running(self) -> list[int]:
        """Those of them that have not ended."""
        return [process for process in self.processes if not self._has_ended(process) and _is_running(process)]

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
        found = [self._child(claim) for claim in self._claims()]
        return tuple(sorted(found, key=ChildRun.place))

    def wait(self, seconds: float, first_step_s: float = FIRST_STEP_WITHIN_S) -> None:
        """Wait until no process that was followed runs, for so many seconds at most; less if none has made a step."""
        start = time.monotonic()
        while running := self.running:
            at_work = any(claim["process"] in running for claim in self._claims())
            if time.monotonic() - start >= (seconds if at_work else min(seconds, first_step_s)):
                break
            time.sleep(LOOK_S)

    def remove(self) -> None:
        """Remove the folder, and what children that were killed have left beside their traces."""
        for claim in self._claims():
            if not _is_running(claim["process"]):
                for left in Path(claim["path"]).parent.glob(f"{PREFIX}{claim['process']}-*"):
                    shutil.rmtree(left, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _claims(self) -> list[dict[str, Any]]:
        return [claim for file in sorted(self.folder.glob("*.claim")) if (claim := _read(file))]

    def _child(self, claim: dict[str, Any]) -> ChildRun:
        path, end = Path(claim["path"]), self._end_of(claim["process"])
        if end is None:  # it was killed; a trace that it has written is whole
            written = _is_newer(path, Path(claim["file"]))
            return ChildRun(path if written else None, claim["rank"], claim["world_size"], "", False, NOT_TOLD)
        recorded = path if end["recorded"] else None
        told = end["marker"], end["stopped"], end["why"], end["trains"]
        return ChildRun(recorded, claim["rank"], claim["world_size"], *told)

    def _has_ended(self, process: int) -> bool:
        return (self.folder / f"{process}.end").exists()

    def _end_of(self, process: int) -> dict[str, Any] | None:
        return _read(self.folder / f"{process}.end")


def _remove_left_folders() -> None:
    """Remove the notes of scripts that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        maker, age_s = _maker_of(folder), time.time() - folder.stat().st_mtime
        if maker and not _is_running(maker) and age_s > LEFT_S:
            shutil.rmtree(folder, ignore_errors=True)  # another user's stays


def _maker_of(folder: Path) -> int:
    """Return the process that named a folder; 0 if the name is another's."""
    process = folder.name.removeprefix(PREFIX).partition("-")[0]
    return int(process) if process.isdigit() else 0


def _link_whole(file: Path, text: str) -> None:
    """Write a file that others see whole or not at all. Raises FileExistsError if it exists."""
    temporary = file.with_name(f"{os.getpid()}-{token_hex(4)}.part")
    temporary.write_text(text)
    try:
        os.link(temporary, file)
    finally:
        temporary.unlink()


def _gone() -> suppress:
    """Ignore that the folder does not exist any more."""
    return suppress(FileNotFoundError)


def _read(file: Path) -> dict[str, Any] | None:
    with suppress(OSError, ValueError):
        content: dict[str, Any] = json.loads(file.read_text())
        return content
    return None


def _is_newer(path: Path, than: Path) -> bool:
    with suppress(OSError):
        return path.stat().st_mtime_ns >= than.stat().st_mtime_ns
    return False


def _is_running(process: int) -> bool:
    """Return whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
