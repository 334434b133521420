"""What to do: each finding as a row, in the order of what it saves, with whether the short report has it, too."""

from collections.abc import Iterator
from typing import NamedTuple

from pinprof.measurement.profile import Profile
from pinprof.report.words import worth
from pinprof.rules import Finding, Findings
from pinprof.rules.catalogue import pin102_blocking_copies, pin104_unpinned_batches

MOST = 3
"""Findings of the short report, beside one that may give wrong numbers."""
WORTH = 0.01
"""One that saves a smaller share of the step is left to the full report."""
BLOCKING_COPIES, UNPINNED_BATCHES = pin102_blocking_copies.RULE.id, pin104_unpinned_batches.RULE.id
"""Rules of which the first brings something only where the second is mended, too: what to do says both of either."""
_BOTH = frozenset((BLOCKING_COPIES, UNPINNED_BATCHES))


class Action(NamedTuple):
    """A finding as a row of what to do."""

    place: int
    """Among all findings, from 0."""
    finding: Finding
    saves: str
    """What it saves alone, with its share of the step."""
    do: str
    """What to change, in a few words."""
    is_brief: bool
    """Whether the short report has it."""
    is_left_out: bool
    """Whether the short report has it not, and no other row that says the same."""


def actions(profile: Profile, findings: Findings) -> list[Action]:
    """Return all findings as rows."""
    brief = set(_important(profile, findings))
    both = any(findings[place].rule.id in _BOTH for place in brief)
    return [
        Action(
            place,
            finding,
            worth(finding, profile, in_short=True),
            to_do(finding, findings),
            is_brief=place in brief,
            is_left_out=place not in brief and not (both and finding.rule.id in _BOTH),
        )
        for place, finding in enumerate(findings)
    ]


def brief_actions(profile: Profile, findings: Findings) -> list[Action]:
    """Return the rows of the short report."""
    return [action for action in actions(profile, findings) if action.is_brief]


def _important(profile: Profile, findings: Findings) -> Iterator[int]:
    """Yield the places of the findings that save most, and of one that may give wrong numbers.

    Where none alone saves much but all do together, these are the first ones.
    """
    least, joint = WORTH * (profile.step_ns or 0.0), findings.joint.saving_ns if findings.joint else 0.0
    worth_it = [place for place, finding in enumerate(findings) if _brings(finding) >= least]
    copies = next((findings[place].rule.id for place in worth_it if findings[place].rule.id in _BOTH), None)
    worth_it = [place for place in worth_it if findings[place].rule.id not in _BOTH - {copies}]
    yield from (worth_it or (range(len(findings)) if joint >= least > 0 else ()))[:MOST]
    yield from [place for place in worth_it[MOST:] if findings[place].rule.is_hazard][:1]


def _brings(finding: Finding) -> float:
    """Return what a fix saves in ns, at most or for certain; one whose worth nothing tells may be worth any time."""
    if finding.saving is not None:
        return finding.saving.saving_ns
    if finding.most_ns is not None:
        return finding.most_ns
    return finding.evidence.cost_ns or float("inf")


def to_do(finding: Finding, findings: Findings) -> str:
    """Return what to change, in a few words; `findings` are all of the trace."""
    change = finding.rule.change if not finding.evidence.fix else None
    short = change.to if change else finding.fix.split(". ")[0].rstrip(".")
    keep = f". But {finding.evidence.keep}" if finding.evidence.keep else ""
    return short + _pinned_by(finding, findings) + keep


def _pinned_by(finding: Finding, findings: Findings) -> str:
    """Return how a copy with `non_blocking=True` gets its pinned memory, where another finding tells."""
    unpinned = next((each for each in findings if each.rule.id == UNPINNED_BATCHES), None)
    if finding.rule.id != BLOCKING_COPIES or unpinned is None:
        return ""
    if unpinned.evidence.fix:
        return f" ({unpinned.rule.id})"
    return f": {unpinned.rule.fix.split(', and')[0]} ({unpinned.rule.id})"
