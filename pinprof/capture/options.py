"""The options of a recording: how many steps each window has, and why a program was too short for them."""

from math import ceil
from typing import NamedTuple

import msgspec

from pinprof.errors import CaptureError
from pinprof.units import counted

NS_PER_S = 1_000_000_000

FEWEST_STEPS = 3
"""The mean of fewer steps says nothing about their spread."""

WARM_UP_STEPS = 2
"""Steps that the profiler runs before it records: they pay for its start."""

WARM_UP_S = 120.0
"""A warm-up takes no longer than this, whatever its number of steps."""


class Progress(NamedTuple):
    """The step that begins: number `step` of `of` in this window. The plain window may have more than `of`."""

    window: str
    step: int
    of: int


class OptionNames(NamedTuple):
    """What the options are called where the user gave them."""

    shorter_plain: str
    without_plain: str
    fewer: str
    max_warmup: str


IN_CODE = OptionNames("plain_seconds=0, plain_precision=1", "plain_steps=0", "warmup, plain_steps, steps", "max_warmup")

ON_COMMAND_LINE = OptionNames(
    "--plain-steps 20",
    "--windows lean,lines",
    "--warmup, --plain-steps, --steps, or --windows lean,lines without timing",
    "--max-warmup",
)


class RecordingOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The windows of a recording and what torch.profiler records; `profile()` says in which order they come.

    The plain window ends after `plain_steps` and `plain_seconds`, or after `plain_max_seconds` with 3 steps or more. It
    goes on until the mean of the regular steps is certain by the share `plain_precision` (95 % confidence).
    """

    steps: int = 5
    """Steps of the trace; 0: no profiler ever starts, and the file holds the times of the plain window alone."""
    warmup: int = 10
    """Steps to skip, or more until their time is steady."""
    max_warmup: int = 100
    """Steps to skip at most."""
    plain_steps: int = 20
    """Steps to time without a profiler, or more; 0 omits this window."""
    plain_seconds: float = 1.0
    plain_max_seconds: float = 20.0
    plain_precision: float = 0.02
    """1: any precision will do. With a GPU the window ends after 5 s; where the number of steps is known, it may go
    on for 20 times `plain_steps`."""
    line_steps: int = 3
    """Steps that show which source line calls each wait for the GPU; 0 omits this window."""
    line_stack: bool = True
    """Whether these steps have Python stacks: slower, but the causes are more exact."""
    watch_steps: int = 200
    """Steps to watch for waits without a profiler, for 30 s at most; 200 steps show a wait every 100 steps twice."""
    with_stack: bool = False
    record_shapes: bool = False
    profile_memory: bool = False
    cuda_sync_events: bool = True
    every: int = 0
    """After the windows, record `steps` steps again after every N steps, until the program ends; 0: do not."""
    force: bool = False
    """Whether to overwrite an existing file."""

    def check(self) -> None:
        """Raise CaptureError if no step would be recorded."""
        counts = (self.steps, self.warmup, self.plain_steps, self.line_steps, self.watch_steps)
        if max(self.steps, self.plain_steps) < 1 or min(counts) < 0:
            numbers = f"steps={self.steps}, warmup={self.warmup}, plain_steps={self.plain_steps}"
            raise CaptureError(f"{numbers}: record at least one step")

    @property
    def most_warmup(self) -> int:
        """The most steps that the warm-up may take."""
        return max(self.warmup, self.max_warmup)

    @property
    def times_only(self) -> bool:
        """Whether no profiler runs, so that the file holds the times of the steps alone."""
        return self.steps == 0

    @property
    def needed(self) -> int:
        """The fewest steps that give a trace; warm-up and plain window may take more, depending on the steps' times."""
        if self.times_only:
            return self.warmup + FEWEST_STEPS
        return self.warmup + self.plain_steps + WARM_UP_STEPS + self.steps

    def is_plain_over(self, steps: int, seconds: float) -> bool:
        """Return whether a plain window of this length is long enough, or too long to go on."""
        enough = steps >= self.plain_steps and seconds >= self.plain_seconds
        return enough or (steps >= FEWEST_STEPS and seconds >= self.plain_max_seconds)

    def plain_steps_of(self, step_ns: float) -> int:
        """Return after how many steps of this length the plain window is over."""
        enough = max(self.plain_steps, ceil(self.plain_seconds * NS_PER_S / max(step_ns, 1.0)))
        return min(enough, max(FEWEST_STEPS, ceil(self.plain_max_seconds * NS_PER_S / max(step_ns, 1.0))))

    def why_nothing_recorded(self, steps_seen: int, window: str, names: OptionNames) -> str:
        """Return why a program recorded no step that ended in this window, with the options that help."""
        ended = f"the program ended after {counted(steps_seen, 'step')}, before "
        if self.times_only:
            parts = f"{self.warmup} warm-up and {FEWEST_STEPS} to time"
            return f"{ended}enough were timed; {self.needed} are needed: {parts}. Run it longer"
        ended += "one was recorded"
        if steps_seen >= self.needed:
            return f"{ended}: {self._why_open(window, names)}"
        return (
            f"{ended}; {self.needed} are needed: "
            f"{self.warmup} warm-up, {self.plain_steps} plain, {WARM_UP_STEPS} for the profiler to warm up and "
            f"{self.steps} recorded. Run it longer, or ask for fewer ({names.fewer})"
        )

    def _why_open(self, window: str, names: OptionNames) -> str:
        if window == "plain":
            return (
                "steps without the profiler were still being timed, which takes at least "
                f"{self.plain_seconds:g} s. Run it longer, or time fewer steps ({names.shorter_plain})"
            )
        why = "the recording had just begun"
        if window == "warm-up":
            most = counted(self.most_warmup, "step")
            why = f"their times were not steady; the warm-up takes up to {most} ({names.max_warmup})"
        return f"{why}. Run it longer, or record without timing ({names.without_plain})"
