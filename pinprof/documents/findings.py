"""What is wrong: the verdict and the findings of a trace, and the ranks of a job side by side."""

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from pinprof.document import Bytes, Count, Document, Gbps, Ms, RangeMs, Share, Words, doc, one_of, projection
from pinprof.documents.fields import PlacedJson, RuleFamily, Saved, SavingFraction, SavingMs, SavingRange, SeverityJson
from pinprof.verdict.step_limits import CAUSES, LIMITS

CostMs: TypeAlias = Annotated[Ms, doc("GPU idle time or exposed copy time per step that it causes, as traced")]
Word: TypeAlias = Annotated[
    str | None,
    one_of(limit.word for limit in LIMITS.values()),
    doc("the usual word for such a step, as launch-bound; null where `cause` is"),
]
OnRanks: TypeAlias = Annotated[Sequence[Count], doc("the ranks that have it")]


class OfCause(Document):
    """What a cause costs the step."""

    ms: Annotated[Ms | None, doc("what a replay without it saves, as far as `step_parts` show; of `gpu`, its kernels")]
    fraction: Annotated[Share | None, doc("the same as a share of the step; of `irregular`, a share of both together")]
    range_ms: Annotated[RangeMs | None, doc("its 10th and 90th percentile over the worlds of the replay")]


class Cost(OfCause):
    """What a cause costs the step; causes overlap."""

    cause: Annotated[str, one_of(CAUSES), doc("the cause")]
    share: Annotated[Share, doc("the share of the worlds in which it costs most")]
    idle_ms: Annotated[Ms, doc("its part of the busiest GPU's idle time without the profiler; these do not overlap")]


class VerdictJson(OfCause):
    """Why the step takes so long: the one cause that costs it most."""

    cause: Annotated[str | None, one_of(CAUSES), doc("the cause; null where the trace cannot tell")]
    word: Word
    headline: Annotated[Words | None, doc("the verdict; where `cause` is null, between which causes it lies")]
    evidence: Annotated[Sequence[Words], doc("what shows it")]
    do: Annotated[Words | None, doc("what to do first: the largest saving, or how to find the cause")]
    finding: Annotated[Count | None, doc("index into `findings` of the finding that `do` is about")]


class FindingSite(PlacedJson):
    """A place where a rule holds."""

    evidence: Annotated[Words, doc("what was seen there")]
    cost_ms: CostMs
    saving_ms: Annotated[Ms | None, doc("what fixing this site alone saves per step; null where it was not replayed")]


class Then(Saved):
    """A change that helps once the finding is fixed, and what both save together."""

    rule: Annotated[str, doc("the rule that explains it")]
    what: Annotated[Words, doc("the change")]


class FixCode(Document):
    """The fix as code."""

    before: Annotated[str, doc("an example of the code that the rule finds")]
    after: Annotated[str, doc("what to write instead; tests run it")]


class FindingJson(PlacedJson):
    """A rule that holds, with all sites that one fix is for."""

    rule: Annotated[str, doc("the rule, for `pinprof explain`")]
    family: RuleFamily
    title: Annotated[Words, doc("the rule in a few words")]
    severity: Annotated[SeverityJson, doc("by the share of the step that the fix saves; `suspect` for hazards")]
    evidence: Annotated[Words, doc("what was seen, with figures")]
    cost_ms: CostMs
    saving_ms: SavingMs
    saving_fraction: SavingFraction
    range_ms: SavingRange
    at_most_ms: Annotated[Ms | None, doc("what the fix saves at most, where no replay predicts what it saves")]
    irregular: Annotated[bool, doc("whether it makes only some steps longer; a saving is then on top of the step")]
    then: Annotated[Then | None, doc("what the fix makes possible")]
    fix: Annotated[Words, doc("what to do")]
    fix_code: Annotated[FixCode, doc("the fix as code")]
    sites: Annotated[Sequence[FindingSite], doc("where it holds, the costliest first; the place above is one of these")]


class JointJson(Saved):
    """All fixes of the regular step together: at least the largest of their savings, and less or more than the sum.

    Two fixes may be for the same time; and of two waits each may hide the other, so that only both together free it.
    """

    predicted_step_ms: Annotated[Ms, doc("the step with all of them")]
    without: Annotated[Sequence[str], doc("rules whose fixes are left out, because the step would be longer with them")]


class SharedSiteJson(FindingSite):
    """A place on some ranks."""

    ranks: OnRanks


@projection(FindingJson, "file line function rule family title cost_ms saving_ms ranks sites")
class SharedFindingJson(PlacedJson):
    """A finding of one or more ranks, with the figures of the rank where it costs most."""

    ranks: OnRanks
    sites: Annotated[Sequence[SharedSiteJson], doc("where it holds")]


