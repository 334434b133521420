"""Fields that several JSON documents have: places, causes, savings."""

from collections.abc import Sequence
from typing import Annotated, TypeAlias, get_args

from pinprof.analyses.syncs.causes import WAIT_CAUSES
from pinprof.analyses.syncs.removal import VERDICTS
from pinprof.document import Count, Document, Ms, RangeMs, Share, doc, one_of
from pinprof.replay.bound import BOUND_WORDS
from pinprof.rules.rule import FAMILIES, Severity
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES

Source: TypeAlias = Annotated[str, one_of(("measured", "given", "estimated"))]
Bound: TypeAlias = Annotated[str, one_of(BOUND_WORDS)]
Direction: TypeAlias = Annotated[str, one_of(DIRECTIONS)]
Memory: TypeAlias = Annotated[str, one_of(HOST_MEMORIES[:-1])]
"""Null stands for copies without a host side."""
ThreadRole: TypeAlias = Annotated[str, one_of(("main", "autograd", "pin_memory", "other"))]
WaitVerdict: TypeAlias = Annotated[str, one_of(VERDICTS)]
WaitCause: TypeAlias = Annotated[str, one_of(WAIT_CAUSES), doc("what made the host wait")]
RuleFamily: TypeAlias = Annotated[str, one_of(each.name for each in FAMILIES.values()), doc("what the rule is about")]
SeverityJson: TypeAlias = Annotated[str, one_of(get_args(Severity))]

Guards: TypeAlias = Annotated[Sequence[str], doc("directions of pending copies of pinned memory that only it protects")]
SavingMs: TypeAlias = Annotated[Ms | None, doc("what it saves per step, by replay; null where no replay predicts it")]
SavingFraction: TypeAlias = Annotated[Share | None, doc("the same as a share of the step")]
SavingRange: TypeAlias = Annotated[RangeMs | None, doc("where the saving lies")]
Pointer: TypeAlias = Annotated[str, doc("its id: a JSON Pointer into the document without --brief")]


class PlacedJson(Document):
    """What has a place in the code."""

    file: Annotated[str | None, doc("the file of the code, as it was recorded")]
    line: Annotated[Count | None, doc("its line, if that is certain")]
    function: Annotated[str | None, doc("the function around it")]


class Library(PlacedJson):
    """The innermost function outside of torch, in a library that your line calls."""


class DeviceJson(Document):
    """A GPU."""

    name: Annotated[str | None, doc("its name")]
    index: Annotated[Count, doc("its number in the process")]


class BlockerJson(PlacedJson):
    """What prevents the capture of the step as one CUDA graph."""

    what: Annotated[str, doc("a cause of waits, or a sentence")]
    per_step: Annotated[float, doc("how often; 0 if it concerns the step as a whole")]


class Saved(Document):
    """What a change saves."""

    saving_ms: SavingMs
    saving_fraction: SavingFraction
    range_ms: SavingRange
