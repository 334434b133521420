"""Plan changes of the program that are mechanical and certain, and say why other findings have none."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pinprof.analysis import Analysis
from pinprof.fix.core.facts import Chosen, TraceFacts, Work
from pinprof.fix.core.files import Files
from pinprof.fix.core.fix import UNRECORDED
from pinprof.fix.core.patch import FixError, Patch, Patches, check_patches, joint_saving, patched, write_patches
from pinprof.fix.core.rewrite import ProgramChange, Refusal, RefusedPlace
from pinprof.fix.plan import planned, proposed

__all__ = [
    "UNRECORDED",
    "Chosen",
    "FixError",
    "Patch",
    "Patches",
    "PlannedChanges",
    "ProgramChange",
    "Refusal",
    "RefusedPlace",
    "check_patches",
    "fix",
    "has_diffs",
    "plan_changes",
    "write_patches",
]

ALL = Chosen()


@dataclass(frozen=True)
class PlannedChanges:
    """The changes for the findings of a trace, and the places that stay as they are."""

    certain: tuple[ProgramChange, ...]
    refused: tuple[RefusedPlace, ...]
    files: Files
    analysis: Analysis
    proposals: tuple[ProgramChange, ...] = ()
    """Changes that are not certain."""

    def patches(self, without: Iterable[ProgramChange] = (), taking: Iterable[ProgramChange] = ()) -> Patches:
        """Return the diffs of the certain changes and of the proposals in `taking`, but not of those in `without`.

        The other proposals stay proposals.
        """
        left_out, applied = list(without), list(taking)
        kept = [change for change in self.certain if change not in left_out]
        others = [change for change in self.proposals if change not in applied]
        changed = patched([*kept, *applied], self.refused, self.files, others)
        return replace(changed, saving=joint_saving([patch.change for patch in changed.patches], self.analysis))


def plan_changes(
    analysis: Analysis, scripts: Sequence[str] = (), chosen: Chosen = ALL, folder: Path | None = None
) -> PlannedChanges:
    """Return the changes for the findings of a trace, and the reasons for what is not changed.

    `scripts` are files to take where the trace names others of their name. No file outside of `folder` is changed; if
    none is given, that is the git repository around the working directory, or the latter itself.
    """
    work = _work(analysis, scripts, chosen, folder)
    certain, refused = planned(analysis.findings, work)
    proposals: list[ProgramChange] = []
    if work.chosen.proposes:
        proposals, refused = proposed(analysis.findings, refused, work)
    return PlannedChanges(tuple(certain), tuple(refused), work.files, analysis, tuple(proposals))


def has_diffs(analysis: Analysis) -> bool:
    """Return whether `plan_changes` has a diff for a trace; stop at the first, and do not replay what it saves."""
    work = _work(analysis)
    plans = (planned([finding], work) for finding in analysis.findings)
    return any(changes and patched(changes, refused, work.files).patches for changes, refused in plans)


def _work(analysis: Analysis, scripts: Sequence[str] = (), chosen: Chosen = ALL, folder: Path | None = None) -> Work:
    facts = TraceFacts(analysis)
    recorded = facts.made.sources if facts.made else None
    return Work(facts, Files(analysis.trace.path, scripts, folder, recorded), chosen)


def fix(analysis: Analysis, scripts: Sequence[str] = (), chosen: Chosen = ALL, folder: Path | None = None) -> Patches:
    """Return the diffs for the findings of a trace, and the reasons for what is not changed; see `plan_changes`."""
    return plan_changes(analysis, scripts, chosen, folder).patches()
