"""What codes mean, in the words that all reports share, and names of the trace made safe to show."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from pinprof.analyses.syncs import Site
from pinprof.measure import Profile
from pinprof.rules import Finding, Findings, Saving
from pinprof.rules.sums import LONGEST_NAME, at, idle_gpu, in_or_after
from pinprof.trace.lines import Place
from pinprof.trace.tables import WHOLE_TRACE
from pinprof.trust import FIGURES, Missing
from pinprof.units import between, counted, duration, percent, rate, shortened, sizes
from pinprof.whatif import StepEstimate

IDLE = {
    "host_wait": "the next launch came late: the host is busy elsewhere",
    "sync_bubble": "the host had waited for the GPU and had nothing queued",
    "kernel_wait": "work was queued and waited for other work, or for its launch",
    "input_wait": "the host waited for the next batch",
    "communication_wait": "the host was in a collective",
    "other": "the next launch is not in the trace",
}
BOUNDS = {
    "gpu": "the GPU is the limit: it works nearly all the time, or its queued work waits for other work",
    "host": "the host is the limit: the GPU waits for its launches, or for it to stage copies",
    "input": "the input is the limit: the GPU waits for the next batch",
    "communication": "communication is the limit: the GPU is in collectives, or waits for other ranks in them",
}


HELD_UP_BY = {
    "queue_full": "launches wait for room in the launch queue, which is full of work for the GPU",
    "module_load": "launches wait until their code is loaded",
}
"""Causes for which a launch takes long and that are no wait for the GPU."""
NOTHING = "-"
"""Stands for a number that there is not, or that a report does not give."""
DISTRUST = "Before you trust this trace"
ABSENT = "Not in this trace"
MAX_NAME, MAX_CELL, MAX_TEXT = 90, 200, 2000
"""Longest texts in characters, of a name, in a cell of a table, and at all; a kernel's name can have thousands."""
MAX_NAMED = 4
"""Sites of a group that are named."""
FREE = 0.01
"""Of a wait of this share of the step that leaves the GPU idle for less than this share of itself, most is no loss. It
costs more than the idle time, though, where it waits for a slow copy of its own, or the host has no lead after it."""
BESIDE_WORK = 0.5
"""A wait in which the GPU does earlier work for this share is mostly no loss; one for its own copy is, and so is one
for work that is queued and does not run; of one for what is not recorded it is not known."""
DEAR = 4
"""A wait that leaves the GPU idle for this many times its own length costs more than it shows."""


def surprises(profile: Profile) -> Iterator[str]:
    """Yield sentences on the waits whose cost is not what their length or the step suggests, or that only move."""
    count, step = profile.steps.count, profile.step_ns
    if not count or not step or profile.withheld.keys() & {"stalls", "drain", "per_step"}:
        return
    waits = [site for site in profile.syncs.sites if site.is_wait and site.in_steps.count]
    yield from _only_as_traced(profile, sum(site.in_steps.bubble_ns for site in waits) / count)
    for site in waits:
        stall, bubble = site.in_steps.stall_ns / count, site.in_steps.bubble_ns / count
        if stall >= FREE * step and bubble < FREE * stall and _is_beside_work(site):
            after = f", and is idle for only {duration(bubble)} after it" if bubble else ""
            yield f"most of the {duration(stall)} that {_named(site)} waits is no loss: the GPU works meanwhile{after}"
        elif bubble >= FREE * step and bubble >= DEAR * stall:
            which, when = idle_gpu(profile, [site]), in_or_after([site])
            yield f"{_named(site)} waits only {duration(stall)}, but {which} idle for {duration(bubble)} {when} it"
    groups: dict[int, list[Site]] = defaultdict(list)
    for site in waits:
        if site.group is not None:
            groups[site.group].append(site)
    for _, members in sorted(groups.items()):
        if len(members) > 1:
            bubble = sum(site.in_steps.bubble_ns for site in members) / count
            names = ", ".join(_named(site) for site in members[:MAX_NAMED])
            names += ", ..." if len(members) > MAX_NAMED else ""
            yield f"one group, {duration(bubble)} idle: without one of them, the next waits instead ({names})"


def _is_beside_work(site: Site) -> bool:
    """Return whether the GPU works on something else for most of the waits of a site."""
    return site.verdict == "benign" or site.in_steps.worked_ns >= BESIDE_WORK * site.in_steps.stall_ns


