"""The windows of a recording: how many steps each has, and why a program was too short for them."""

from dataclasses import dataclass, field
from typing import NamedTuple

from pinprof.capture.plain import FEWEST_STEPS, PlainBounds
from pinprof.capture.profiler import WARM_UP_STEPS
from pinprof.capture.warmup import WarmUpBounds
from pinprof.capture.watch import WatchBounds
from pinprof.units import counted


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
