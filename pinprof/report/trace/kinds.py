"""The work of a step by phase and by kind of kernel: lines of the short report, tables of the full one, a figure."""

from collections.abc import Iterator

from pinprof.analyses.by_name.kernel_kinds import KindTime
from pinprof.analyses.by_name.kernels import KernelTime
from pinprof.hues import KERNEL, in_the_dark, shades
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import given
from pinprof.report.elements import Column, Markup, hue, inline_html, lines, number_columns
from pinprof.report.trace.by_name import kernel_label
from pinprof.report.view import ReportTable, Section
from pinprof.report.words import NOTHING, printable
from pinprof.trace.phases import OTHER, PHASES
from pinprof.units import duration, how_many, percent

MOST_KINDS = 3
"""Kinds of kernels that the short report names."""
DIGITS = 2
"""Digits of the times of phases, which include the profiler's cost."""
LEAST_KIND, LEAST_OTHER = 0.08, 0.1
"""The least shares of the time of a kind of kernels, and of work in no phase, that the short report names."""
ALL, NONE = 0.95, 0.05
"""A kind runs on tensor cores from the first share of its time on, and not on them up to the second."""
FEWEST = 2
"""The least number of kinds for a comparison."""
MOST_NAMES = 10
"""Names with a part of a bar each; the others share one."""
NAMED = 2
"""Names next to a bar, the costliest first."""
FIGURE = Markup("""<div class="table kinds" role="region" aria-label="Kernels by kind" tabindex="0"><table>
<caption>Kernels by what they do, {}</caption>
<thead><tr><th scope="col">kind</th><th scope="col">names by time</th><th scope="col" class="count">time</th>
<th scope="col">costliest</th></tr></thead>
<tbody>
{}
</tbody></table></div>""")


def phases_in_short(profile: Profile) -> str:
    """Return the host's and the GPU's time of each phase, as traced; empty if that is not known."""
    if profile.launches is None:
        return ""
    phases = profile.launches.phases
    host_ns, gpu_ns = sum(phase.host_ns for phase in phases), sum(phase.kernel_ns for phase in phases)
    named = [
        f"{phase.name} {_both(phase.host_ns, phase.kernel_ns)}"
        for phase in phases
        if phase.name != PHASES[OTHER]
        or phase.host_ns >= LEAST_OTHER * host_ns
        or phase.kernel_ns >= LEAST_OTHER * gpu_ns
    ]
    return f"Host / GPU, traced: {', '.join(named)}"


def _both(host_ns: float, gpu_ns: float) -> str:
    """Return two times, with the unit only once if they share it."""
    host, gpu = duration(host_ns, DIGITS), duration(gpu_ns, DIGITS)
    number, unit = host.split(" ")
    return f"{number if gpu.endswith(f' {unit}') else host} / {gpu}"


def kinds_in_short(profile: Profile) -> str:
    """Return the kinds of kernels with the most time; empty if that is not known."""
    kernels = given(profile.kernels)
    if kernels is None or not kernels.time_ns:
        return ""
    named = [kind for kind in kernels.kinds[:MOST_KINDS] if kind.time_ns >= LEAST_KIND * kernels.time_ns]
    shares = [
        f"{kind.kind} {percent(kind.time_ns / kernels.time_ns)}" + (f" ({cores})" if (cores := on_cores(kind)) else "")
        for kind in named
    ]
    return f"Kernels: {', '.join(shares)}"


def collectives_in_short(profile: Profile) -> str:
    """Return how long collectives run, and how much of that is hidden; empty if there are none."""
    kernels, sums = given(profile.kernels), profile.communication
    if kernels is None or not sums.time_ns:
        return ""
    hidden = percent(1 - sums.exposed_ns / sums.time_ns)
    time = duration(sums.time_ns / profile.steps.divisor)
    return f"Collectives: {time} {profile.steps.per}, waiting included; {hidden} of it behind other kernels"


