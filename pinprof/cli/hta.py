"""What `pinprof report --hta` adds: HTA's breakdowns of each trace."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeAlias

from pinprof.cli.terminal import fail, page_options, progress, show
from pinprof.urls import STANDARD_INPUT, shown

if TYPE_CHECKING:
    from pinprof.hta.breakdowns import Breakdown

    Told: TypeAlias = dict[str, Breakdown]
    """HTA's figures on traces, by the paths that the report shows."""

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415


def hta_of(files: Sequence[str], ranks: Sequence[int] = ()) -> "Told":
    """Return HTA's figures on each file that is a trace; without `ranks` it finds their ranks itself.

    It skips other files silently, because the report names them.
    """
    from pinprof.errors import TraceError
    from pinprof.hta.breakdowns import breakdown_of

    told = {}
    for place, path in enumerate(files):
        if path == STANDARD_INPUT:
            fail("--hta reads a trace twice, and standard input can be read once; name a file")
        with progress(f"asking HTA about {PurePath(shown(path)).name} ({place + 1} of {len(files)})"):
            try:
                told[shown(path)] = breakdown_of(path, ranks[place] if ranks else None)
            except TraceError:
                continue
    return told


def print_hta(told: "Told") -> None:
    """Print HTA's figures, if there are any, as wide as the terminal."""
    from pinprof.report.trace.hta import to_text

    if told:
        width, color = page_options()
        show(to_text(list(told.values()), width=width, color=color) + "\n")
