"""What to do: findings as rows, the largest saving first, and the commands for the next step."""

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from pinprof import urls
from pinprof.measurement.profile import Profile
from pinprof.report.words import printable, then_worth, worth
from pinprof.rules.catalogue import pin105_batches_without_pin_memory
from pinprof.rules.rule import Finding, Findings

MOST = 3
"""Findings of the short report, besides one that may give wrong numbers."""
WORTH = 0.01
"""Findings that save a smaller share of the step are only in the full report."""
DROP_SYNCS = "--drop-syncs"
"""The option that removes the waits of a finding from the replayed program; it needs a place."""

NOT_PINNED = pin105_batches_without_pin_memory.RULE.id
"""A rule that the short report always has: the program asks for pinned memory and does not get it."""


class Action(NamedTuple):
    """A finding as a row of what to do."""

    number: int
    """Its index among all findings."""
    finding: Finding
    saves: str
    """What it saves alone, with its share of the step."""
    do: str
    """What to change, in a few words."""
    then: str
    """What the change makes possible, and what both save; empty where that is not more."""
    is_brief: bool
    """Whether it is in the short report."""


def actions(profile: Profile, findings: Findings) -> list[Action]:
    """Return all findings as rows."""
    brief = set(_important(profile, findings))
    return [
        Action(
            number,
            finding,
            worth(finding, profile, in_short=True),
            to_do(finding),
            then_worth(finding, profile),
            is_brief=number in brief,
        )
        for number, finding in enumerate(findings)
    ]


def brief_actions(profile: Profile, findings: Findings) -> list[Action]:
    """Return the rows of the short report."""
    return [action for action in actions(profile, findings) if action.is_brief]


def _important(profile: Profile, findings: Findings) -> Iterator[int]:
    """Yield the indices of the findings that save most, of one that may give wrong numbers, and of unpinned batches.

    If none saves much alone but all do together, they are the first ones.
    """
    least, joint = WORTH * (profile.step_ns or 0.0), findings.joint.saving_ns if findings.joint else 0.0
    worth_it = [number for number, finding in enumerate(findings) if _saved_ns(finding) >= least]
    yield from (worth_it or (range(len(findings)) if joint >= least > 0 else ()))[:MOST]
    yield from [number for number in worth_it[MOST:] if findings[number].rule.is_hazard][:1]
    yield from [number for number, of in enumerate(findings) if of.rule.id == NOT_PINNED and _saved_ns(of)]


def _saved_ns(finding: Finding) -> float:
    """Return what a fix saves in ns, predicted or at most; infinity if that is unknown."""
    if finding.saving is not None:
        return finding.saving.saving_ns
    if finding.most_ns is not None:
        return finding.most_ns
    return finding.evidence.cost_ns or float("inf")


def to_do(finding: Finding) -> str:
    """Return what to change, in a few words."""
    change = finding.rule.change if not finding.evidence.fix else None
    short = change.to if change else finding.fix.split(". ")[0].rstrip(".")
    return short + (f". But {finding.evidence.keep}" if finding.evidence.keep else "")


def trace_argument(profile: Profile) -> str:
    """Return a trace as an argument of a command."""
    return "-" if profile.path == urls.shown(urls.STANDARD_INPUT) else shlex.quote(printable(profile.path))


def whatif_command(profile: Profile, findings: Findings) -> str:
    """Return the command that predicts the first change worth doing, or, without one, compares all changes.

    It is empty if the trace is not fit for predictions.
    """
    if not profile.gpus or profile.withheld.estimate:
        return ""
    options = next(
        (words for action in brief_actions(profile, findings) if (words := whatif_options(action.finding))), ""
    )
    return f"pinprof whatif {shlex.quote(profile.path)} {options}".rstrip()


def whatif_options(finding: Finding) -> str:
    """Return the options of `pinprof whatif` for the change that a finding asks for; empty if there are none."""
    options, named = finding.rule.what_if, finding.evidence.place.names
    if options != DROP_SYNCS:
        return options
    if finding.saving is None:
        return ""
    return f"{options} {shlex.quote(named[0]) if named and not finding.evidence.sites else 'all'}"
