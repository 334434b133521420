"""A picture of the kernels' time: a bar for each kind of kernel, made of the names that cost most."""

from collections.abc import Iterator

from pinprof.analyses.by_name.kernel_kinds import KindTime
from pinprof.analyses.by_name.kernels import KernelTime
from pinprof.hues import KERNEL, in_the_dark, shades
from pinprof.measurement.known import given
from pinprof.measurement.profile import Profile
from pinprof.report.elements import Markup, hue, inline_html, lines
from pinprof.report.trace.by_name import kernel_label
from pinprof.report.words import printable
from pinprof.units import duration, percent

FEWEST = 2
"""The least number of kinds for a comparison."""
MOST = 10
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
    for number, row in enumerate(names[:MOST]):
        name = f"{printable(row.name)}: {duration(row.time_ns)}"
        yield part.format(100 * row.time_ns / longest, colours[number % len(colours)], name)
    rest = kind.time_ns - sum(row.time_ns for row in names[:MOST])
    if rest > 0:
        yield part.format(100 * rest / longest, hue("var(--muted)"), f"others: {duration(rest)}")


def _what(names: list[KernelTime], kind: KindTime) -> Markup:
    """Return the share on tensor cores, for kinds that can use them, and the costliest names."""
    cores = kind.tensor_core_ns
    share = "" if cores is None or not kind.time_ns else f"{percent(cores / kind.time_ns)} on tensor cores"
    codes = [Markup("<code>{}</code>").format(kernel_label(row.name)) for row in names[:NAMED]]
    return Markup(", ").join([*([Markup("<strong>{}</strong>").format(inline_html(share))] if share else []), *codes])
