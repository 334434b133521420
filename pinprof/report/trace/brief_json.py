"""The short report as JSON in a few kB, for language models, with ids of the evidence."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pinprof import urls
from pinprof.analyses.host_samples import CalledLine
from pinprof.document import encoded_within, filled, maybe_ms, range_ms
from pinprof.documents import brief as documents
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust import FIGURE_KINDS, Doubt
from pinprof.measurement.trust.doubt import given
from pinprof.ranks.rank import Ranks
from pinprof.report.job.view import longest_alone_first
from pinprof.report.job.view import verdict_line as verdict_of_job
from pinprof.report.source import PLAIN, Code, Quoting
from pinprof.report.trace.actions import Action, actions, brief_actions, whatif_command
from pinprof.report.trace.findings_json import finding_of, joint_of, verdict_of
from pinprof.report.trace.first_screen import first_screen
from pinprof.report.trace.host import input_remedy, named_lines, running_code, share_of
from pinprof.report.trace.verdict import headline
from pinprof.report.words import capitalized, cut, figures_not_given, printable
from pinprof.rules.rule import Finding, Findings
from pinprof.trace.lines import Place
from pinprof.trace.sources import Sources

MOST_BYTES = 6000
"""The most bytes of a brief: some 1,500 tokens of a language model."""
LONGEST, LONGEST_PATH = 240, 320
"""Characters of a sentence, and of a path."""
ROWS = {
    "copies": ("copies", "overlap/reasons"),
    "overlap": ("overlap/reasons", "idle"),
    "input": ("loader", "idle"),
    "launches": ("launches",),
    "gpu": ("kernels",),
}
"""The tables of the whole report that findings of a family rest on."""


class BriefSize(NamedTuple):
    """The most findings, doubts (and reasons of longer steps), and ranks of a brief."""

    findings: int
    doubts: int
    ranks: int


SIZES = (BriefSize(5, 4, 8), BriefSize(3, 3, 4), BriefSize(2, 2, 2), BriefSize(1, 1, 1))
"""The limits of a brief: the first with which it fits into `MOST_BYTES`."""


class BriefedTrace(NamedTuple):
    """A trace of the brief, and its number among the traces of the whole report."""

    number: int
    profile: Profile
    findings: Findings
    quoting: Quoting

    @property
    def id(self) -> str:
        """Its pointer."""
        return f"/traces/{self.number}"


def traces_to_brief_json(
    entries: Sequence[tuple[Profile, Findings]],
    ranks: Ranks | None = None,
    code: Code = PLAIN,
    shown: int | None = None,
) -> str:
    """Return the brief on traces as JSON text of at most `MOST_BYTES`; it counts what does not fit.

    Of the ranks of a job it has only the trace at the index `shown`. An id is a JSON Pointer into the whole report on
    the same traces. `code` says whether lines of the user's code are quoted.
    """
    briefed = [
        BriefedTrace(index, profile, findings, Quoting(Sources(profile.path, profile.info.made), code))
        for index, (profile, findings) in enumerate(entries)
        if shown is None or index == shown
    ]
    sizes = [(size, len(briefed)) for size in SIZES] + [(SIZES[-1], most) for most in range(len(briefed) - 1, 0, -1)]
    return encoded_within(MOST_BYTES, (_brief(briefed[:most], len(entries), ranks, size) for size, most in sizes))


def _brief(traces: Sequence[BriefedTrace], count: int, ranks: Ranks | None, size: BriefSize) -> documents.ReportBrief:
    return documents.ReportBrief(
        traces=[_trace(trace, size) for trace in traces],
        more_traces=count - len(traces),
        ranks=None if ranks is None else _ranks(ranks, size.ranks),
    )


def _trace(trace: BriefedTrace, size: BriefSize) -> documents.BriefTrace:
    profile, findings, doubts = trace.profile, trace.findings, trace.profile.doubts
    return documents.BriefTrace(
        path=cut(profile.path, LONGEST_PATH),
        rank=profile.info.rank,
        gpus=sorted({printable(device.name) for device in profile.info.devices if device.name}),
        step=_step(profile, size),
        verdict=_brief_verdict(profile, findings, trace.id),
        findings=[_finding(action, trace) for action in actions(profile, findings)[: size.findings]],
        more_findings=max(len(findings) - size.findings, 0),
        joint=joint_of(findings.joint, profile.step_ns),
        lines=[] if profile.gpus else [_brief_line(line, trace) for line in named_lines(profile)],
        cannot_tell=[_doubt(f"{trace.id}/missing/{index}", doubt) for index, doubt in enumerate(doubts[: size.doubts])],
        more_cannot_tell=max(len(doubts) - size.doubts, 0),
        next=list(_next(profile, findings)),
    )


def _step(profile: Profile, size: BriefSize) -> documents.BriefStep:
    step, why = profile.estimate, profile.withheld.step or profile.withheld.estimate
    why_null = _short(why.what if why else "the trace does not show it") if step.step_ns is None else None
    hidden, irregular = given(profile.overlap), sorted(profile.unlike, key=lambda row: -row.per_step_ns)
    return filled(
        documents.BriefStep,
        step,
        profile,
        profile.steps,
        step_source=step.source,
        range_ms=range_ms(profile.step_range_ns),
        copies_hidden=hidden.fraction if hidden else None,
        longer=[
            filled(documents.LongerSteps, row, **_place_fields(row.places[0] if row.places else Place()))
            for row in irregular[: size.doubts]
        ],
        why_null=why_null,
    )


def _brief_verdict(profile: Profile, findings: Findings, trace_id: str) -> documents.BriefVerdict:
    verdict = verdict_of(profile, findings)
    return filled(
        documents.BriefVerdict,
        verdict,
        sentence=_short(f"{headline(first_screen(profile, findings))}."),
        do=verdict.do and _short(verdict.do),
        finding=None if verdict.finding is None else f"{trace_id}/findings/{verdict.finding}",
        evidence=[f"{trace_id}/verdict", f"{trace_id}/verdicts"],
    )


def _finding(action: Action, trace: BriefedTrace) -> documents.BriefFinding:
    finding = action.finding
    return filled(
        documents.BriefFinding,
        finding_of(finding, trace.profile.step_ns),
        finding.rule,
        id=f"{trace.id}/findings/{action.number}",
        title=_short(finding.title),
        **_place_fields(finding.evidence.place),
        code=trace.quoting.line(finding.evidence.place) or None,
        places=len(finding.sites),
        says=capitalized(action.saves),
        do=_short(capitalized(action.do)),
        evidence=list(_evidence_ids(finding, trace)),
    )


def _place_fields(at: Place) -> dict[str, Any]:
    """Return a place as the fields of `Placed`, cut."""
    file, line, function = at
    return {"file": file and cut(file, LONGEST_PATH), "line": line, "function": function and _short(function)}


def _evidence_ids(finding: Finding, trace: BriefedTrace) -> Iterator[str]:
    """Yield the ids of the evidence in the whole report: waits at the finding's places, or tables."""
    trace_id, profile = trace.id, trace.profile
    if finding.rule.family == "waits":
        places, causes = {site.evidence.place for site in finding.sites}, finding.rule.causes
        waits = [
            number
            for number, site in enumerate(profile.sites)
            if site.place in places and (site.cause in causes or not causes)
        ]
        yield from (f"{trace_id}/syncs/sites/{number}" for number in waits[:3])
    tables = [table for table in ROWS.get(finding.rule.family, ()) if table != "launches" or profile.launches]
    yield from (f"{trace_id}/{table}" for table in tables)


