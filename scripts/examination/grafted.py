"""Findings for `pinprof fix` without a GPU, from what `pretend` noted of a program's lines on a CPU.

Each line that does something in each step is a finding of its rule, without a known saving.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pinprof.fix.core.facts import Chosen, CopiesAt, TraceFacts, Work
from pinprof.fix.core.files import Files
from pinprof.fix.core.patch import Patches, patched
from pinprof.fix.plan import planned, proposed
from pinprof.trace.constructors import Made, MadeLoader, MadeOptimizer

from pinprof.rules import Evidence, Finding, Saving, rule_of
from pinprof.trace.lines import Place

Row = dict[str, Any]
Copies = dict[Place, CopiesAt]

SAVING = Saving(1e6, (0.5e6, 2e6))
"""Any saving: no time was measured."""
CPUS = 16
TORCH = 2, 11
WAITING = {"PIN201", "PIN202", "PIN203", "PIN204"}
"""Rules at whose lines the host reads something of the GPU, and waits for it."""
LAST_IS_CUT = 1
"""The last step ends in the optimizer: lines after that run one time less."""


class Grafted(TraceFacts):
    """The facts that `fix` needs, without a trace."""

    def __init__(
        self,
        made: Made,
        copies: dict[Place, CopiesAt],
        emptied: tuple[Place, ...],
        *,
        often: set[Place],
        waiting: set[Place],
        steps: int,
    ) -> None:
        self.made = made
        self._waiting = frozenset((place.file, place.line) for place in waiting)
        self._steps = steps
        self._copies, self._emptied, self._often = copies, emptied, often

    torch_version = property(lambda _: TORCH)
    has_scaler = property(lambda _: False)
    has_sparse_gradients = property(lambda _: False)
    processes = property(lambda _: 1)
    gpus = property(lambda _: 1)
    waiting = property(lambda self: self._waiting)
    steps_before = property(lambda _: 0)
    steps = property(lambda self: self._steps)
    allocating = property(lambda self: self._emptied)

    def copies_at(self, place: Place) -> CopiesAt | None:
        """Return the copies that were noted at a place."""
        return self._copies.get(place)

    def waits_in_a_loop(self, place: Place) -> bool:
        """Return whether a line ran several times in a step."""
        return place in self._often


def seen_lines(notes: Path) -> set[tuple[str, int]]:
    """Return the lines that did something in each step: a finding is made of each."""
    noted = json.loads(notes.read_text())
    least = max(noted["steps"] - LAST_IS_CUT, 1)
    return {(file, line) for _, file, line, _, count in noted["sites"] if count >= least}


def grafted(notes: Path, top: Path, working: Path, chosen: Chosen) -> Patches:
    """Return what `fix` changes of a program below a folder, which ran in `working`, by what was noted of it."""
    noted = json.loads(notes.read_text())
    steps = noted["steps"]
    sites = [(kind, Place(file, line, name), count) for kind, file, line, name, count in noted["sites"]]
    regular = [site for site in sites if site[2] >= max(steps - LAST_IS_CUT, 1)]
    made = _made(noted["made"], working, top)
    emptied = tuple(place for kind, place, _ in regular if kind == "PIN303")
    often = {place for _, place, count in regular if count >= 2 * steps}
    waiting = {place for kind, place, _ in sites if kind in WAITING}
    facts = Grafted(made, _copies(sites), emptied, often=often, waiting=waiting, steps=steps)
    findings = [_finding(rule, place) for rule, place in dict.fromkeys(_rules_and_places(regular, made))]
    files = Files(str(notes), (), top, made.sources)
    work = Work(facts, files, chosen)
    changes, refused = planned(findings, work)
    proposals, refused = proposed(findings, refused, work) if chosen.proposes else ([], refused)
    return patched(changes, refused, files, proposals)


def _rules_and_places(regular: list[tuple[str, Place, int]], made: Made) -> Iterator[tuple[str, Place]]:
    yield from ((kind, place) for kind, place, _ in regular if kind.startswith("PIN"))
    if made.optimizers:
        yield "PIN602", made.optimizers[0].place
    for loader in made.drawn:
        yield "PIN401" if loader.num_workers else "PIN402", loader.place


def _finding(rule: str, place: Place) -> Finding:
    return Finding(rule_of(rule), "high", Evidence(1e6, "noted", *place), SAVING)


def _copies(sites: list[tuple[str, Place, int]]) -> dict[Place, CopiesAt]:
    directions: dict[Place, list[tuple[str, bool]]] = defaultdict(list)
    for kind, place, _ in sites:
        if kind.startswith("copy") or kind == "PIN209":
            directions[place].append(("HtoD", kind == "copy pinned"))
        elif kind in WAITING:
            directions[place].append(("DtoH", False))
    return {
        place: CopiesAt(frozenset(direction for direction, _ in copies), all(pinned for _, pinned in copies))
        for place, copies in directions.items()
    }


def _made(row: Row, working: Path, top: Path) -> Made:
    def whole(file: str) -> str:
        return str(_found_below(file, working, top))

    def placed(constructed: Row) -> Row:
        return {**constructed, "file": whole(constructed["file"])}

    loaders = tuple(
        MadeLoader(**{**placed(loader), "loops": tuple(Place(whole(file), line, name) for file, line, name in loops)})
        for loader in row["loaders"]
        if (loops := loader["loops"]) is not None
    )
    optimizers = tuple(
        replace(MadeOptimizer(**placed(optimizer)), plain_on_gpu=True) for optimizer in row["optimizers"]
    )
    return Made(loaders, optimizers, CPUS, {whole(file): sha for file, sha in row["sources"].items()}, row["more"])


def _found_below(file: str, working: Path, top: Path) -> Path:
    """Return the file that a recording names: from the working folder, or from a folder on the path."""
    near = (working / file).resolve()
    return near if near.exists() else next(iter(sorted(top.rglob(file))), near)
