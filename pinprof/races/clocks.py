"""Finds the copies that the host knows to have ended, from what streams, events and the host have waited for.

Each stream counts its copies. The knowledge about a set of streams is a vector: how many copies of each have ended, or
will have ended before the next work. A copy outside the host's vector may still run, however old it is. All threads
share the host's vector: what one thread has waited for, all threads know.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from threading import RLock
from typing import NamedTuple, TypeAlias


class Stream(NamedTuple):
    """A stream: the index of its device, and its handle, which is 0 for the device's default stream."""

    device: int
    handle: int

    def __str__(self) -> str:
        name = f"stream {self.handle:#x}" if self.handle else "the default stream"
        return f"{name} of cuda:{self.device}"


class Ticket(NamedTuple):
    """A copy by its number on a stream; the first is number 1."""

    stream: Stream
    number: int


EndedCopies: TypeAlias = Mapping[Stream, int]
"""The last copy of each stream that is known to have ended; 0 for a stream without an entry."""


@dataclass
class VectorClocks:
    """What streams, events and the host know about each other; all threads may use it."""

    _streams: dict[Stream, dict[Stream, int]] = field(default_factory=dict)
    """The copies that end before the next work of each stream; its own entry counts its copies."""
    _events: dict[Hashable, EndedCopies] = field(default_factory=dict)
    """The copies that end before each event, by its last record."""
    _host: dict[Stream, int] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)

    def submit(self, stream: Stream) -> Ticket:
        """Count a copy on a stream, after all its work."""
        with self._lock:
            ended = self._streams.setdefault(stream, {})
            ended[stream] = ended.get(stream, 0) + 1
            return Ticket(stream, ended[stream])

    def record(self, event: Hashable, stream: Stream) -> None:
        """Make an event stand for all work now on a stream, and for none of its earlier work."""
        with self._lock:
            self._events[event] = self.ended_after(stream)

    def wait(self, stream: Stream, event: Hashable) -> None:
        """Make the later work of a stream wait for an event; it does not wait for an unrecorded one."""
        with self._lock:
            _join(self._streams.setdefault(stream, {}), self.ended_after_event(event))

    def follow(self, stream: Stream, other: Stream) -> None:
        """Make the later work of a stream wait for all work now on another."""
        with self._lock:
            _join(self._streams.setdefault(stream, {}), self.ended_after(other))

    def ended_after_event(self, event: Hashable) -> EndedCopies:
        """Return which copies have ended once an event has ended; none if it was not recorded."""
        with self._lock:
            return self._events.get(event, {})

    def ended_after_device(self, device: int) -> EndedCopies:
        """Return which copies have ended once the present work of a device has ended."""
        with self._lock:
            return self.ended_after(*(stream for stream in self._streams if stream.device == device))

    def ended_after(self, *streams: Stream) -> EndedCopies:
        """Return which copies have ended once the present work of some streams has ended."""
        with self._lock:
            ended: dict[Stream, int] = {}
            for stream in streams:
                _join(ended, self._streams.get(stream, {}))
            return ended

    def devices(self) -> set[int]:
        """Return the devices with copies."""
        with self._lock:
            return {stream.device for stream in self._streams}

    def host_learns(self, ended: EndedCopies) -> bool:
        """Tell the host which copies have ended; return whether any of that is new to it."""
        with self._lock:
            return _join(self._host, ended)

    def precedes(self, copy: Ticket, stream: Stream) -> bool:
        """Return whether a copy ends before the next work on a stream begins."""
        with self._lock:
            return self._streams.get(stream, {}).get(copy.stream, 0) >= copy.number

    def is_over(self, copy: Ticket) -> bool:
        """Return whether the host knows that a copy has ended."""
        with self._lock:
            return self._host.get(copy.stream, 0) >= copy.number


def _join(ended: dict[Stream, int], more: EndedCopies) -> bool:
    news = {stream: number for stream, number in more.items() if number > ended.get(stream, 0)}
    ended.update(news)
    return bool(news)