def on_cores(kind: KindTime) -> str:
    """Return whether kernels of this kind run on tensor cores; empty for kinds that cannot use them."""
    if kind.tensor_core_ns is None or not kind.time_ns:
        return ""
    share = kind.tensor_core_ns / kind.time_ns
    if share >= ALL:
        return "on tensor cores"
    return "no tensor cores" if share <= NONE else f"{percent(share)} on tensor cores"


def kind_sections(profile: Profile) -> Iterator[Section]:
    """Yield the phases, and the kinds of kernels, as tables."""
    if profile.launches:
        title = f"Phases, {profile.steps.per} as traced, with the profiler's cost in it"
        rows = [
            [phase.name or NOTHING, how_many(phase.launches), duration(phase.host_ns), duration(phase.kernel_ns)]
            for phase in profile.launches.phases
        ]
        columns = [Column("phase"), *number_columns("launches", "host", "GPU")]
        yield Section(title, tables=[ReportTable("The host's time until each launch", columns, rows)])
    kernels = given(profile.kernels)
    if kernels is None or not kernels.time_ns:
        return
    title, steps = f"Kinds of kernels, {profile.steps.per}", profile.steps.divisor
    rows = [
        [
            kind.kind,
            how_many(kind.count / steps),
            duration(kind.time_ns / steps),
            percent(kind.time_ns / kernels.time_ns),
            on_cores(kind) or NOTHING,
        ]
        for kind in kernels.kinds
    ]
    columns = [Column("kind"), *number_columns("count", "time", "of all kernels"), Column("tensor cores")]
    notes = list(filter(None, [collectives_in_short(profile)]))
    yield Section(title, tables=[ReportTable("Kernels by what they do", columns, rows)], notes=notes)


def kinds_figure(profile: Profile) -> Markup:
    """Return the kernels by kind, with the share on tensor cores; empty with fewer than two kinds."""
    sums = given(profile.kernels)
    if sums is None or len(sums.kinds) < FEWEST or not sums.time_ns:
        return Markup()
    longest = sums.kinds[0].time_ns or 1
    rows = []
    for kind in sums.kinds:
        names = [row for row in sums.rows if row.kind == kind.kind]
        rows.append(
            Markup(
                '<tr><th scope="row">{}</th><td class="bar">{}</td><td class="count">{}</td><td>{}</td></tr>'
            ).format(
                kind.kind,
                Markup().join(_kind_bar(names, kind, longest)),
                inline_html(
                    f"{duration(kind.time_ns / profile.steps.divisor)}, {percent(kind.time_ns / sums.time_ns)}"
                ),
                _what(names, kind),
            )
        )
    return FIGURE.format(profile.steps.per, lines(rows))


def _kind_bar(names: list[KernelTime], kind: KindTime, longest: int) -> Iterator[Markup]:
    """Yield a part of the bar for each of the costliest names, and one for all others."""
    part = Markup('<span class="hue" style="width:{:.2f}%;{}" title="{}"></span>')
    colours = [hue(*both) for both in zip(shades(KERNEL), shades(in_the_dark(KERNEL)), strict=True)]
    for number, row in enumerate(names[:MOST_NAMES]):
        name = f"{printable(row.name)}: {duration(row.time_ns)}"
        yield part.format(100 * row.time_ns / longest, colours[number % len(colours)], name)
    rest = kind.time_ns - sum(row.time_ns for row in names[:MOST_NAMES])
    if rest > 0:
        yield part.format(100 * rest / longest, hue("var(--muted)"), f"others: {duration(rest)}")


def _what(names: list[KernelTime], kind: KindTime) -> Markup:
    """Return the share on tensor cores, for kinds that can use them, and the costliest names."""
    cores = kind.tensor_core_ns
    share = "" if cores is None or not kind.time_ns else f"{percent(cores / kind.time_ns)} on tensor cores"
    codes = [Markup("<code>{}</code>").format(kernel_label(row.name)) for row in names[:NAMED]]
    return Markup(", ").join([*([Markup("<strong>{}</strong>").format(inline_html(share))] if share else []), *codes])
