"""The sums that a profile is made of, each with its parts that may be withheld."""

from dataclasses import dataclass

from pinprof.analyses.copies import Copied, Hidden
from pinprof.analyses.idle import DeviceTime
from pinprof.analyses.syncs import BareSite, Cost, Stalled
from pinprof.measurement.known import Perhaps

Times = tuple[tuple[str, int], ...]
"""(cause, ns), the longest first."""


@dataclass(frozen=True)
class GpuSums:
    """How long a GPU worked and was idle in the whole trace."""

    device: int
    time: Perhaps[DeviceTime]
    idle_by_cause: Perhaps[Times]


@dataclass(frozen=True)
class CopySums:
    """All copies of one direction and host memory in the whole trace."""

    direction: str
    host_memory: str
    unsized: int
    """Copies whose size is not recorded."""
    copied: Perhaps[Copied]
    hidden: Perhaps[Hidden]
    host_blocked_ns: Perhaps[int]
    """How long the host was blocked in calls that made or awaited these copies."""


@dataclass(frozen=True)
class OverlapSums:
    """Copy time of all devices in the whole trace, in ns."""

    overlapped_ns: int
    exposed_ns: int
    known_ns: int
    """The copy time that the recording shows to be hidden or exposed: `Overlap.known_ns`."""
    fraction: float | None
    """The overlapped share of that; None without copies."""


@dataclass(frozen=True)
class ExposedSums:
    """The exposed copies of one reason."""

    reason: Perhaps[str]
    count: Perhaps[int]
    exposed_ns: Perhaps[int]


@dataclass(frozen=True, kw_only=True)
class WaitSite(BareSite):
    """Waits of one cause at one place, and what they cost."""

    total: Perhaps[Stalled]
    """In the whole trace."""
    total_cost: Perhaps[Cost]
    """With what the waits were for, and what they left."""
    in_steps: Perhaps[Stalled]
    """In the complete steps together."""
    in_steps_cost: Perhaps[Cost]