def _brief_line(line: CalledLine, trace: BriefedTrace) -> documents.BriefLine:
    called = trace.profile.host.called if trace.profile.host else ()
    share, time_ns = share_of(trace.profile, line)
    remedy = input_remedy(trace.profile, line)
    return documents.BriefLine(
        id=f"{trace.id}/host_profile/called/{called.index(line)}",
        **_place_fields(line.place),
        code=trace.quoting.line(line.place, of_call=False) or None,
        share=share,
        per_step_ms=maybe_ms(time_ns),
        spent=_short(f"In {running_code(line)}"),
        do=_short(capitalized(remedy)) if remedy else None,
    )


def _doubt(pointer: str, doubt: Doubt) -> documents.BriefUntold:
    return documents.BriefUntold(
        id=pointer,
        what=_short(doubt.what),
        cannot=_short(figures_not_given(doubt) or doubt.effect),
        remedy=_short(doubt.remedy),
        withholds=[figure for figure in FIGURE_KINDS if figure in doubt.withholds],
    )


def _ranks(ranks: Ranks, most: int) -> documents.BriefRanks:
    rows = longest_alone_first(ranks.rows)
    return filled(
        documents.BriefRanks,
        ranks,
        sentence=_short(f"{verdict_of_job(ranks)}."),
        shown_rank=ranks.shown_rank if ranks.rows else None,
        rows=[filled(documents.BriefRank, row) for row in rows[:most]],
        more_ranks=max(len(rows) - most, 0),
        choice=[_short(remark) for remark in ranks.choice[:most]],
        evidence=["/ranks/rows", "/ranks/collectives", "/ranks/findings"],
    )


def _next(profile: Profile, findings: Findings) -> Iterator[documents.BriefNext]:
    """Yield the next commands; none for standard input, which can be read only once."""
    if profile.path == urls.shown(urls.STANDARD_INPUT):
        return
    shown, predicted = brief_actions(profile, findings), whatif_command(profile, findings)
    if shown:
        explain = f"pinprof explain {shown[0].finding.rule.id}"
        yield documents.BriefNext(explain, "the first finding: the fix as code, when safe")
    if predicted:
        yield documents.BriefNext(printable(predicted), "predicts the step after a change")
    if not profile.gpus:
        yield documents.BriefNext(
            "pinprof run SCRIPT", "on a machine with a GPU: copies, waits and what a change saves"
        )
    elif not profile.info.by_pinprof:
        yield documents.BriefNext("pinprof run SCRIPT", "records the true step, and the lines of waits")


def _short(text: str) -> str:
    return cut(text, LONGEST)
