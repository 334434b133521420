import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pinprof.analyses.host_samples import CalledLine, LibraryCall
from pinprof.analyses.launches import PAUSE_MEANING, Pause
from pinprof.analyses.pause_code import PausedCode, code_in_pauses
from pinprof.analyses.steps import timed
from pinprof.ground.intervals import Intervals, intersect, length, subtract, union
from pinprof.ground.units import duration, percent
from pinprof.prediction.pinning import freed_batches
from pinprof.rules.copies import many_small
from pinprof.rules.launching import late_ns, pauses
from pinprof.rules.remedies import remedy_of, remedy_of_line
from pinprof.rules.rule import AllEvidence, Details, Edits, Evidence, Profile, Rule
from pinprof.rules.sums import MAX_THINGS_NAMED, at, idle_within
from pinprof.trace.lines import PauseCode, Place
from pinprof.trace.spans.idle_times import python_in_nodes
from pinprof.trace.spans.one_time_work import NO_TIMES_AT_ALL
from pinprof.trace.spans.phases import torch_times

MIN_PYTHON_SHARE_OF_STEP = 0.1
SHARE_NAMED_ALONE = 0.5  # a place that takes a larger share is named alone
MIN_SHARE_NAMED = 0.05
MIN_SHARE_ADVISED = 0.2
"""To change a place that takes a smaller share of the pauses would not save what the finding says."""
PACK_COPIES = "Pack the many small copies into one, which also spares the loop around them (PIN106)."
KINDS_WITHOUT_OPS = ("user", "library")  # kinds of code that may run no op of torch and wait for no input
CODE_OF_TORCH = "which is torch's own code, or code that it calls"
IN_OPTIMIZER = "the optimizer"
WITHIN_NODES = "within backward passes: Python code that these call"
RECORD_STACKS = "To see which code it is, record the program with `pinprof run`, or with with_stack=True."

FIX_OF_HOOK = (
    "Do less in the Python code that backward passes call: operations on the GPU, every N steps, or once behind the "
    "backward pass for all gradients together."
)
NO_REMEDY_KNOWN = "See whether each step needs it; pinprof knows no other way to write this code."
CODE_NOT_SEEN = "The trace does not show which code it is."
FREEING_LINE = re.compile(r"(async )?for |del ")
"""A line that calls nothing itself: memory is freed there, such as a batch that workers shared (munmap)."""


def _python(details: Details, profile: Profile) -> AllEvidence:
    pause, late, step = profile.pause, late_ns(profile), profile.step_ns
    if not late or not step:
        return
    freed = freed_batches(details)
    times = subtract(pauses(details), freed)
    paused = _paused(details, times)
    idle = idle_within(details, profile, *times) * paused.python
    lasts = pause.time_ns if pause and idle >= MIN_PYTHON_SHARE_OF_STEP * step else 0.0
    freed_ns = length(freed) / profile.steps.divisor
    lasts = lasts if lasts > 2 * freed_ns else 0.0
    sampled = _program_lines(details, profile)
    lines = _without_unmapping(details, sampled) if freed_ns else sampled
    shown = 0.0
    if profile.host:
        own, all_own = (sum(samples for _, samples in some) / profile.host.samples for some in (lines, sampled))
        shown = own - max(freed_ns / step - (all_own - own), 0.0)  # what these lines do not show is at others
    if not lasts and shown < MIN_PYTHON_SHARE_OF_STEP:
        return
    words = []
    if lasts and pause:
        words.append(_paused_text(profile, pause, paused))
    if shown >= MIN_PYTHON_SHARE_OF_STEP:
        words.append(
            f"without the profiler it is in Python for {percent(shown)} of the step: {_lines_text(profile, lines)}"
        )
    place = lines[0][0].place if shown >= MIN_PYTHON_SHARE_OF_STEP else Place()
    place = paused.code.places[0].place if lasts and paused.code and paused.code.places else place
    yield Evidence(
        min(max(idle, shown * step), late),
        "; ".join(words),
        *place,
        edits=Edits(without_pauses=True),
        fix=_how_to_spare(
            details, profile, place, paused if lasts else None, lines if shown >= MIN_PYTHON_SHARE_OF_STEP else ()
        ),
    )


def _without_unmapping(details: Details, lines: Sequence[tuple[CalledLine, float]]) -> list[tuple[CalledLine, float]]:
    """Return the lines but for those at which samples find batches unmapped: of their copies, and right after these.

    The handler of a signal runs at the next call, which is mostly on the next line.
    """
    copying = {(line.file, line.line) for line in details.copy_places if line and line.line}
    copying |= {(file, line + 1) for file, line in copying}
    return [(line, own) for line, own in lines if (line.file, line.line) not in copying]


