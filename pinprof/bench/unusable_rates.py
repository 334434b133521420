"""Rates that a link cannot carry: rounds that differ so much that their spread goes beyond it say nothing."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Struct

from pinprof.bench.order import by_size, shown, spread
from pinprof.bench.results import Bench, Figure
from pinprof.document import Count, Words, doc
from pinprof.pci_express import Link
from pinprof.units import rate, size

WAYS = ("HtoD", "DtoH")
ON_THE_GPU = "DtoD"
"""Copies that do not go over the link."""
LARGE_BYTES = 1024**2
"""From this size on a copy shows the rate of the link; below it the time to start decides."""


class Refused(Struct, frozen=True):
    """A rate that is not used, as its spread goes beyond what the link carries."""

    number: Annotated[str, doc("the experiment, `E1` to `E15`")]
    figure: Annotated[str, doc("the figure's name")]
    size: Annotated[Count | None, doc("at which size, where it was measured at several")]
    text: Annotated[Words, doc("why, with figures")]


def refused(bench: Bench) -> list[Refused]:
    """Return the rates of a bench that are not used."""
    return [
        Refused(result.number, figure.name, figure.size, reason)
        for result in bench.results
        for figure in result.figures
        if (reason := why_refused(bench, figure))
    ]


def why_refused(bench: Bench, figure: Figure) -> str:
    """Return why a rate is not used: its spread goes beyond what the link carries. Empty if it is used."""
    link = bench.machine.link
    if link is None or figure.unit != "GB/s" or figure.name == ON_THE_GPU or figure.high <= link.theoretical:
        return ""
    if is_faster_than_reported(bench, link):
        return ""
    at = f" at {size(figure.size)}" if figure.size is not None else ""
    return (
        f"the rounds differ too much: {figure.name}{at} {shown(figure)} ({spread(figure) or 'one run'}), where "
        f"{link.name} carries {rate(link.theoretical)}"
    )


def is_faster_than_reported(bench: Bench, link: Link) -> bool:
    """Return whether copies go faster than the link that the driver reports, as that of an idle one may be slower.

    All of one rate's spread says so, or the medians of most rates of large pinned copies.
    """
    result = bench.result("E13")
    figures = [figure for way in WAYS for figure in (by_size(result, f"{way} pinned") if result else ())]
    large = [figure for figure in figures if (figure.size or 0) >= LARGE_BYTES]
    beyond = sum(figure.median > link.theoretical for figure in large)
    return any(figure.low > link.theoretical for figure in large) or 2 * beyond > len(large)


def usable(bench: Bench, figures: Sequence[Figure]) -> list[Figure]:
    """Return the figures without the rates that are refused."""
    return [figure for figure in figures if not why_refused(bench, figure)]