def waits_in_all(profile: Profile) -> Iterator[tuple[str, str]]:
    """Yield how long the host stands in calls that wait, and in launches that are held up, each with what it means."""
    sites, steps = profile.syncs.sites, profile.steps.divisor
    shown = unless(profile, "stalls", "per_step")
    waits = [site for site in sites if site.is_wait]
    if waits:
        reason = why_not(profile, "stalls", "per_step", "drain")
        bubble = sum(site.in_steps.bubble_ns for site in waits) / steps
        idle = f"{idle_gpu(profile, waits)} idle for {duration(bubble)} {in_or_after(waits)} them"
        left = f"what that leaves idle is {reason}" if reason else idle
        if not reason and not any(site.in_steps.count for site in waits):
            left = "all of them lie outside of the complete steps"
        yield shown(_stall(waits, steps)), f"the host stands in calls that can block; {left}"
    for cause, meaning in HELD_UP_BY.items():
        held = [site for site in sites if site.cause == cause and site.verdict != "profiler"]
        if held:
            outside = "" if any(site.in_steps.count for site in held) else ", all outside of the complete steps"
            yield shown(_stall(held, steps)), meaning + outside


def _stall(sites: Sequence[Site], steps: int) -> str:
    return duration(sum(site.in_steps.stall_ns for site in sites) / steps)


def _only_as_traced(profile: Profile, bubble_ns: float) -> Iterator[str]:
    """Yield why the GPU is idle for longer after waits than in the whole step: that is without the profiler."""
    idle = sum(mean.idle_ns for mean in profile.mean_steps)
    if profile.mean_steps and profile.step.step_ns and bubble_ns > idle:
        yield (
            f"the GPU is idle for {duration(bubble_ns)} after waits as traced, but for {duration(idle)} of the whole "
            f"{profile.steps.whole} without the profiler, which slows the host"
        )


def _named(site: Site) -> str:
    return (
        f"{site.cause}{at(site.place)}"
        if str(site.place)
        else f"{site.cause} ({shortened(site.op or site.call, LONGEST_NAME)})"
    )


def unless(profile: Profile, *figures: str) -> Callable[[str], str]:
    """Return what shows a number as it is, or as nothing where one of the figures that it is part of is withheld."""
    hidden = bool(profile.withheld.keys() & set(figures))
    return lambda number: NOTHING if hidden else number


def copy_cells(profile: Profile, separator: str = "") -> Iterator[list[str]]:
    """Yield per group of copies: direction, memory, count, bytes, time, overlapped, exposed, rate, host blocked.

    `separator` stands between the thousands of the count.
    """
    of_copies, of_overlap, of_stalls = (unless(profile, figure) for figure in ("copies", "overlap", "stalls"))
    for group in profile.copies:
        yield [
            group.direction,
            NOTHING if group.host_memory == "none" else group.host_memory,
            of_copies(f"{group.count:{separator}}"),
            of_copies(sizes(group.bytes, group.unsized)),
            of_copies(duration(group.time_ns)),
            of_overlap(duration(group.overlapped_ns)),
            of_overlap(duration(group.exposed_ns)),
            of_copies(rate(group.bandwidth_gbps) if group.bandwidth_gbps is not None else NOTHING),
            of_stalls(duration(group.host_blocked_ns)),
        ]


def why_not(profile: Profile, *figures: str) -> str:
    """Return why figures are not shown, nothing where they are."""
    withheld = profile.withheld
    reason = next((withheld[figure] for figure in figures if figure in withheld), None)
    return f"not shown ({reason.what})" if reason else ""


def doubts(profile: Profile) -> tuple[Missing, ...]:
    """Return what to know before the figures are read, the gravest first."""
    return tuple(entry for entry in profile.missing if entry.level != "absent")


def absences(profile: Profile) -> tuple[Missing, ...]:
    """Return what was not recorded, without which the figures are right all the same."""
    return tuple(entry for entry in profile.missing if entry.level == "absent")


def consequence(entry: Missing) -> str:
    """Return what follows from it for the report, and the way out."""
    figures = [words for figure, words in FIGURES.items() if figure in entry.invalidates]
    shown = f" (not shown: {'all figures' if len(figures) == len(FIGURES) else ', '.join(figures)})" if figures else ""
    return f"{entry.effect}{shown}; {entry.remedy}"


