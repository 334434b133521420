"""Waits that were seen where no wait of the recorded steps is known to be: where, how often, and what was called."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pinprof.measurement.profile import Profile
from pinprof.trace.lines import Placed
from pinprof.trace.watched import WatchedWait, period
from pinprof.units import counted

OUTSIDE = "Waits seen outside of the recorded steps"
NOT_JOINED = "Waits seen in every step, at lines that no recorded wait is certain to have"

MAX_SEEN = 10
"""More of them than this are counted in a terminal, not listed."""


@dataclass(frozen=True)
class SeenWait(Placed):
    """Waits of one line that no wait of the recorded steps is known to have, over the watched steps."""

    file: str
    line: int | None
    function: str
    stack: tuple[str, ...]
    called: str | None
    """What the line called; None where that is not certain."""
    thread: str
    waits: int
    steps: int
    """Watched steps with such waits; 0 if it only waited after the last of them."""
    of: int
    """Watched steps."""
    every: int | None
    """The period in steps; None without one."""

    @property
    def is_outside(self) -> bool:
        """Whether it is outside of the recorded steps: what waits in every step waits in these, too."""
        return self.every != 1

    @property
    def how_often(self) -> str:
        """How often it waits, in words."""
        if not self.steps:
            return f"after {self.of} watched steps"
        if self.every == 1:
            return "every step"
        if self.every is not None:
            return f"every {self.every} steps"
        return f"in {self.steps} of {counted(self.of, 'step')}"

    @property
    def per_step(self) -> float:
        """Waits in each step that has some."""
        return self.waits / max(self.steps, 1)


def seen_elsewhere(profile: Profile) -> list[SeenWait]:
    """Return the watched waits at lines where no recorded wait is known to be, the most frequent first."""
    watched = profile.info.watched
    if watched is None:
        return []
    recorded = {(site.file, site.line) for site in profile.sites if site.line is not None}
    by_line: dict[tuple[object, ...], list[WatchedWait]] = {}
    for wait in watched.waits:
        if (wait.line.file, wait.line.line) not in recorded:
            by_line.setdefault((wait.line.place, wait.called, wait.thread), []).append(wait)
    seen = [_together(waits, watched.steps) for waits in by_line.values()]
    return sorted(seen, key=lambda wait: -wait.waits)


def by_title(profile: Profile) -> Iterator[tuple[str, list[SeenWait]]]:
    """Yield the watched waits without a recorded wait of their line, under the title that is true of them."""
    seen = seen_elsewhere(profile)
    for title, outside in ((NOT_JOINED, False), (OUTSIDE, True)):
        if waits := [wait for wait in seen if wait.is_outside == outside]:
            yield title, waits


def _together(waits: Iterable[WatchedWait], of: int) -> SeenWait:
    """Return the waits of one line, which may be called from several others."""
    all_waits = list(waits)
    often = max(all_waits, key=lambda wait: wait.waits)
    at = {step for wait in all_waits for step in wait.at if step < of}
    return SeenWait(
        file=often.line.file,
        line=often.line.line,
        function=often.line.function,
        stack=often.line.stack,
        called=often.called,
        thread=often.thread,
        waits=sum(wait.waits for wait in all_waits),
        steps=len(at),
        of=of,
        every=period(at, of),
    )
