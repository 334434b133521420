"""The windows of a recording: how long each is, and why a program was too short for them."""

from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

import msgspec

from pinprof.errors import CaptureError
from pinprof.units import counted

NS_PER_S = 1_000_000_000

FEWEST_STEPS = 3  # a mean of fewer says nothing about the spread

LONGER = 20

ENOUGH_S = 5.0
"""With a GPU, it takes at most so many times the fewest steps, or so long, to be precise: many programs are short."""


class Progress(NamedTuple):
    """The step that begins: the `step`-th of `of` in this window. The plain window may exceed its `of`."""

    window: str
    step: int
    of: int


@dataclass(frozen=True)
class PlainBounds:
    """When the plain window ends: after `steps` and `seconds`, or after `max_seconds` with 3 steps or more.

    It goes on until the mean of the regular steps is certain by the share `precision` (95 % confidence; 1 asks for
    nothing), or until it has had `max_seconds`; with a GPU already after `LONGER` times `steps` and `ENOUGH_S`.
    """

    steps: int = 20
    seconds: float = 1.0
    max_seconds: float = 20.0
    precision: float = 0.02

    def reached(self, steps: int, seconds: float) -> bool:
        """Return whether a window of so many steps and seconds is long enough, or too long to go on."""
        enough = steps >= self.steps and seconds >= self.seconds
        return enough or (steps >= FEWEST_STEPS and seconds >= self.max_seconds)

    def steps_of(self, step_ns: float) -> int:
        """Return after how many steps of this length the bounds are reached."""
        enough = max(self.steps, ceil(self.seconds * NS_PER_S / max(step_ns, 1.0)))
        return min(enough, max(FEWEST_STEPS, ceil(self.max_seconds * NS_PER_S / max(step_ns, 1.0))))


@dataclass(frozen=True)
class WarmUpBounds:
    """When the warm-up ends: after `steps` if their time is steady, or after `max_steps` or `max_seconds`."""

    steps: int = 10
    max_steps: int = 100
    max_seconds: float = 120.0


WATCH_STEPS = 200
"""Steps to watch: a read every 100 steps comes twice in them, so that its period is known."""

WATCH_SECONDS = 30.0
"""Time after which no further step is watched: what a person may wait for a report."""


@dataclass(frozen=True)
class WatchBounds:
    """When watching ends: after `steps`, or with the first step that ends after `max_seconds`."""

    steps: int = WATCH_STEPS
    max_seconds: float = WATCH_SECONDS


WARM_UP_STEPS = 2  # the first steps under a profiler pay for its start


class OptionNames(NamedTuple):
    """What the options of a recording are called where it was asked for."""

    without_plain: str
    fewer: str
    max_warmup: str


IN_CODE = OptionNames("plain_steps=0", "warmup, plain_steps, steps", "max_warmup")

ON_COMMAND_LINE = OptionNames(
    "--windows lean,lines",
    "--warmup, --plain-steps, --steps, or --windows lean,lines without timing",
    "--max-warmup",
)


@dataclass(frozen=True)
class Windows:
    """How many steps each window of a recording has."""

    warmup: WarmUpBounds = field(default_factory=WarmUpBounds)
    plain: PlainBounds | None = field(default_factory=PlainBounds)
    steps: int = 5
    line_steps: int = 3
    line_stack: bool = True
    watch: WatchBounds = field(default_factory=WatchBounds)

    @property
    def times_only(self) -> bool:
        """Whether no profiler runs, so that the file holds the times of the steps alone."""
        return self.steps == 0

    @property
    def needed(self) -> int:
        """The fewest steps that give a trace (warm-up and plain window may need more, by their times)."""
        if self.times_only:
            return self.warmup.steps + FEWEST_STEPS
        return self.warmup.steps + (self.plain.steps if self.plain else 0) + WARM_UP_STEPS + self.steps

    def why_nothing_recorded(self, steps_seen: int, window: str, options: OptionNames) -> str:
        """Return why a program recorded no step that ended in this window, with the options that help."""
        ended = f"the program ended after {counted(steps_seen, 'step')}, before "
        if self.times_only:
            parts = f"{self.warmup.steps} warm-up and {FEWEST_STEPS} to time"
            return f"{ended}enough were timed; {self.needed} are needed: {parts}. Run it longer"
        ended += "one was recorded"
        if steps_seen >= self.needed:
            why = self._open(window, options)
            return f"{ended}: {why}. Run it longer, or record without timing ({options.without_plain})"
        plain = self.plain.steps if self.plain else 0
        return (
            f"{ended}; {self.needed} are needed: "
            f"{self.warmup.steps} warm-up, {plain} plain, {WARM_UP_STEPS} for the profiler to warm up and "
            f"{self.steps} recorded. Run it longer, or ask for fewer ({options.fewer})"
        )

    def _open(self, window: str, options: OptionNames) -> str:
        if window == "warm-up":
            most = f"{self.warmup.max_steps} steps ({options.max_warmup})"
            return f"their times were not steady; the warm-up takes up to {most}"
        if window == "plain" and self.plain:
            return f"steps without the profiler were still being timed, which takes at least {self.plain.seconds:g} s"
        return "the recording had just begun"


class RecordingOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of `profile()`, which says what they mean."""

    steps: int = Windows.steps
    warmup: int = WarmUpBounds.steps
    max_warmup: int = WarmUpBounds.max_steps
    plain_steps: int = PlainBounds.steps
    plain_seconds: float = PlainBounds.seconds
    plain_max_seconds: float = PlainBounds.max_seconds
    plain_precision: float = PlainBounds.precision
    line_steps: int = Windows.line_steps
    line_stack: bool = Windows.line_stack
    watch_steps: int = WatchBounds.steps
    with_stack: bool = False
    record_shapes: bool = False
    profile_memory: bool = False
    cuda_sync_events: bool = True
    force: bool = False

    @property
    def windows(self) -> Windows:
        """How many steps each window has. Raises CaptureError if no step would be recorded."""
        counts = (self.steps, self.warmup, self.plain_steps, self.line_steps, self.watch_steps)
        if max(self.steps, self.plain_steps) < 1 or min(counts) < 0:
            numbers = f"steps={self.steps}, warmup={self.warmup}, plain_steps={self.plain_steps}"
            raise CaptureError(f"{numbers}: record at least one step")
        plain = PlainBounds(self.plain_steps, self.plain_seconds, self.plain_max_seconds, self.plain_precision)
        return Windows(
            WarmUpBounds(self.warmup, max(self.warmup, self.max_warmup)),
            plain if self.plain_steps else None,
            self.steps,
            self.line_steps,
            self.line_stack,
            WatchBounds(self.watch_steps, WATCH_SECONDS),
        )