def step_known(step: StepEstimate) -> tuple[str, str] | None:
    """Return the step without profiler and how it is known; None where nothing tells."""
    if step.step_ns is None:
        return None if step.range_ns is None else (between(*step.range_ns), "without profiler; the trace tells no more")
    how = {"measured": "measured without profiler", "given": "as given"}.get(step.source, "estimated without profiler")
    if step.source != "estimated" or step.range_ns is None or step.range_ns[0] == step.range_ns[1]:
        return duration(step.step_ns), how
    return duration(step.step_ns), f"{how} ({between(*step.range_ns)})"


NOT_TOLD = "what fixing this saves cannot be told"


def worth(finding: Finding, profile: Profile) -> str:
    """Return what fixing a finding alone brings; where no replay tells, what goes with it."""
    if finding.saving is None and not finding.evidence.cost_ns:
        return NOT_TOLD
    if finding.saving is None:
        return f"{duration(finding.evidence.cost_ns)} of GPU idle or exposed copy time"
    return _saves(finding.saving, profile) if finding.saving.saving_ns else "fixing this alone saves nothing"


def then_worth(finding: Finding, profile: Profile) -> str:
    """Return what a fix brings with what it makes possible; nothing where that brings no more."""
    then = finding.evidence.then
    if then is None or finding.with_then is None:
        return ""
    return f"with {then.what} ({then.rule}), together: {_saves(finding.with_then, profile)}"


def joint_worth(findings: Findings, profile: Profile) -> str:
    """Return what all fixes together bring; nothing where it is what one of one finding brings, or not known."""
    step_ns = profile.step_ns
    if findings.joint is None or not step_ns or sum(finding.saving is not None for finding in findings) < 2:  # noqa: PLR2004
        return ""
    if not findings.joint.saving_ns:
        return "all of these together save nothing"
    after = step_ns - findings.joint.saving_ns
    return f"all of these together: {between(step_ns, after)}; {_saves(findings.joint, profile)}"


def rates_of(findings: Findings, profile: Profile) -> str:
    """Return whose rates copies have that become pinned; nothing where they are assumed or nothing was replayed."""
    if not findings.machine or not any(finding.saving for finding in findings):
        return ""
    names = sorted({device.name for device in profile.info.devices if device.name})
    other = f"; the trace is of {' and '.join(names)}" if names and findings.machine not in names else ""
    return f"copies that become pinned run at the rates measured on {findings.machine}{other}"


def saved(before_ns: float, after_ns: float, whole: str = "step") -> str:
    """Return what a step of another length brings: "saves 2.18 ms, 16 % of the step", or what it costs.

    `whole` is what counts as a step: `StepTimes.whole`.
    """
    more = after_ns - before_ns
    share = f"{percent(abs(more) / before_ns)} of the {whole}"
    if more > before_ns:
        share = f"{after_ns / before_ns:.3g} times the {whole}"
    return f"{'costs' if more > 0 else 'saves'} {duration(abs(more))}, {share}"


def _saves(saving: Saving, profile: Profile) -> str:
    step_ns = profile.step_ns
    share = f", {percent(saving.saving_ns / step_ns)} of the {profile.steps.whole}" if step_ns else ""
    return f"saves {duration(saving.saving_ns)} ({between(*saving.range_ns)}){share}"


def steps(profile: Profile) -> str:
    """Return how many complete steps there are, and what marks them."""
    times, marker = profile.steps, profile.info.step_marker or profile.steps.marker
    if times.source == WHOLE_TRACE:
        return times.marker
    return f"{counted(times.count, 'complete step')} ({marker})"


def place(at: Place) -> str:
    """Return where a wait was called from: `FILE:LINE (FUNCTION)`, without a line `FUNCTION (FILE)`; else nothing."""
    file, line, function = at
    if file is None or function is None:
        return function or ""
    return f"{function} ({file})" if line is None else f"{file}:{line} ({function})"


def printable(text: str) -> str:
    """Return a text of the trace as people read it: without what a terminal would obey, and cut if it is very long."""
    text = shortened(text, MAX_TEXT)
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def cut(text: str, longest: int = MAX_NAME) -> str:
    """Return a text of the trace as `printable`, cut in its middle if it is longer than given."""
    return shortened(printable(text), longest)
