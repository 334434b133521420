"""The arguments of the tools, with their bounds."""

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from pinprof.document import Document, doc

LONGEST_NAME, LONGEST_DIFF = 1000, 200_000
MOST_NAMES, MOST_TRACES, MOST_IDS = 64, 256, 8
MOST_MINUTES = 30.0

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
NameList: TypeAlias = Annotated[Sequence[Name], Meta(max_length=MOST_NAMES)]
Some: TypeAlias = Annotated[Sequence[Name], Meta(min_length=1, max_length=MOST_NAMES)]
MaybeName: TypeAlias = Name | UnsetType
MaybeNames: TypeAlias = NameList | UnsetType
MaybeFlag: TypeAlias = bool | UnsetType
Positive: TypeAlias = Annotated[float, Meta(gt=0, le=1e9)] | UnsetType
FirstWanted: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000)] | UnsetType
Minutes: TypeAlias = Annotated[float, Meta(gt=0, le=MOST_MINUTES)]
SomeTraces: TypeAlias = Annotated[Sequence[Name], Meta(min_length=1, max_length=MOST_TRACES)]
Traces: TypeAlias = Annotated[
    SomeTraces, doc("traces: files of the folder, or folders in it; several are the ranks of one job")
]
LimitPercent: TypeAlias = Annotated[
    Positive, Meta(extra_json_schema={"unit": "%"}), doc("the share of the step that matters; 2, if nothing is said")
]
StepsFor: TypeAlias = Annotated[
    Positive, Meta(extra_json_schema={"unit": "s"}), doc("time steps for so long in each process")
]


class ReportInput(Document):
    """Traces."""

    traces: Traces


class EvidenceInput(Document):
    """Ids, and what they are of."""

    traces: Annotated[SomeTraces, doc("the same as for report; for compare the trace before and the one after")]
    ids: Annotated[
        Sequence[Name],
        Meta(min_length=1, max_length=MOST_IDS),
        doc("ids of an answer of report or compare, such as /traces/0/findings/0 or /traces/0/kernels"),
    ]
    of: Annotated[
        Literal["report", "compare"] | UnsetType, doc("the tool that gave the ids; report, if nothing is said")
    ] = UNSET
    skip: Annotated[
        FirstWanted, doc("leave out this many items at the beginning of lists that ids name: to get the rest")
    ] = UNSET


class CompareInput(Document):
    """Two traces."""

    before: Annotated[Name, doc("the trace before the change")]
    after: Annotated[Name, doc("the trace after it")]


class WhatifInput(Document):
    """Traces and changes; without a change the usual ones are compared."""

    traces: Traces
    drop_syncs: Annotated[MaybeNames, doc("the host no longer waits: all, FILE:LINE or FILE:FUNCTION")] = UNSET
    pin: Annotated[MaybeFlag, doc("copies use pinned host memory")] = UNSET
    non_blocking: Annotated[MaybeFlag, doc("copies no longer block the host")] = UNSET
    overlap_copies: Annotated[MaybeFlag, doc("copies to the GPU move one step ahead onto a stream of their own")] = (
        UNSET
    )
    drop_allocs: Annotated[MaybeFlag, doc("no device or pinned memory is allocated or freed")] = UNSET
    fused_optimizer: Annotated[MaybeFlag, doc("one launch does the step of each optimizer")] = UNSET
    cuda_graph: Annotated[
        Literal["step", "model"] | UnsetType, doc("CUDA graphs launch the step, or forward and backward")
    ] = UNSET
    pinned_gbps: Annotated[
        Positive, Meta(extra_json_schema={"unit": "GB/s"}), doc("rate of copies that become pinned, with pin")
    ] = UNSET
    host_speed: Annotated[Positive, doc("how many times as fast the host is")] = UNSET
    gpu_speed: Annotated[Positive, doc("how many times as fast kernels are")] = UNSET
    step_ms: Annotated[
        Positive, Meta(extra_json_schema={"unit": "ms"}), doc("the step without the profiler, if it was measured")
    ] = UNSET


class FixInput(Document):
    """A trace, and which changes are wanted."""

    trace: Annotated[Name, doc("a recording of pinprof run")]
    scripts: Annotated[MaybeNames, doc("sources that are not where the trace says")] = UNSET
    rules: Annotated[MaybeNames, doc("only changes for these rules, as PIN201")] = UNSET
    only: Annotated[MaybeNames, doc("only changes at these places: FILE:LINE")] = UNSET
    changes_numbers: Annotated[MaybeFlag, doc("also changes after which the program computes different numbers")] = (
        UNSET
    )


class ExplainInput(Document):
    """A topic."""

    topic: Annotated[
        MaybeName, doc("a rule (PIN201) or a guide (skill, what-if, ...); without one, all are listed")
    ] = UNSET
    first_line: Annotated[FirstWanted, doc("begin with this line, counted from 0: to get the rest")] = UNSET


class AbInput(Document):
    """Two versions of a program: the working tree and `base`, `base` without and with `diff`, or two commands."""

    command: Annotated[
        Some, doc("the version after, as words: `python train.py ...`, `-m module ...`, `torchrun ... train.py`")
    ]
    minutes: Annotated[Minutes, doc("measure for so long at most; it needs 9 pairs of processes")]
    base: Annotated[MaybeName, doc("the git revision to compare with; HEAD, if nothing is said")] = UNSET
    diff: Annotated[
        Annotated[str, Meta(min_length=1, max_length=LONGEST_DIFF)] | UnsetType,
        doc("a unified diff, as fix returns it"),
    ] = UNSET
    against: Annotated[Some | UnsetType, doc("the version before, as another command; needs no git")] = UNSET
    limit_percent: LimitPercent = UNSET
    seconds: StepsFor = UNSET
    causes: Annotated[
        MaybeFlag, doc("record a run of each at the end, to say what changed; true, if nothing is said")
    ] = UNSET


class TryInput(Document):
    """A program, and which fixes to try."""

    command: Annotated[Some, doc("the program as words: `python train.py ...`, `train.py ...` or `-m module ...`")]
    minutes: Annotated[
        Minutes, doc("measure for so long at most, and again if fixes are left out; it needs 7 pairs of processes")
    ]
    trace: Annotated[
        MaybeName, doc("a recording of this very program by pinprof run; made anew, if nothing is said")
    ] = UNSET
    rules: Annotated[MaybeNames, doc("only fixes for these rules, as PIN201")] = UNSET
    only: Annotated[MaybeNames, doc("only fixes at these places: FILE:LINE")] = UNSET
    changes_numbers: Annotated[MaybeFlag, doc("also fixes after which the program computes different numbers")] = UNSET
    limit_percent: LimitPercent = UNSET
    seconds: StepsFor = UNSET
    verify: Annotated[
        MaybeFlag, doc("record the changed program, to hold the prediction to it; true, if nothing is said")
    ] = UNSET
