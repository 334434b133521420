"""Finds synchronizes that the host did not need, as far as its uses of memory tell."""

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pinprof.races.memory import Extent
from pinprof.races.pending_copies import Access, Copy, PendingCopies
from pinprof.races.violation import UnneededWait
from pinprof.trace.lines import Place, SourceLine


@dataclass
class _Site:
    call: str
    place: SourceLine
    times: int = 0
    copies: int = 0
    needed: bool = False


class Synchronizes:
    """The synchronizes of a program by place, and the copies that each of them proved to have ended."""

    def __init__(self) -> None:
        self._sites: dict[tuple[str, Place], _Site] = {}
        self._settled = PendingCopies()
        self._settled_by: WeakKeyDictionary[Copy, _Site] = WeakKeyDictionary()

    def waited(self, call: str, line: SourceLine, settled: list[Copy]) -> None:
        """Note a synchronize, and the copies that it was the first to prove to have ended."""
        site = self._sites.setdefault((call, line.place), _Site(call, line))
        site.times += 1
        site.copies += len(settled)
        for copy in settled:
            self._settled.add(copy)
            self._settled_by[copy] = site

    def used(self, memory: Extent, kind: Access, is_over: Callable[[Copy], bool]) -> None:
        """Note a use of memory: it needed the synchronizes without which it would be unsafe.

        `is_over` returns whether a copy would have ended before this use even without the host.
        """
        for copy in self._settled.overlapping(memory):
            if is_over(copy):
                continue
            if copy.is_past or copy.conflicts_with(kind):
                self._settled_by[copy].needed |= not copy.is_past
                self._settled.remove(copy)

    def unneeded(self) -> tuple[UnneededWait, ...]:
        """Return the places where no synchronize was needed."""
        return tuple(
            UnneededWait(site.call, site.place, site.times, site.copies)
            for site in self._sites.values()
            if not site.needed
        )
