"""What fixes need of a trace besides its findings, which changes the user wants, and which are made so far."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath

from pinprof.analyses.syncs import ALLOCATIONS, WAITS
from pinprof.analysis import Analysis
from pinprof.fix.core.clock_names import ClockNames
from pinprof.fix.core.files import Files
from pinprof.fix.core.rewrite import NotSafe, Rewrite, Waits
from pinprof.trace.constructors import Made, MadeLoader
from pinprof.trace.lines import Place
from pinprof.trace.tables import DIRECTIONS, HTOD, PINNED

UNSCALE = "_amp_foreach_non_finite_check_and_unscale_"
"""The op by which a GradScaler looks at gradients."""
SPARSE = "sparse_backward"
"""A part of the names of ops that make sparse gradients."""
LEAST_IN_LOOP = 1.5
"""A place with at least this many waits per step waits in a loop within the step."""

EMPTYING = frozenset(name for name, cause in WAITS.items() if cause.empties_stream)
"""Causes of waits after which the GPU has done all work on the program's stream."""


@dataclass(frozen=True)
class CopiesAt:
    """The copies of the complete steps that one place launched."""

    directions: frozenset[str]
    pinned: bool
    """Whether all of them are between pinned memory and the GPU."""


class TraceFacts:
    """What one trace shows of the program and its machine."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.made: Made | None = analysis.trace.info.made

    @property
    def steps_before(self) -> int:
        """The steps before the recorded ones, as far as the trace shows."""
        return self.analysis.trace.info.steps_before or 0

    @property
    def steps(self) -> int:
        """The whole steps that were recorded."""
        return self.analysis.profile.steps.count

    @property
    def processes(self) -> int:
        """The processes that share the machine's cores, as far as the trace shows."""
        return self.analysis.trace.info.world_size or 1

    @property
    def gpus(self) -> int:
        """The number of GPUs that the process uses."""
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
        return frozenset((site.file, site.line) for site in sites if site.file and site.line and site.cause in EMPTYING)

    @cached_property
    def torch_version(self) -> tuple[int, int]:
        """Major and minor version of torch; (0, 0) if unknown."""
        match = re.match(r"(\d+)\.(\d+)", self.analysis.trace.info.torch_version or "")
        return (int(match[1]), int(match[2])) if match else (0, 0)

    @cached_property
    def has_scaler(self) -> bool:
        """Whether a GradScaler was at work."""
        return bool(self.analysis.trace.ops.named(lambda name: UNSCALE in name).any())

    @cached_property
    def has_sparse_gradients(self) -> bool:
        """Whether an op made sparse gradients, such as `Embedding(sparse=True)`."""
        return bool(self.analysis.trace.ops.named(lambda name: SPARSE in name).any())

    @cached_property
    def _copies(self) -> Mapping[Place, CopiesAt]:
        details = self.analysis.details
        rows, gpu = details.overlap.row, details.trace.gpu
        by_place: dict[Place, list[tuple[str, bool]]] = {}
        for row, line in zip(rows.tolist(), details.copy_places, strict=True):
            if line is not None:
                pinned = bool(gpu.host_memory[row] == PINNED)
                by_place.setdefault(line.place, []).append((DIRECTIONS[gpu.direction[row]], pinned))
        return {
            place: CopiesAt(frozenset(way for way, _ in copies), all(pinned for _, pinned in copies))
            for place, copies in by_place.items()
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
        loaders = [loader for loader in self.drawn if begins in loader.loops]
        return loaders[0] if len(loaders) == 1 else None

    def waits_in_a_loop(self, place: Place) -> bool:
        """Return whether a place waits several times in a step."""
        sites = [site for site in self.analysis.details.syncs.sites if site.place == place]
        return bool(self.steps) and any(site.in_steps.count / self.steps >= LEAST_IN_LOOP for site in sites)


@dataclass(frozen=True)
class Chosen:
    """Which changes the user wants: by default, all that are certain."""

    rules: frozenset[str] = frozenset()
    places: tuple[str, ...] = ()
    """`FILE:LINE`; the end of a path is enough."""
    changes_numbers: bool = False
    proposes: bool = False
    """Whether to propose changes that are not certain."""

    def has(self, place: Place) -> bool:
        """Return whether a place is wanted."""
        return not self.places or any(_is_named(named, place) for named in self.places)


def _is_named(named: str, place: Place) -> bool:
    file, _, line = named.rpartition(":")
    if place.file is None or line != str(place.line):
        return False
    named_parts, parts = PurePath(file).parts, PurePath(place.file).parts
    shorter = min(len(named_parts), len(parts))
    return shorter > 0 and named_parts[-shorter:] == parts[-shorter:]


@dataclass
class Work:
    """What is known and wanted of one trace, and the changes made so far."""

    facts: TraceFacts
    files: Files
    chosen: Chosen
    done: dict[tuple[str, int, str], str] = field(default_factory=dict)
    """By `Rewrite.key`: the rule for which the rewrite is made."""
    made: list[Rewrite] = field(default_factory=list)
    waits: list[Waits] = field(default_factory=list)
    """The waits that the changes remove."""
    doubts: list[str] | None = None
    """Collects why a proposal is not certain; None while only certain changes are planned."""
    clock_names: dict[Path, ClockNames] = field(default_factory=dict)
    """By source file: `ClockNames` parses all files around one."""

    @contextmanager
    def condition(self) -> Iterator[None]:
        """Run a check in this block. If it raises NotSafe, a certain change ends, and a proposal gets a doubt."""
        try:
            yield
        except NotSafe as reason:
            if self.doubts is None:
                raise
            self.doubts.append(str(reason))
