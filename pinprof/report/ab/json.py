"""`pinprof ab --json` and `pinprof bisect --json`: two versions of a program, and a search among revisions."""

import shlex
from collections.abc import Callable, Sequence
from math import inf
from typing import Annotated, Literal, TypeAlias

from msgspec.structs import asdict

from pinprof.ab import Judgement, Measurement, RecordedChanges
from pinprof.ab.bisection import Bisection
from pinprof.ab.causes import CauseKind
from pinprof.ab.sequential_test import ComparedBy, compared_by, differences
from pinprof.ab.statistics import PairsVerdict
from pinprof.ab.times import Pair
from pinprof.document import Count, Document, Ms, Range, RangeMs, Seconds, Share, Words, doc, encoded, filled, one_of
from pinprof.report.ab.text import clocks, sentence
from pinprof.units import ms
from pinprof.version import VERSION

SideName: TypeAlias = Literal["before", "after"]
SIDES: tuple[SideName, SideName] = ("before", "after")
WrittenBy: TypeAlias = Annotated[str, doc("the pinprof that wrote this")]

RatioRange: TypeAlias = Annotated[
    Range | None, doc("where the ratio lies, at all looks together; null after too few pairs")
]


class AbRatio(Document):
    """The step of one version against that of the other."""

    ratio: Annotated[float, doc("the step after, divided by the step before")]
    range: RatioRange


class AbJudgement(AbRatio):
    """A verdict."""

    verdict: Annotated[PairsVerdict, doc("what the pairs say")]
    sentence: Annotated[Words, doc("the verdict")]
    limit: Annotated[Share, doc("the share of the step that matters")]
    too_slow: Annotated[bool, doc("whether it is certainly slower, and by more than the limit: exit code 1")]
    pair_count: Annotated[Count, doc("pairs of processes at the last look")]


class AbSide(Document):
    """A version."""

    name: Annotated[str, doc("its name")]
    command: Annotated[str, doc("the command that runs it")]
    first_step_ms: Annotated[Ms, doc("the usual step of its first run, which is not counted")]
    step_marker: Annotated[str, doc("what marks its steps")]
    gpu: Annotated[str | None, doc("the GPU")]
    ranks: Annotated[Count, doc("processes that make steps")]


class AbPair(Document):
    """A fresh process of each version."""

    first: Annotated[SideName, doc("which ran first, at random")]
    before_ms: Annotated[Ms, doc("the usual step before")]
    after_ms: Annotated[Ms, doc("the usual step after")]
    ratio_log: Annotated[float, doc("logarithm of the ratio of the steps that are compared")]
    mean_ratio_log: Annotated[float, doc("the same of the means")]


class AbCause(Document):
    """Something that differs between a recorded run of each."""

    kind: Annotated[CauseKind, doc("its kind")]
    what: Annotated[str, doc("its name")]
    where: Annotated[str | None, doc("its place in the program")]
    certain: Annotated[bool, doc("whether its number differs, which no noise does")]
    count: Annotated[Range | None, doc("how often per step, before and after")]
    time_ms: Annotated[RangeMs | None, doc("how long per step, before and after")]


class Ab(AbJudgement, kw_only=True, tag_field="schema", tag="pinprof.ab/1"):
    """What `pinprof ab --json` writes."""

    pinprof_version: WrittenBy = VERSION
    before: Annotated[AbSide, doc("the version compared with")]
    after: Annotated[AbSide, doc("the version that is judged")]
    mean: Annotated[AbRatio, doc("the same of the means of all steps, with work that comes only in some")]
    turns: Annotated[
        str, one_of(("steps", "runs")), doc("whether the versions took turns of some steps, or ran after each other")
    ]
    turns_reason: Annotated[Words | None, doc("why they ran after each other, where nobody asked for that")]
    turn_count: Annotated[Count, doc("turns of each process; 1 where they ran after each other")]
    turn_steps: Annotated[Count, doc("steps of each turn that count")]
    compared_by: Annotated[
        ComparedBy,
        doc("whether usual steps are compared, the quickest of each turn, or the mean, where workers set the pace"),
    ]
    seconds: Annotated[Seconds, doc("how long the pairs took")]
    interrupted: Annotated[bool, doc("whether Ctrl-C ended it")]
    pairs: Annotated[Sequence[AbPair], doc("all pairs, in order")]
    remarks: Annotated[Sequence[Words], doc("what to know of the versions")]
    causes: Annotated[
        Sequence[AbCause] | None, doc("what changed, the likely cause first; null where nothing was recorded")
    ]
    causes_reason: Annotated[Words | None, doc("why nothing was recorded")]
    clocks: Annotated[Sequence[Words], doc("clocks that differ, and a machine that is busy")]


