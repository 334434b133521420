"""What the user wants changed, and what the changes of one trace share."""

from dataclasses import dataclass, field
from pathlib import PurePath

from pinprof.fix.files import Files
from pinprof.fix.rewrite import Rewrite, Waits
from pinprof.fix.told import Told
from pinprof.trace.lines import Place


@dataclass(frozen=True)
class Chosen:
    """What the user wants changed: everything that is certain, if nothing is said."""

    rules: frozenset[str] = frozenset()
    places: tuple[str, ...] = ()
    """`FILE:LINE`; the end of a path is enough."""
    changes_numbers: bool = False

    def has(self, place: Place) -> bool:
        """Return whether a place is wanted."""
        return not self.places or any(_is_named(named, place) for named in self.places)


def _is_named(named: str, place: Place) -> bool:
    file, _, line = named.rpartition(":")
    if place.file is None or line != str(place.line):
        return False
    wanted, parts = PurePath(file).parts, PurePath(place.file).parts
    shorter = min(len(wanted), len(parts))
    return shorter > 0 and wanted[-shorter:] == parts[-shorter:]


@dataclass
class Work:
    """All that the changes of one trace need."""

    told: Told
    files: Files
    chosen: Chosen
    done: dict[tuple[str, int, str], str] = field(default_factory=dict)
    """The rule for which each rewrite is made: by file, node and what it does."""
    made: list[Rewrite] = field(default_factory=list)
    waits: list[Waits] = field(default_factory=list)
    """What becomes of the waits that the changes take away."""
