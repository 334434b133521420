"""Findings as all reports show them, the largest saving first, and the commands for the next step."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from pinprof.ground import urls
from pinprof.measurement.profile import Profile
from pinprof.report.words import place, printable, then_worth, with_more_sites, worth
from pinprof.rules.catalogue import pin105_batches_without_pin_memory
from pinprof.rules.rule import Finding, Findings, Rule

MAX_BRIEF_FINDINGS = 3
"""Findings of the short report, besides one that may give wrong numbers."""
MIN_SAVED_SHARE_OF_STEP = 0.01
"""Findings that save a smaller share of the step are only in the full report."""
DROP_SYNCS = "--drop-syncs"
"""The option that removes the waits of a finding from the replayed program; it needs a place."""

NOT_PINNED = pin105_batches_without_pin_memory.RULE.id
"""A rule that the short report always has: the program asks for pinned memory and does not get it."""


@dataclass(frozen=True)
class FindingView:
    """A finding in words; those that quote the trace are not yet made safe to show."""

    number: int
    """Its index among all findings."""
    finding: Finding
    rule: Rule
    where: str
    """The place of the costliest site, and how many more sites there are; empty if it is not known."""
    worth: str
    """What it saves alone, with its share of the step."""
    worth_in_short: str
    do: str
    """What to change, in a few words."""
    then: str
    """What the change makes possible, and what both save; empty where that is not more."""
    is_brief: bool
    """Whether it is in the short report."""


def finding_views(profile: Profile, findings: Findings) -> list[FindingView]:
    """Return all findings in words."""
    brief = set(_important(profile, findings))
    return [
        FindingView(
            number,
            finding,
            rule=finding.rule,
            where=with_more_sites(place(finding.evidence.place), len(finding.sites)),
            worth=worth(finding, profile),
            worth_in_short=worth(finding, profile, in_short=True),
            do=to_do(finding),
            then=then_worth(finding, profile),
            is_brief=number in brief,
        )
        for number, finding in enumerate(findings)
    ]


def brief_views(profile: Profile, findings: Findings) -> list[FindingView]:
    """Return the findings of the short report."""
    return [view for view in finding_views(profile, findings) if view.is_brief]


def named(finding: Finding) -> str:
    """Return the title of a finding with the number of its rule, for `pinprof explain`."""
    return f"{finding.title} ({finding.rule.id})"


def _important(profile: Profile, findings: Findings) -> Iterator[int]:
    """Yield the indices of the findings that save most, of one that may give wrong numbers, and of unpinned batches.

    If none saves much alone but all do together, they are the first ones.
    """
    least_ns = MIN_SAVED_SHARE_OF_STEP * (profile.step_ns or 0.0)
    joint_ns = findings.joint.saving_ns if findings.joint else 0.0
    worth_it = [number for number, finding in enumerate(findings) if _saved_ns(finding) >= least_ns]
    yield from (worth_it or (range(len(findings)) if joint_ns >= least_ns > 0 else ()))[:MAX_BRIEF_FINDINGS]
    yield from [number for number in worth_it[MAX_BRIEF_FINDINGS:] if findings[number].rule.is_hazard][:1]
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
    options = filter(None, (_whatif_options(view.finding) for view in brief_views(profile, findings)))
    return f"pinprof whatif {shlex.quote(profile.path)} {next(options, '')}".rstrip()


def _whatif_options(finding: Finding) -> str:
    options, names = finding.rule.what_if, finding.evidence.place.names
    if options != DROP_SYNCS:
        return options
    if finding.saving is None:
        return ""
    return f"{options} {shlex.quote(names[0]) if names and not finding.evidence.sites else 'all'}"