class Collective(Document):
    """A collective of the step, in order."""

    name: Annotated[str, doc("what it does")]
    group: Annotated[str, doc("its process group")]
    last_rank: Annotated[int, doc("the rank that was last most often")]
    last: Annotated[Share, doc("of the steps")]
    own_ms: Annotated[Ms, doc("how long it takes after all ranks have come")]
    waited_ms: Annotated[Ms, doc("the longest time that a rank waited")]
    bytes: Annotated[Bytes | None, doc("its message on each rank")]
    bus_gbps: Annotated[Gbps | None, doc("its bus bandwidth in `own_ms`, as nccl-tests counts it")]


class TrafficJson(Document):
    """The collectives of one name, per step and rank."""

    name: Annotated[str, doc("what they do")]
    per_step: Annotated[float, doc("how many there are")]
    bytes: Annotated[Bytes, doc("their messages")]
    own_ms: Annotated[Ms, doc("how long they take after all ranks have come")]
    bus_gbps: Annotated[Gbps, doc("their bus bandwidth in that time, as nccl-tests counts it")]


class ByCause(Document):
    """The time of one cause."""

    cause: Annotated[str, doc("the cause")]
    time_ms: Annotated[Ms, doc("per step, as traced")]


class RankRowJson(Document):
    """A rank in figures, per step."""

    rank: Annotated[Count, doc("its number")]
    path: Annotated[str, doc("its trace")]
    step_ms: Annotated[Ms | None, doc("its step without the profiler")]
    alone_ms: Annotated[Ms | None, doc("its step if it waited for no other rank")]
    surely_ms: Annotated[
        Ms | None,
        doc("the least that `alone_ms` can be: the profiler may cost more, its host may be slower than the others'"),
    ]
    traced_ms: Annotated[Ms | None, doc("its step as traced; the times below are parts of it")]
    gpu_busy_ms: Annotated[Ms | None, doc("its GPU works, but for copies of pageable memory: the host sets their pace")]
    exposed_copies_ms: Annotated[Ms | None, doc("copies run and no kernel does")]
    stall_ms: Annotated[Ms | None, doc("its host is in calls that wait")]
    input_ms: Annotated[Ms, doc("its host waits for the next batch")]
    communication_ms: Annotated[Ms, doc("kernels of collectives run")]
    exposed_communication_ms: Annotated[Ms, doc("the part in which no other kernel runs")]
    waited_ms: Annotated[Ms, doc("they wait for other ranks")]
    last: Annotated[Share, doc("collectives that it reached last")]
    explains: Annotated[Share | None, doc("the others' waiting that its own longer work in the trace explains")]
    host_pace: Annotated[float | None, doc("its host's time from call to call, as a multiple of the others'")]
    clock_ahead_ms: Annotated[Ms, doc("how far its clock is ahead of the first rank's; not per step")]
    steps_before: Annotated[Count | None, doc("steps of the program before the recorded ones")]
    overlapped_communication_ms: Annotated[Ms, doc("kernels of collectives run, and others do")]
    pause_ms: Annotated[Ms | None, doc("the longest time in which its host ran no op and no call")]
    stalls: Annotated[Sequence[ByCause], doc("`stall_ms` by cause of waits")]
    idle_ms: Annotated[Ms | None, doc("its busiest GPU has no work")]
    work_ms: Annotated[Ms | None, doc("its busiest GPU works for the steps")]
    idle: Annotated[Sequence[ByCause], doc("`idle_ms` by cause")]


class Spread(Document):
    """The range of the steps of the ranks."""

    least_ms: Annotated[Ms, doc("the shortest")]
    median_ms: Annotated[Ms, doc("the median")]
    most_ms: Annotated[Ms, doc("the longest")]


class TurnsJson(Document):
    """Ranks that hold up the others, each in some of the steps."""

    ranks: Annotated[Sequence[Count], doc("which, the one that does so most often first")]
    held_up: Annotated[Count, doc("the steps in which one of them is late")]
    steps: Annotated[Count, doc("of how many that were recorded")]
    late_ms: Annotated[Ms, doc("how much longer its host works there, beyond the others', in the median")]


class RanksJson(Document):
    """The ranks of a job side by side."""

    world_size: Annotated[Count | None, doc("how many ranks the job has")]
    slowest_rank: Annotated[Count | None, doc("the rank that holds up the others")]
    skew_ms: Annotated[Ms | None, doc("how much longer than the median of the others the slowest rank needs alone")]
    turns: Annotated[TurnsJson | None, doc("ranks that hold up the others in some steps only")]
    clocks_within_ms: Annotated[Ms | None, doc("how closely the clocks agree after alignment")]
    reason: Annotated[Words | None, doc("why the slowest rank needs longer")]
    shown_rank: Annotated[Count | None, doc("the rank to look at first")]
    choice: Annotated[Sequence[Words], doc("why these traces were taken, and what is absent")]
    spread: Annotated[Spread | None, doc("the range of the ranks' steps")]
    rows: Annotated[Sequence[RankRowJson], doc("the ranks")]
    collectives: Annotated[Sequence[Collective], doc("those with the longest waits")]
    findings: Annotated[Sequence[SharedFindingJson], doc("those on most ranks first")]
    traffic: Annotated[Sequence[TrafficJson], doc("collectives by name, those of most bytes first")]