def _how_to_spare(
    details: Details,
    profile: Profile,
    place: Place,
    paused: "_Paused | None",
    lines: Sequence[tuple[CalledLine, float]],
) -> str:
    """Return what to do about the Python of this line, or of the step where no line is known."""
    copied = [copies.place for copies in many_small(details, profile)] if place.line is not None else []
    if any(copies[:2] == place[:2] or copies.line is None for copies in copied):
        return PACK_COPIES
    code = paused.code if paused else None
    if paused and code and code.places:
        first = code.places[0]
        if paused.in_hooks and not first.package:
            return FIX_OF_HOOK
        known = remedy_of(first.package, first.called) or remedy_of_line(_source(details, first.place))
        matters = first.ns >= MIN_SHARE_ADVISED * code.total_ns
        return known if known and matters else NO_REMEDY_KNOWN
    if lines:
        line, own = lines[0]
        call = _library_of(line, own)
        known = remedy_of(call.package, call.names) if call else remedy_of_line(_source(details, line.place))
        matters = own >= MIN_SHARE_ADVISED * sum(samples for _, samples in lines)
        return known if known and matters else NO_REMEDY_KNOWN
    is_seen = profile.host is not None or len(details.trace.functions)
    return CODE_NOT_SEEN if is_seen else RECORD_STACKS


def _source(details: Details, place: Place) -> str:
    """Return the text of a line, nothing where it is not at hand."""
    text = details.sources.text(place.file) if place.file and place.line else None
    lines = text.splitlines() if text else []
    return lines[place.line - 1].strip() if place.line and place.line <= len(lines) else ""


@dataclass(frozen=True)
class _Paused:
    """The pauses of the steps whose length is known: the last one may last until the profiler has stopped."""

    steps: int
    times: Intervals
    in_nodes: Intervals  # the part in which backward passes call Python code
    in_torch: Intervals  # the part within `phase`
    phase: str  # the optimizer, backward passes, or both, if most of it is within these; otherwise empty
    code: PausedCode | None  # what runs in them; None where that is not known

    @property
    def in_hooks(self) -> bool:
        """Whether backward passes call most of it."""
        return length(self.in_nodes) > SHARE_NAMED_ALONE * length(self.times)

    @property
    def python(self) -> float:
        """The share in which Python code runs, as far as is known."""
        return 1 - self.code.outside_ns / self.code.total_ns if self.code else 1.0

    def per_step(self, within: Intervals) -> float:
        """Return how long the host pauses per step within these times, in ns."""
        return length(intersect(self.times, within)) / max(self.steps, 1)


def _paused(details: Details, times: Intervals) -> _Paused:
    trace, rows = details.trace, timed(details.trace.steps)
    times = intersect(times, union(trace.steps.start_ns[rows], trace.steps.end_ns[rows]))
    in_nodes = intersect(times, python_in_nodes(trace))
    of_torch = torch_times(trace)
    parts = {
        IN_OPTIMIZER: of_torch.optimizers,
        "backward passes": of_torch.backward,
        f"backward passes and {IN_OPTIMIZER}": of_torch.both,
    }
    whole = length(times)
    phase = next(
        (name for name, part in parts.items() if 0 < SHARE_NAMED_ALONE * whole <= length(intersect(times, part))), ""
    )
    in_torch = intersect(times, parts.get(phase, NO_TIMES_AT_ALL))
    paused = _Paused(len(rows), times, in_nodes, in_torch, phase, code_in_pauses(trace, details.sources, times))
    return replace(paused, code=paused.code or _learned_code(paused, trace.info.backward))


def _learned_code(paused: _Paused, learned: Sequence[PauseCode]) -> PausedCode | None:
    """Return what backward passes call in most of the pauses, as steps recorded with Python functions show."""
    whole = sum(code.ns for code in learned)
    if not (whole and paused.in_hooks):
        return None
    share = length(paused.in_nodes) / whole
    return PausedCode(length(paused.times), 0.0, tuple(replace(code, ns=code.ns * share) for code in learned))


def _paused_text(profile: Profile, pause: Pause, paused: _Paused) -> str:
    """Return how long the host pauses in a step, and what runs meanwhile, or at least where in the step it is."""
    total, lasts = paused.per_step(paused.times), pause.time_ns
    text = f"the host runs no op and no call for {duration(max(total, lasts))} {profile.steps.per}, as traced"
    if paused.code and paused.code.places:
        return f"{text}: {_named_code(paused.code, paused.steps)}"
    if paused.in_hooks:
        return f"{text}; {duration(paused.per_step(paused.in_nodes))} of it {WITHIN_NODES}"
    longest = f"; the longest, {duration(lasts)}, is {pause.between}" if total > lasts else f", {pause.between}"
    text += f"{longest}: that is {PAUSE_MEANING}"
    if paused.phase:
        text += f"; {duration(paused.per_step(paused.in_torch))} of it within {paused.phase}, {CODE_OF_TORCH}"
    return text


