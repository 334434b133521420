"""`pinprof report --json --brief`: what the short report says, in a few kB, with ids of the evidence."""

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from pinprof.document import Count, Document, Ms, RangeMs, Share, Words, doc, one_of
from pinprof.documents.fields import Bound, PlacedJson, Pointer, SavingFraction, SavingMs, SavingRange, Severity, Source
from pinprof.documents.findings import DoFirst, JointJson, OfCause, Word
from pinprof.documents.report import IRREGULAR_REASONS
from pinprof.measurement.trust import FIGURE_KINDS
from pinprof.rules.rule import NumberEffect
from pinprof.verdict.step_limits import CAUSES
from pinprof.version import VERSION

EvidenceIds: TypeAlias = Annotated[Sequence[Pointer], doc("ids of the evidence")]
CodeLine: TypeAlias = Annotated[str | None, doc("the line of code; null where the source is not there as it ran")]


class LongerSteps(PlacedJson):
    """Steps that are longer than the others for one reason."""

    reason: Annotated[str, one_of(IRREGULAR_REASONS), doc("the reason")]
    every: Annotated[Count | None, doc("their period in steps; null without one")]
    per_step_ms: Annotated[Ms, doc("what they add, divided by all steps")]


class BriefStep(Document):
    """The step without the profiler."""

    step_ms: Annotated[Ms | None, doc("how long it is; null where that is withheld")]
    step_source: Annotated[Source, doc("how that is known")]
    range_ms: Annotated[RangeMs | None, doc("where it lies; of several recorded runs, where it lies in another one")]
    bound: Annotated[Bound | None, doc("what sets the pace")]
    count: Annotated[Count, doc("complete steps in the recording")]
    copies_hidden: Annotated[Share | None, doc("share of the copies' time in which kernels run; null without copies")]
    longer: Annotated[
        Sequence[LongerSteps], doc("steps unlike the others, which `step_ms` leaves out, by what they add")
    ]
    why_null: Annotated[Words | None, doc("why `step_ms` is null; null where it is not")]


class BriefVerdict(OfCause):
    """Why the step takes so long."""

    sentence: Annotated[Words, doc("the step and why it takes so long")]
    cause: Annotated[str | None, one_of(CAUSES), doc("the cause that costs most; null where the trace cannot tell")]
    word: Word
    do: DoFirst
    finding: Annotated[str | None, doc("the id of the finding that this is about")]
    evidence: EvidenceIds


class BriefFinding(PlacedJson):
    """What to change."""

    id: Pointer
    rule: Annotated[str, doc("the rule, for `pinprof explain`")]
    title: Annotated[Words, doc("the rule in a few words")]
    severity: Annotated[Severity, doc("by the share of the step that the fix saves; `suspect` for hazards")]
    code: CodeLine
    places: Annotated[Count, doc("places of the finding; the one here costs most")]
    says: Annotated[Words, doc("what the fix saves alone")]
    saving_ms: SavingMs
    saving_fraction: SavingFraction
    range_ms: SavingRange
    at_most_ms: Annotated[Ms | None, doc("what the fix saves at most, where no replay predicts what it saves")]
    numbers: Annotated[NumberEffect | None, doc("whether the fix keeps the program's numbers; null where that is open")]
    do: Annotated[Words, doc("what to do, in a few words")]
    evidence: EvidenceIds


class BriefLine(PlacedJson):
    """A line that takes the host's time, in a recording without GPU work."""

    id: Pointer
    code: CodeLine
    share: Annotated[Share, doc("of the step")]
    per_step_ms: Annotated[Ms | None, doc("the same share of the measured step; null where it was not measured")]
    spent: Annotated[Words, doc("whose code runs there")]
    do: Annotated[Words | None, doc("what makes it shorter, where that is known")]


class BriefUntold(Document):
    """What the trace cannot tell."""

    id: Pointer
    what: Annotated[Words, doc("what it lacks or has wrong")]
    cannot: Annotated[Words, doc("what follows")]
    remedy: Annotated[Words, doc("how to record it")]
    withholds: Annotated[
        Sequence[Annotated[str, one_of(FIGURE_KINDS)]], doc("the kinds of figures that are null because of it")
    ]


class BriefNext(Document):
    """A command for the next step."""

    command: Annotated[str, doc("the command")]
    why: Annotated[Words, doc("what it gives")]


class BriefTrace(Document):
    """One trace; of a job that of the rank to look at."""

    path: Annotated[str, doc("where it was read")]
    rank: Annotated[Count | None, doc("the rank")]
    gpus: Annotated[Sequence[str], doc("names of the GPUs")]
    step: Annotated[BriefStep, doc("the step")]
    verdict: Annotated[BriefVerdict, doc("why it is as long as it is")]
    findings: Annotated[Sequence[BriefFinding], doc("what to change, in the order in which to look at it")]
    more_findings: Annotated[Count, doc("findings that do not fit here")]
    joint: Annotated[JointJson | None, doc("all fixes together")]
    lines: Annotated[Sequence[BriefLine], doc("the lines that take the host's time; none where a GPU worked")]
    cannot_tell: Annotated[Sequence[BriefUntold], doc("what the trace cannot tell, the gravest first")]
    more_cannot_tell: Annotated[Count, doc("further ones that do not fit here")]
    next: Annotated[Sequence[BriefNext], doc("commands for the next step")]


class BriefRank(Document):
    """A rank."""

    rank: Annotated[Count, doc("its number")]
    step_ms: Annotated[Ms | None, doc("its step without the profiler")]
    alone_ms: Annotated[Ms | None, doc("its step if it waited for no other rank")]


class BriefRanks(Document):
    """The ranks of a job side by side."""

    world_size: Annotated[Count | None, doc("how many ranks the job has")]
    sentence: Annotated[Words, doc("which rank holds up the others, by how much and why")]
    slowest_rank: Annotated[Count | None, doc("the rank that holds up the others")]
    skew_ms: Annotated[Ms | None, doc("how much longer than the median of the others it needs alone")]
    shown_rank: Annotated[Count | None, doc("the rank in `traces`")]
    rows: Annotated[Sequence[BriefRank], doc("the ranks, those that need longest alone first")]
    more_ranks: Annotated[Count, doc("ranks that do not fit here")]
    choice: Annotated[Sequence[Words], doc("why these traces were taken, and what is absent")]
    evidence: EvidenceIds


class ReportBrief(Document, kw_only=True, tag_field="schema", tag="pinprof.report-brief/1"):
    """What `pinprof report --json --brief` writes: at most 6 kB."""

    pinprof_version: Annotated[str, doc("what wrote it")] = VERSION
    traces: Annotated[Sequence[BriefTrace], doc("the traces")]
    more_traces: Annotated[Count, doc("traces that do not fit here: of a job, the other ranks")]
    ranks: Annotated[BriefRanks | None, doc("the ranks of a job; null for one trace")]
