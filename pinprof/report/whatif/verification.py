"""A prediction against what was measured, for the terminal."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from pinprof.phrases import WAITS
from pinprof.report.layout import bullet, fact, laid_out, section
from pinprof.report.whatif.text import SOURCES, change_lines, difference, where
from pinprof.report.words import printable
from pinprof.trace.tables import Trace
from pinprof.units import between, duration, percent
from pinprof.whatif.verification import Verification


def to_text(before: Trace, verified: Verification, *, width: int = 100, color: bool = False) -> str:
    """Return the comparison as text for a terminal of this width, with ANSI colours if asked for."""
    return laid_out(_parts(before, verified), width=width, color=color)


def _parts(before: Trace, verified: Verification) -> Iterator[RenderableType]:
    """Yield the comparison, first of all what takes its meaning from the numbers."""
    yield Text(printable(f"{verified.before.path} -> {verified.after.path}"), "bold")
    if not verified.is_same_program:
        yield section("These may not be the same program")
        yield bullet(
            f"only {percent(verified.kernels_alike)} of their kernels per step have the same names: more than the fix "
            "differs between the steps"
        )
    if not verified.changes:
        yield from _changes(before, verified)
    yield section("Step after the fix")
    yield from _step(verified)
    if verified.changes:
        yield from _changes(before, verified)
    if verified.is_same_program and verified.kernels_alike < 1:
        yield bullet(f"{percent(verified.kernels_alike)} of the kernels per step have the same names")


def _step(verified: Verification) -> Iterator[RenderableType]:
    """Yield the steps; without a fix that a replay could tell nothing was predicted that could be right or wrong."""
    made, measured = verified.prediction, verified.measured_range_ns
    if verified.changes:
        yield fact(
            f"{verified.error:+.1%}".replace("%", " %"), "is the error of the prediction against the measured step"
        )
        brings = difference(made.baseline_ns, made.predicted_ns, is_certain=made.is_certain)
        yield fact(duration(made.predicted_ns), f"predicted ({between(*made.range_ns)}): {brings}")
    how = f"{SOURCES[verified.measured_source]} ({between(*measured)})"
    is_certain = not measured[0] <= made.baseline_ns <= measured[1]
    brings = difference(made.baseline_ns, verified.measured_ns, is_certain=is_certain)
    yield fact(duration(verified.measured_ns), f"{how}: {brings}")
    yield fact(duration(made.baseline_ns), f"before the fix, {SOURCES[made.baseline_source]}")


def _changes(before: Trace, verified: Verification) -> Iterator[RenderableType]:
    yield section("What the fix changed")
    if not verified.changes:
        yield bullet(
            "nothing that the replay knows: the second trace has the same waits, copies and allocations as the "
            "first, so no saving is predicted"
        )
    for change in verified.changes:
        yield from map(bullet, change_lines(before, change))
    for site in verified.new_waits:
        yield bullet(f"new, and not in the prediction: {WAITS[site.cause]} {where(site)}")