def _named_code(code: PausedCode, per: int) -> str:
    first = code.places[0]
    named = [place for place in code.places[:MAX_THINGS_NAMED] if place.ns >= MIN_SHARE_NAMED * code.total_ns] or [
        first
    ]
    if first.ns > SHARE_NAMED_ALONE * code.total_ns:
        named = [first]
    words: list[str] = []
    for place in named:
        of_total = "" if words else f" of {duration(code.total_ns / per)}"
        words.append(f"{duration(place.ns / per)}{of_total}{_code(place)}")
    if code.outside_ns >= MIN_SHARE_NAMED * code.total_ns:
        words.append(f"{duration(code.outside_ns / per)} in calls into torch, in which no Python runs")
    return ", ".join(words)


def _code(code: PauseCode) -> str:
    called = " → ".join(code.called)
    library = f" in {' '.join(filter(None, (code.package, called)))}" if code.package or called else ""
    return f"{at(code.place)}{',' if library and code.line is None and code.function else ''}{library}"


def _program_lines(details: Details, profile: Profile) -> list[tuple[CalledLine, float]]:
    """Return the program's lines with their samples outside of torch, of networks, of input and of waits, most first.

    A call in C is sampled as the line that makes it, so a line that waits is left what it took besides its waits. All
    samples of a library's line that waits are waits: without the profiler the host is sooner there, and waits longer.
    """
    host, step = profile.host, profile.step_ns
    if host is None or not step:
        return []
    waits: defaultdict[tuple[str | None, int | None], float] = defaultdict(float)
    waiting = set()
    for site in details.syncs.sites:
        if site.library is None or site.library.line is None:
            waits[site.file, site.line] += site.in_steps.stall_ns / profile.steps.divisor / step * host.samples
        else:
            waiting.add(site.library[:2])
    lines, made = [], details.trace.info.made
    made_loaders = details.loader.waits or (made and made.loaders)
    for line in host.called:
        frees = made_loaders and FREEING_LINE.match(_source(details, line.place))
        of_line = KINDS_WITHOUT_OPS[1:] if frees else KINDS_WITHOUT_OPS
        in_python = sum(count for kind, count in line.kinds if kind in of_line) - line.in_networks + line.bookkeeping
        in_waits = sum(count for place, count in line.library_lines if place[:2] in waiting)
        own = in_python - line.imports - in_waits - waits[line.file, line.line]
        if own > 0 and line.file:
            lines.append((line, own))
    return sorted(lines, key=lambda line: -line[1])


def _lines_text(profile: Profile, lines: Sequence[tuple[CalledLine, float]]) -> str:
    assert profile.host is not None
    words = []
    for line, own in lines[:MAX_THINGS_NAMED]:
        call = _library_of(line, own)
        within = f" in {call.package} {' → '.join(call.names)}" if call else ""
        words.append(f"{percent(profile.host.share(own))}{at(line.place)}{within}")
    return ", ".join(words)


def _library_of(line: CalledLine, own: float) -> LibraryCall | None:
    """Return the library's function in which most samples of a line are, None where they are its own.

    And the one within it that takes most of its samples, if one does.
    """
    counts: defaultdict[tuple[str, str], int] = defaultdict(int)
    for call, count in line.libraries:
        counts[call.package, call.called] += count
    outer = max(counts, key=counts.__getitem__, default=None)
    if outer is None or counts[outer] <= SHARE_NAMED_ALONE * own:
        return None
    inner = max((item for item in line.libraries if item[0][:2] == outer), key=lambda item: item[1])
    return inner[0] if inner[1] > SHARE_NAMED_ALONE * counts[outer] else LibraryCall(*outer, outer[1])


RULE = Rule(
    id="PIN603",
    title="the GPU waits for Python code",
    short="less Python",
    answers=("python", "host"),
    numbers="equal",
    why="While the host computes in Python, sleeps, or waits for something other than the GPU, it launches nothing: "
    "once the GPU has done what is queued, it is idle.",
    fix="Do it once before the loop, every N steps, in a DataLoader's workers, or with tensors on the GPU.",
    before="for batch in batches:\n"
    "    weights = [math.exp(-age / 10) for age in range(1000)]  # in each step\n"
    "    train(batch, weights)",
    code="weights = [math.exp(-age / 10) for age in range(1000)]  # once\n\n"
    "for batch in batches:\n"
    "    train(batch, weights)",
    safe_if="It depends on nothing that changes from step to step.",
    near_miss="weights = [math.exp(-age / 10) for age in range(10)]  # the GPU has work queued for longer",
    search=_python,
)
