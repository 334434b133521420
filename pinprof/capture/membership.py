"""Makes the script's own process a rank where only its process group says so: it may have started the other ranks."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pinprof.capture.agreement import Agreement, store_of_group
from pinprof.capture.job import Rank, path_of_rank, rank_in_group
from pinprof.capture.profiling import Recording
from pinprof.capture.trace_file import writable_target


@dataclass
class Membership:
    """The rank of a recording that began without one; `rank` and `agreement` are None as long as it has none.

    `count` returns how many steps the program has made.
    """

    recording: Recording
    count: Callable[[], int]
    force: bool
    rank: Rank | None = None
    agreement: Agreement | None = None

    def join(self) -> Agreement | None:
        """Join the other ranks of the process group, if it has several, and give the trace the name of this rank."""
        rank = rank_in_group()
        if rank is None or rank.world_size == 1:
            return None
        self.rank, self.agreement = rank, Agreement(rank, store_of_group)
        self.recording.join(self.agreement, self.count)
        self.recording.path = path_of_rank(self.recording.path, rank.rank)
        return self.agreement

    def check(self) -> None:
        """Raise CaptureError if the trace cannot be written under its new name."""
        if self.rank is not None:
            writable_target(self.recording.path, force=self.force)

    def leave(self) -> None:
        """Tell the other ranks where this one has written its trace."""
        if self.agreement is not None:
            self.agreement.leave(self.path)

    @property
    def path(self) -> Path | None:
        """The trace, if one was written."""
        return self.recording.path if self.recording.recorded_steps else None
