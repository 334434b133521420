"""What a trace shows besides its findings, what the user wants changed, and what the changes of a trace share."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath

from pinprof.analyses.syncs import ALLOCATIONS, WAITS
from pinprof.analysis import Analysis
from pinprof.fix.core.files import Files
from pinprof.fix.core.rewrite import NotSafe, Rewrite, Waits
from pinprof.trace.constructors import Made, MadeLoader
from pinprof.trace.lines import Place
from pinprof.trace.tables import DIRECTIONS, HTOD, PINNED

UNSCALE = "_amp_foreach_non_finite_check_and_unscale_"
"""The op by which a GradScaler looks at gradients."""
SPARSE = "sparse_backward"
"""A part of the names of ops that make sparse gradients."""
AT_ONCE = 1.5
"""Waits per step from which on a place waits in a loop within the step."""


FOR_ALL = frozenset(name for name, cause in WAITS.items() if cause.empties_stream)
"""Causes of waits behind which the GPU has done all that it was given on the stream of the program."""


@dataclass(frozen=True)
class CopiesAt:
    """The copies of the complete steps that one place launched."""

    directions: frozenset[str]
    pinned: bool
    """Whether all of them are between pinned memory and the GPU."""


class TraceFacts:
    """What one trace shows."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.made: Made | None = analysis.trace.info.made

    @property
    def steps_before(self) -> int:
        """How many steps the program had made before the recorded ones, as far as the trace shows."""
        return self.analysis.trace.info.steps_before or 0

    @property
    def steps(self) -> int:
        """How many whole steps were recorded."""
        return self.analysis.profile.steps.count

    @property
    def processes(self) -> int:
        """How many processes share the machine's cores, as far as the trace shows."""
        return self.analysis.trace.info.world_size or 1

    @property
    def gpus(self) -> int:
        """How many GPUs the process uses."""
        return len(self.analysis.profile.gpus)

    @property
    def allocating(self) -> tuple[Place, ...]:
        """The places at which memory of the GPU was allocated or freed."""
        sites = self.analysis.details.syncs.sites
        return tuple(dict.fromkeys(site.place for site in sites if site.cause in ALLOCATIONS))

    @cached_property
    def waiting(self) -> frozenset[tuple[str, int]]:
        """The lines at which the host waited for all work that it had given to a GPU."""
        sites = self.analysis.details.syncs.sites
        return frozenset((site.file, site.line) for site in sites if site.file and site.line and site.cause in FOR_ALL)

    @cached_property
    def torch_version(self) -> tuple[int, int]:
        """The version of torch, as far as it counts; (0, 0) where it is not known."""
        found = re.match(r"(\d+)\.(\d+)", self.analysis.trace.info.torch_version or "")
        return (int(found[1]), int(found[2])) if found else (0, 0)

    @cached_property
    def has_scaler(self) -> bool:
        """Whether a GradScaler was at work."""
        return bool(self.analysis.trace.ops.named(lambda name: UNSCALE in name).any())

    @cached_property
    def has_sparse_gradients(self) -> bool:
        """Whether a gradient was made that is sparse, as that of `Embedding(sparse=True)`."""
        return bool(self.analysis.trace.ops.named(lambda name: SPARSE in name).any())

    @cached_property
    def _copies(self) -> Mapping[Place, CopiesAt]:
        details = self.analysis.details
        rows, gpu = details.overlap.row, details.trace.gpu
        found: dict[Place, list[tuple[str, bool]]] = {}
        for row, line in zip(rows.tolist(), details.copy_places, strict=True):
            if line is not None:
                pinned = bool(gpu.host_memory[row] == PINNED)
                found.setdefault(line.place, []).append((DIRECTIONS[gpu.direction[row]], pinned))
        return {
            place: CopiesAt(frozenset(way for way, _ in copies), all(pinned for _, pinned in copies))
            for place, copies in found.items()
        }

    def copies_at(self, place: Place) -> CopiesAt | None:
        """Return the copies that a place launched; None without any."""
        return self._copies.get(place)

    def are_to_gpu(self, place: Place) -> bool:
        """Return whether a place copies to the GPU, and not back."""
        copies = self.copies_at(place)
        return copies is not None and copies.directions == {DIRECTIONS[HTOD]}

    @property
    def drawn(self) -> tuple[MadeLoader, ...]:
        """The DataLoaders from which the recorded steps drew."""
        return self.made.drawn if self.made else ()

    def loaders_at(self, place: Place) -> tuple[MadeLoader, ...]:
        """Return the DataLoaders that the program makes at a place."""
        return tuple(loader for loader in self.made.loaders if loader.place == place) if self.made else ()

    def loader_of(self, place: Place, loop: int) -> MadeLoader | None:
        """Return the only DataLoader from which the loop in a line of the function of `place` begins to draw."""
        begins = place._replace(line=loop)
        here = [loader for loader in self.drawn if begins in loader.loops]
        return here[0] if len(here) == 1 else None

    def waits_in_a_loop(self, place: Place) -> bool:
        """Return whether a place waits several times in a step."""
        here = [site for site in self.analysis.details.syncs.sites if site.place == place]
        return bool(self.steps) and any(site.in_steps.count / self.steps >= AT_ONCE for site in here)


@dataclass(frozen=True)
class Chosen:
    """What the user wants changed: everything that is certain, if nothing is said."""

    rules: frozenset[str] = frozenset()
    places: tuple[str, ...] = ()
    """`FILE:LINE`; the end of a path is enough."""
    changes_numbers: bool = False
    proposes: bool = False
    """Whether changes that are not certain are wanted too, as proposals."""

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

    facts: TraceFacts
    files: Files
    chosen: Chosen
    done: dict[tuple[str, int, str], str] = field(default_factory=dict)
    """The rule for which each rewrite is made: by file, node and what it does."""
    made: list[Rewrite] = field(default_factory=list)
    waits: list[Waits] = field(default_factory=list)
    """What becomes of the waits that the changes take away."""
    doubts: list[str] | None = None
    """Gets the reasons why a proposal is not certain; None while only certain changes are made."""

    @contextmanager
    def condition(self) -> Iterator[None]:
        """Check in this block what must hold for a change to be certain: NotSafe ends the change, or is its doubt."""
        try:
            yield
        except NotSafe as reason:
            if self.doubts is None:
                raise
            self.doubts.append(str(reason))
