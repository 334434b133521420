"""The peak of the GPUs' memory: a line of the short report, facts of the full one and of the page."""

from collections.abc import Iterator

from pinprof.analyses.memory import MemoryPeak
from pinprof.measurement.profile import Profile
from pinprof.report.view import Fact
from pinprof.report.words import cut
from pinprof.units import percent, size

MOST_PEAKS = 2
"""GPUs in the line of the short report; those with the most memory."""


def memory_in_short(profile: Profile) -> str:
    """Return the peaks in a line; empty if no memory was recorded."""
    by_size = sorted(profile.memory, key=lambda peak: -peak.allocated_bytes)
    several = len(by_size) > 1
    peaks = [
        (f"GPU {peak.device} " if several else "")
        + f"peak {size(peak.allocated_bytes)} allocated{_reserved(peak)}, {_when(peak)}"
        for peak in by_size[:MOST_PEAKS]
    ]
    return f"GPU memory: {'; '.join(peaks)}" if peaks else ""


def memory_facts(profile: Profile) -> Iterator[Fact]:
    """Yield the peak of each GPU."""
    for peak in profile.memory:
        name = f"peak memory of GPU {peak.device}" if len(profile.memory) > 1 else "peak GPU memory"
        yield Fact(name, size(peak.allocated_bytes), f"allocated{_reserved(peak)}, {_when(peak)}")


def _reserved(peak: MemoryPeak) -> str:
    return "" if peak.reserved_bytes is None else f", {size(peak.reserved_bytes)} reserved"


def _when(peak: MemoryPeak) -> str:
    """Return the step and the op of the peak."""
    step = "outside of the steps"
    if peak.step is not None and peak.step_fraction is not None:
        step = f"at {percent(peak.step_fraction)} of step {peak.step}"
    return f"{step}, in {cut(peak.op)}" if peak.op else step
