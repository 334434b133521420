"""Changes the program where a finding's change is mechanical and certain, and says why not where it is not."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pinprof.analysis import Analysis
from pinprof.fix.core.facts import Chosen, TraceFacts, Work
from pinprof.fix.core.files import Files
from pinprof.fix.core.fix import UNRECORDED
from pinprof.fix.core.patch import FixError, Patch, Patches, check_patches, joint_saving, patched, write_patches
from pinprof.fix.core.rewrite import Mend, Refusal, RefusedPlace
from pinprof.fix.plan import planned, proposed

__all__ = [
    "UNRECORDED",
    "Chosen",
    "FixError",
    "Mend",
    "Patch",
    "Patches",
    "ProgramChanges",
    "Refusal",
    "RefusedPlace",
    "changes",
    "check_patches",
    "fix",
    "has_diffs",
    "write_patches",
]

ALL = Chosen()


@dataclass(frozen=True)
class ProgramChanges:
    """What could be changed in a program, and why the rest could not."""

    mends: tuple[Mend, ...]
    refused: tuple[RefusedPlace, ...]
    files: Files
    analysis: Analysis
    proposals: tuple[Mend, ...] = ()
    """What could be changed too, and is not certain."""

    def patches(self, without: Iterable[Mend] = (), taking: Iterable[Mend] = ()) -> Patches:
        """Return the diffs of all changes but some, and of some proposals; those of the others as proposals."""
        left_out, taken = list(without), list(taking)
        kept = [mend for mend in self.mends if mend not in left_out]
        others = [mend for mend in self.proposals if mend not in taken]
        changed = patched([*kept, *taken], self.refused, self.files, others)
        return replace(changed, saving=joint_saving([patch.mend for patch in changed.patches], self.analysis))


def changes(
    analysis: Analysis, scripts: Sequence[str] = (), chosen: Chosen = ALL, folder: Path | None = None
) -> ProgramChanges:
    """Return the changes for the findings of a trace, and the reasons for what is not changed.

    `scripts` are files to take where the trace names others of their name. No file outside of `folder` is changed; if
    none is given, that is the git repository around the working directory, or the latter itself.
    """
    work = _work(analysis, scripts, chosen, folder)
    mends, refused = planned(analysis.findings, work)
    proposals: list[Mend] = []
    if work.chosen.proposes:
        proposals, refused = proposed(analysis.findings, refused, work)
    return ProgramChanges(tuple(mends), tuple(refused), work.files, analysis, tuple(proposals))


def has_diffs(analysis: Analysis) -> bool:
    """Return whether `changes` has a diff for a trace: the first one suffices, and what it saves is not replayed."""
    work = _work(analysis)
    plans = (planned([finding], work) for finding in analysis.findings)
    return any(mends and patched(mends, refused, work.files).patches for mends, refused in plans)


def _work(analysis: Analysis, scripts: Sequence[str] = (), chosen: Chosen = ALL, folder: Path | None = None) -> Work:
    facts = TraceFacts(analysis)
    recorded = facts.made.sources if facts.made else None
    return Work(facts, Files(analysis.trace.path, scripts, folder, recorded), chosen)


def fix(analysis: Analysis, scripts: Sequence[str] = (), chosen: Chosen = ALL, folder: Path | None = None) -> Patches:
    """Return the diffs for the findings of a trace, and the reasons for what is not changed, as `changes` has them."""
    return changes(analysis, scripts, chosen, folder).patches()
