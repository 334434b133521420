"""The options of a recording: how many steps each window has, and why a program was too short for them."""

from collections.abc import Callable
from math import ceil
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec

from pinprof.ground.errors import CaptureError
from pinprof.ground.units import counted

NS_PER_S = 1_000_000_000
MIN_TIMED_STEPS = 3  # the mean of fewer steps says nothing about their spread
WARM_UP_STEPS = 2  # steps that the profiler runs before it records: they pay for its start
WARM_UP_S = 120.0  # a warm-up takes no longer than this, whatever its number of steps


class Progress(NamedTuple):
    """The step that begins: number `step` of `of` in this window. The plain window may have more than `of`."""

    window: str
    step: int
    of: int


Advise: TypeAlias = Callable[[int], str]
"""Returns the options with which a program of this number of steps gives a trace; empty if there are none."""


def in_code(steps: int) -> str:
    """Return the options of `profile()` with which a program of this number of steps gives a trace, if any."""
    recorded = min(steps - 1 - WARM_UP_STEPS, MIN_TIMED_STEPS)
    return f"warmup=1, max_warmup=1, plain_steps=0, steps={recorded}" if recorded > 0 else ""


TIMED_PER_RECORDED = 4  # steps that are timed without a profiler for each recorded one, in a program of few steps


def recordable_of(steps: int) -> int:
    """Return how many steps `pinprof run` can record after one of warm-up, in a program of so few steps; 0 for none."""
    return max(min((steps - 1 - WARM_UP_STEPS) // (TIMED_PER_RECORDED + 1), MIN_TIMED_STEPS), 0)


def on_command_line(steps: int) -> str:
    """Return the options of `pinprof run` with which a program of this number of steps gives a trace, if any."""
    recorded = recordable_of(steps)
    return f"--warmup 1 --steps {recorded}" if recorded else ""


def offered(text: str, name: str = "", *, metavar: str | None = None, least: int = 1) -> msgspec.Meta:
    """Offer a field as an option of `pinprof run`, under `name` if given; with a `metavar` it has no default there."""
    return msgspec.Meta(description=text, extra={"name": name, "metavar": metavar, "least": least})


class RecordingOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The windows of a recording and what torch.profiler records; `profile()` says in which order they come.

    The plain window ends after `plain_steps` and `plain_seconds`, or after `plain_max_seconds` with 3 steps or more. It
    goes on until the mean of the regular steps is certain by the share `plain_precision` (95 % confidence).
    """

    steps: Annotated[int, offered("Steps to record.")] = 5
    warmup: Annotated[
        int,
        offered(
            "Skip this many steps; by default 10 or more, until their time is steady. If N is below 10, for a script "
            f"of few steps, pinprof times only {TIMED_PER_RECORDED} steps per recorded one.",
            metavar="N",
        ),
    ] = 10
    max_warmup: int = 100
    """Steps to skip at most."""
    plain_steps: int = 20
    """Steps to time without a profiler, or more; 0 omits this window."""
    plain_seconds: float = 1.0
    plain_max_seconds: float = 20.0
    plain_precision: float = 0.02
    """1: any precision will do. With a GPU the window ends after 5 s."""
    line_steps: int = 3
    """Steps that show which source line calls each wait for the GPU; 0 omits this window."""
    watch_steps: int = 200
    """Steps to watch for waits without a profiler, for 10 s at most; 200 steps show a wait every 100 steps twice."""
    with_stack: bool = False
    record_shapes: Annotated[bool, offered("Record the shapes of the ops' inputs.")] = False
    profile_memory: Annotated[bool, offered("Record allocations.", "memory")] = False
    every: Annotated[
        int,
        offered(
            "Let the script go on, record some steps again after every N steps, and say in a line how long one takes "
            "and why. That takes at most 0.5 % of the time: after a recording that took long, the next comes later.",
            metavar="N",
            least=0,
        ),
    ] = 0
    force: bool = False
    """Whether to overwrite an existing file."""
    replaces_own: bool = False
    """Whether to overwrite an existing file if pinprof recorded it."""

    def check(self) -> None:
        """Raise CaptureError if no step would be recorded."""
        counts = (self.steps, self.warmup, self.plain_steps, self.line_steps, self.watch_steps)
        if self.steps < 1 or min(counts) < 0:
            numbers = f"steps={self.steps}, warmup={self.warmup}, plain_steps={self.plain_steps}"
            raise CaptureError(f"{numbers}: record at least one step")

    @property
    def needed(self) -> int:
        """The fewest steps that give a trace; warm-up and plain window may take more, depending on the steps' times."""
        return self.warmup + self.plain_steps + WARM_UP_STEPS + self.steps

    def is_plain_over(self, steps: int, seconds: float) -> bool:
        """Return whether a plain window of this length is long enough, or too long to go on."""
        enough = steps >= self.plain_steps and seconds >= self.plain_seconds
        return enough or (steps >= MIN_TIMED_STEPS and seconds >= self.plain_max_seconds)

    def plain_steps_of(self, step_ns: float) -> int:
        """Return after how many steps of this length the plain window is over."""
        enough = max(self.plain_steps, ceil(self.plain_seconds * NS_PER_S / max(step_ns, 1.0)))
        return min(enough, max(MIN_TIMED_STEPS, ceil(self.plain_max_seconds * NS_PER_S / max(step_ns, 1.0))))

    @classmethod
    def of_command(cls, **given: Any) -> "RecordingOptions":
        """Return the options for `pinprof run`; None was not given. With a short `warmup` few steps are timed."""
        options = cls(**{name: value for name, value in given.items() if value is not None})
        if given.get("warmup") is None:
            return options
        windows: dict[str, Any] = {"max_warmup": options.warmup}
        if options.warmup < cls().warmup:
            timed = min(TIMED_PER_RECORDED * options.steps, options.plain_steps)
            windows |= {"plain_steps": timed, "plain_seconds": 0.0, "plain_precision": 1.0}
        return msgspec.structs.replace(options, **windows)

    def why_nothing_recorded(self, steps_seen: int, window: str, advise: Advise) -> str:
        """Return why a program recorded no step that ended in this window, with the options that help."""
        why = f": the {window} window was still open"
        if steps_seen < self.needed:
            why = (
                f"; {self.needed} are needed: {self.warmup} warm-up, {self.plain_steps} plain, "
                f"{WARM_UP_STEPS} for the profiler to warm up and {self.steps} recorded"
            )
        fewer = advise(steps_seen)
        way_out = "Run it longer" + (f", or ask for fewer steps: {fewer}" if fewer else "")
        return f"the program ended after {counted(steps_seen, 'step')}, before one was recorded{why}. {way_out}"
