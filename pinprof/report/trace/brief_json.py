"""`pinprof report --json --brief`: the short report as JSON in a few kB, for language models, with ids of the evidence.

Its documents are projections of the whole report's: they have fields of these, and a few of their own.
"""

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, TypeAlias

from pinprof.analyses.host_samples import CalledLine
from pinprof.document import Count, Document, Ms, Share, Words, doc, encoded_as_brief, filled, one_of, projection
from pinprof.documents.by_name import Called
from pinprof.documents.fields import PlacedJson, Pointer
from pinprof.documents.findings import FindingJson, RankRowJson, RanksJson, VerdictJson
from pinprof.documents.report import IrregularJson, Missing, StepsJson, TraceJson
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust import FIGURE_KINDS
from pinprof.ranks.rank import Ranks
from pinprof.report.findings.json import ranks_of
from pinprof.report.findings.views import FindingView, finding_views
from pinprof.report.job.view import longest_alone_first
from pinprof.report.job.view import verdict_line as verdict_of_job
from pinprof.report.source import PLAIN, Code, Quoting
from pinprof.report.trace.first_screen import first_screen
from pinprof.report.trace.json import MeasuredTrace, trace_of
from pinprof.report.trace.sections.host import input_remedy, named_lines, running_code
from pinprof.report.trace.verdict import headline
from pinprof.report.words import capitalized, cut, figures_not_given, printable
from pinprof.rules.rule import Findings, NumberEffect
from pinprof.trace.lines import Place
from pinprof.trace.sources import Sources
from pinprof.version import VERSION

LONGEST_SENTENCE_CHARS, LONGEST_PATH_CHARS = 240, 320

CodeLine: TypeAlias = Annotated[str | None, doc("the line of code; null where the source is not there as it ran")]


@projection(IrregularJson, "file line function reason every per_step_ms")
class LongerSteps(PlacedJson):
    """Steps that are longer than the others for one reason."""


@projection(StepsJson, "step_ms step_source range_ms bound count copies_hidden longer why_null")
class BriefStep(Document):
    """The step without the profiler."""

    copies_hidden: Annotated[Share | None, doc("share of the copies' time in which kernels run; null without copies")]
    longer: Annotated[
        Sequence[LongerSteps], doc("steps unlike the others, which `step_ms` leaves out, by what they add")
    ]
    why_null: Annotated[Words | None, doc("why `step_ms` is null; null where it is not")]


@projection(VerdictJson, "ms fraction range_ms sentence cause word do finding")
class BriefVerdict(Document):
    """Why the step takes so long."""

    sentence: Annotated[Words, doc("the step and why it takes so long")]
    finding: Annotated[str | None, doc("the id of the finding that this is about")]


@projection(
    FindingJson,
    "file line function id rule title severity code places says saving_ms saving_fraction range_ms at_most_ms "
    "numbers do",
)
class BriefFinding(PlacedJson):
    """What to change."""

    id: Pointer
    code: CodeLine
    places: Annotated[Count, doc("places of the finding; the one here costs most")]
    says: Annotated[Words, doc("what the fix saves alone")]
    numbers: Annotated[NumberEffect | None, doc("whether the fix keeps the program's numbers; null where that is open")]
    do: Annotated[Words, doc("what to do, in a few words")]


@projection(Called, "file line function id code share per_step_ms spent do")
class BriefLine(PlacedJson):
    """A line that takes the host's time, in a recording without GPU work."""

    id: Pointer
    code: CodeLine
    per_step_ms: Annotated[Ms | None, doc("the same share of the measured step; null where it was not measured")]
    spent: Annotated[Words, doc("whose code runs there")]
    do: Annotated[Words | None, doc("what makes it shorter, where that is known")]


