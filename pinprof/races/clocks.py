"""Which copies the host knows to have ended, from what streams, events and the host have waited for.

Each stream counts its copies. What is known of a set of streams is a vector: how many copies of each have ended, or
will have before whatever comes next. A copy that is no part of the host's vector may still run, however old it is.
The host is one: what one thread has waited for, all threads know.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias


class Stream(NamedTuple):
    """A stream: the index of its device, and its handle, which is 0 for the default stream of each device."""

    device: int
    handle: int

    def __str__(self) -> str:
        name = f"stream {self.handle:#x}" if self.handle else "the default stream"
        return f"{name} of cuda:{self.device}"


class Ticket(NamedTuple):
    """A copy by its place in a stream: the first copy of each is number 1."""

    stream: Stream
    number: int


Known: TypeAlias = Mapping[Stream, int]
"""Up to which copy each stream is known to have come; streams that are not there, to none."""


@dataclass
class VectorClocks:
    """What streams, events and the host know of each other."""

    _streams: dict[Stream, dict[Stream, int]] = field(default_factory=dict)
    """What precedes the next work of each stream; its own entry counts its copies."""
    _events: dict[Hashable, Known] = field(default_factory=dict)
    """What the events have behind them, each as it was recorded last."""
    _host: dict[Stream, int] = field(default_factory=dict)

    def submit(self, stream: Stream) -> Ticket:
        """Count a copy on a stream, behind all that is there."""
        known = self._streams.setdefault(stream, {})
        known[stream] = known.get(stream, 0) + 1
        return Ticket(stream, known[stream])

    def record(self, event: Hashable, stream: Stream) -> None:
        """Let an event stand for all work that is on a stream now, and for nothing that it stood for before."""
        self._events[event] = self.behind_stream(stream)

    def wait(self, stream: Stream, event: Hashable) -> None:
        """Let the later work of a stream wait for an event; for one that was never recorded it does not wait."""
        _join(self._streams.setdefault(stream, {}), self.behind_event(event))

    def follow(self, stream: Stream, other: Stream) -> None:
        """Let the later work of a stream wait for all work that is on another now."""
        _join(self._streams.setdefault(stream, {}), self.behind_stream(other))

    def behind_stream(self, stream: Stream) -> Known:
        """Return what has ended once all work has that is on a stream now."""
        return dict(self._streams.get(stream, {}))

    def behind_event(self, event: Hashable) -> Known:
        """Return what has ended once an event has; nothing if it was not recorded."""
        return self._events.get(event, {})

    def behind_device(self, device: int | None) -> Known:
        """Return what has ended once all work has that is on a device now; None for all devices."""
        return self.behind(stream for stream in self._streams if device is None or stream.device == device)

    def behind(self, streams: Iterable[Stream]) -> Known:
        """Return what has ended once all work has that is on some streams now."""
        known: dict[Stream, int] = {}
        for stream in streams:
            _join(known, self._streams.get(stream, {}))
        return known

    def devices(self) -> set[int]:
        """Return the devices on which a copy was counted."""
        return {stream.device for stream in self._streams}

    def host_learns(self, known: Known) -> bool:
        """Let the host know that what it waited for has ended; return whether it did not know all of that before."""
        return _join(self._host, known)

    def precedes(self, copy: Ticket, stream: Stream) -> bool:
        """Return whether a copy has ended before whatever is queued on a stream next begins."""
        return self._streams.get(stream, {}).get(copy.stream, 0) >= copy.number

    def is_over(self, copy: Ticket) -> bool:
        """Return whether the host knows that a copy has ended."""
        return self._host.get(copy.stream, 0) >= copy.number


def _join(known: dict[Stream, int], more: Known) -> bool:
    news = {stream: number for stream, number in more.items() if number > known.get(stream, 0)}
    known.update(news)
    return bool(news)