class BisectTried(Document):
    """A revision that was compared with the good one."""

    commit: Annotated[str, doc("its commit")]
    reason: Annotated[Words | None, doc("why it was left out")]
    judgement: Annotated[AbJudgement | None, doc("the comparison; null if it was left out")]


class BisectSuspect(Document):
    """A revision."""

    commit: Annotated[str, doc("its commit")]
    subject: Annotated[str, doc("its first line")]


class Bisect(Document, kw_only=True, tag_field="schema", tag="pinprof.bisect/1"):
    """What `pinprof bisect --json` writes."""

    pinprof_version: WrittenBy = VERSION
    found: Annotated[str | None, doc("the revision that made it slower")]
    subject: Annotated[str | None, doc("the first line of its message")]
    ratio: Annotated[float | None, doc("its step, divided by that of the good revision")]
    range: RatioRange
    reason: Annotated[Words | None, doc("why no single revision was found")]
    suspects: Annotated[Sequence[BisectSuspect], doc("the revisions that may be it, the oldest first")]
    tried: Annotated[Sequence[BisectTried], doc("all comparisons, in order")]


def ab_to_json(measurement: Measurement, recorded: RecordedChanges | None, remarks: Sequence[str]) -> str:
    """Return the result of a measurement as JSON text; ratios are the step after divided by the step before."""
    test, plan = measurement.test, measurement.plan
    causes = recorded.causes if recorded else None
    document = Ab(
        before=_side(measurement, 0),
        after=_side(measurement, 1),
        **asdict(judgement(test.judgement)),
        mean=AbRatio(test.mean.ratio, _range(test.mean)),
        turns="steps" if plan.takes_turns else "runs",
        turns_reason=plan.why_runs or None,
        turn_count=plan.turns,
        turn_steps=plan.turn_steps,
        compared_by=compared_by(test.pairs),
        seconds=round(test.seconds, 3),
        interrupted=test.interrupted,
        pairs=pairs(test.pairs),
        remarks=remarks,
        causes=None
        if causes is None
        else [filled(AbCause, cause, where=cause.where or None, certain=cause.is_certain) for cause in causes],
        causes_reason=recorded.why or None if recorded else "not recorded",
        clocks=clocks(recorded.clocks) if recorded else [],
    )
    return encoded(document)


def judgement(judged: Judgement) -> AbJudgement:
    """Return a judgement as a document."""
    return filled(
        AbJudgement,
        judged,
        sentence=sentence(judged),
        range=_range(judged),
        too_slow=judged.is_too_slow,
        pair_count=judged.pairs,
    )


def pairs(measured: Sequence[Pair]) -> list[AbPair]:
    """Return the measured steps of each pair of processes."""
    return [
        AbPair(
            first=SIDES[pair.first],
            before_ms=ms(pair.usual_ns[0]),
            after_ms=ms(pair.usual_ns[1]),
            ratio_log=float(difference),
            mean_ratio_log=pair.mean.value,
        )
        for pair, difference in zip(measured, differences(measured), strict=True)
    ]


def _range(judged: Judgement) -> list[float] | None:
    return None if judged.high == inf else [judged.low, judged.high]


def _side(measurement: Measurement, number: int) -> AbSide:
    program, first = measurement.programs[number], measurement.first[number]
    return filled(
        AbSide,
        first,
        name=program.name,
        command=shlex.join(program.words),
        first_step_ms=ms(first.usual_ns),
        step_marker=first.marker,
    )


def bisection_to_json(bisection: Bisection, subject: Callable[[str], str]) -> str:
    """Return the result of a search as JSON text."""
    ratio = bisection.ratio
    document = Bisect(
        found=bisection.found,
        subject=bisection.found and subject(bisection.found),
        ratio=ratio.ratio if ratio else None,
        range=_range(ratio) if ratio else None,
        reason=bisection.why or None,
        suspects=[BisectSuspect(commit, subject(commit)) for commit in bisection.suspects],
        tried=[
            BisectTried(tried.commit, tried.why or None, judgement(tried.judgement) if tried.judgement else None)
            for tried in bisection.tried
        ],
    )
    return encoded(document)