@projection(Missing, "id what cannot remedy withholds")
class BriefUntold(Document):
    """What the trace cannot tell."""

    id: Pointer
    cannot: Annotated[Words, doc("what follows")]
    withholds: Annotated[
        Sequence[Annotated[str, one_of(FIGURE_KINDS)]], doc("the kinds of figures that are null because of it")
    ]


@projection(TraceJson, "path rank gpus step verdict findings more_findings joint lines cannot_tell more_cannot_tell")
class BriefTrace(Document):
    """One trace; of a job that of the rank to look at."""

    gpus: Annotated[Sequence[str], doc("names of the GPUs")]
    step: Annotated[BriefStep, doc("the step")]
    verdict: Annotated[BriefVerdict, doc("why it is as long as it is")]
    findings: Annotated[Sequence[BriefFinding], doc("what to change, in the order in which to look at it")]
    more_findings: Annotated[Count, doc("findings that do not fit here")]
    lines: Annotated[Sequence[BriefLine], doc("the lines that take the host's time; none where a GPU worked")]
    cannot_tell: Annotated[Sequence[BriefUntold], doc("what the trace cannot tell, the gravest first")]
    more_cannot_tell: Annotated[Count, doc("further ones that do not fit here")]


@projection(RankRowJson, "rank step_ms alone_ms")
class BriefRank(Document):
    """A rank."""


@projection(RanksJson, "world_size sentence slowest_rank skew_ms shown_rank rows more_ranks choice")
class BriefRanks(Document):
    """The ranks of a job side by side."""

    sentence: Annotated[Words, doc("which rank holds up the others, by how much and why")]
    shown_rank: Annotated[Count | None, doc("the rank in `traces`")]
    rows: Annotated[Sequence[BriefRank], doc("the ranks, those that need longest alone first")]
    more_ranks: Annotated[Count, doc("ranks that do not fit here")]


class ReportBrief(Document, kw_only=True, tag_field="schema", tag="pinprof.report-brief/1"):
    """What `pinprof report --json --brief` writes: at most 6 kB."""

    pinprof_version: Annotated[str, doc("what wrote it")] = VERSION
    traces: Annotated[Sequence[BriefTrace], doc("the traces")]
    more_traces: Annotated[Count, doc("traces that do not fit here: of a job, the other ranks")]
    ranks: Annotated[BriefRanks | None, doc("the ranks of a job; null for one trace")]


BRIEF_LIMITS = (5, 3, 2, 1)
"""The most traces, findings, doubts, reasons of longer steps, and ranks: the first with which a brief fits in."""


class BriefedTrace(NamedTuple):
    """A trace of the brief, and its pointer into the whole report."""

    id: str
    profile: Profile
    findings: Findings
    quoting: Quoting
    whole: TraceJson


def traces_to_brief_json(
    entries: Sequence[MeasuredTrace], ranks: Ranks | None = None, code: Code = PLAIN, shown: int | None = None
) -> str:
    """Return the brief on traces as JSON text of at most `MAX_BRIEF_BYTES`; it counts what does not fit.

    Of the ranks of a job it has only the trace at the index `shown`. An id is a JSON Pointer into the whole report on
    the same traces. `code` says whether lines of the user's code are quoted.
    """
    briefed = [
        BriefedTrace(
            f"/traces/{index}",
            profile,
            findings,
            Quoting(Sources(profile.path, profile.info.made), code),
            trace_of(profile, findings),
        )
        for index, (profile, findings) in enumerate(entries)
        if shown is None or index == shown
    ]
    return encoded_as_brief(
        ReportBrief(
            traces=[_trace(trace, most) for trace in briefed[:most]],
            more_traces=len(entries) - len(briefed[:most]),
            ranks=None if ranks is None else _ranks(ranks, most),
        )
        for most in BRIEF_LIMITS
    )


def _trace(trace: BriefedTrace, most: int) -> BriefTrace:
    profile, findings, whole = trace.profile, trace.findings, trace.whole
    return filled(
        BriefTrace,
        whole,
        path=cut(profile.path, LONGEST_PATH_CHARS),
        gpus=sorted({printable(device.name) for device in profile.info.devices if device.name}),
        step=_step(trace, most),
        verdict=filled(
            BriefVerdict,
            whole.verdict,
            sentence=_short(f"{headline(first_screen(profile, findings))}."),
            do=whole.verdict.do and _short(whole.verdict.do),
            finding=None if whole.verdict.finding is None else f"{trace.id}/findings/{whole.verdict.finding}",
        ),
        findings=[_finding(view, trace) for view in finding_views(profile, findings)[:most]],
        more_findings=max(len(findings) - most, 0),
        lines=[] if profile.gpus else [_line(line, trace) for line in named_lines(profile)],
        cannot_tell=[_untold(index, trace) for index in range(len(profile.doubts))[:most]],
        more_cannot_tell=max(len(profile.doubts) - most, 0),
    )


def _step(trace: BriefedTrace, most: int) -> BriefStep:
    profile, steps = trace.profile, trace.whole.steps
    why = profile.withheld.step or profile.withheld.estimate
    longer = sorted(steps.irregular, key=lambda row: -row.per_step_ms)[:most]
    return filled(
        BriefStep,
        steps,
        copies_hidden=trace.whole.overlap.fraction,
        longer=[filled(LongerSteps, row, **_place_fields(row.places[0] if row.places else Place())) for row in longer],
        why_null=_short(why.what if why else "the trace does not show it") if steps.step_ms is None else None,
    )


def _finding(view: FindingView, trace: BriefedTrace) -> BriefFinding:
    finding = view.finding
    return filled(
        BriefFinding,
        trace.whole.findings[view.number],
        id=f"{trace.id}/findings/{view.number}",
        title=_short(finding.title),
        **_place_fields(finding.evidence.place),
        code=trace.quoting.line(finding.evidence.place) or None,
        places=len(finding.sites),
        says=capitalized(view.worth_in_short),
        numbers=view.rule.numbers,
        do=_short(capitalized(view.do)),
    )


def _place_fields(at: Place | PlacedJson) -> dict[str, Any]:
    """Return a place as the fields of `PlacedJson`, cut."""
    file, function = at.file and cut(at.file, LONGEST_PATH_CHARS), at.function and _short(at.function)
    return {"file": file, "line": at.line, "function": function}


def _line(line: CalledLine, trace: BriefedTrace) -> BriefLine:
    number = trace.profile.host.called.index(line) if trace.profile.host else 0
    remedy = input_remedy(trace.profile, line)
    return filled(
        BriefLine,
        trace.whole.host_profile and trace.whole.host_profile.called[number],
        id=f"{trace.id}/host_profile/called/{number}",
        **_place_fields(line.place),
        code=trace.quoting.line(line.place) or None,
        spent=_short(f"In {running_code(line)}"),
        do=_short(capitalized(remedy)) if remedy else None,
    )


def _untold(index: int, trace: BriefedTrace) -> BriefUntold:
    doubt, whole = trace.profile.doubts[index], trace.whole.missing[index]
    return filled(
        BriefUntold,
        whole,
        id=f"{trace.id}/missing/{index}",
        what=_short(whole.what),
        cannot=_short(figures_not_given(doubt) or whole.effect),
        remedy=_short(whole.remedy),
        withholds=whole.invalidates,
    )


def _ranks(ranks: Ranks, most: int) -> BriefRanks:
    rows = longest_alone_first(ranks.rows)
    return filled(
        BriefRanks,
        ranks_of(ranks),
        sentence=_short(f"{verdict_of_job(ranks)}."),
        rows=[filled(BriefRank, row) for row in rows[:most]],
        more_ranks=max(len(rows) - most, 0),
        choice=[_short(remark) for remark in ranks.choice[:most]],
    )


def _short(text: str) -> str:
    return cut(text, LONGEST_SENTENCE_CHARS)
