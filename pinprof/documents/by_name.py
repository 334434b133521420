"""Where the time goes by name: kernels, ops, launches, a server's phases, and the sampled host."""

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeAlias

from pinprof.analyses import serving
from pinprof.analyses.host_samples import CODE_KINDS
from pinprof.document import ByteSize, Count, Document, Ms, Share, Us, doc, one_of, projection
from pinprof.documents.fields import BlockerJson, PlacedJson
from pinprof.trace.metadata import sampled_stacks
from pinprof.trace.spans.phases import CALL_PHASES
from pinprof.trace.vendors import KERNEL_KINDS

KindName: TypeAlias = Annotated[str, one_of(kind.name for kind in KERNEL_KINDS), doc("what they do")]


class Times(PlacedJson):
    """The time of one name, and where most of it comes from."""

    name: Annotated[str, doc("the name; cut in its middle beyond 500 characters")]
    count: Annotated[float, doc("how many per step")]
    ms: Annotated[Ms, doc("their time per step")]
    mean_us: Annotated[Us, doc("the mean of one")]
    places: Annotated[Count, doc("how many places they come from; `file` and `line` are those with the most time")]
    module: Annotated[str | None, doc("the innermost module around most of the time")]
    modules: Annotated[Count, doc("how many modules they come from")]


class LaneJson(Document):
    """A stream."""

    device: Annotated[Count, doc("the GPU")]
    stream: Annotated[Count, doc("its stream")]


class KernelJson(Times):
    """The kernels of one name that the complete steps launched."""

    kind: KindName
    share: Annotated[Share | None, doc("of the time in which GPUs work for the steps")]
    step_share: Annotated[Share | None, doc("of the step without the profiler, on one stream")]
    communication: Annotated[bool, doc("whether they are those of collectives, whose time includes waiting")]
    streams: Annotated[Sequence[LaneJson], doc("where they run, most of the time first")]
    op: Annotated[str | None, doc("the outermost op that launches most of their time")]


class KernelsOfKind(Document):
    """The kernels of one kind that the complete steps launched."""

    kind: KindName
    count: Annotated[float, doc("how many per step")]
    ms: Annotated[Ms, doc("their time per step")]
    share: Annotated[Share | None, doc("of the time of all kernels")]
    tensor_core_ms: Annotated[Ms | None, doc("the part on tensor cores, at least; null if no kernel's name shows it")]


class Op(Times):
    """The ops of one name on the threads that train, as traced, without the ops that they call."""

    share: Annotated[Share | None, doc("of the host's step")]
    without_profiler_ms: Annotated[Ms | None, doc("the same of the step without profiler; null if the GPU limits it")]
    stall_ms: Annotated[Ms | None, doc("the part in calls that can block, per step")]
    kernels: Annotated[float | None, doc("kernels that they launch themselves, per step")]
    kernel_ms: Annotated[Ms | None, doc("how long these run")]


class Sums(Document):
    """All names together."""

    names: Annotated[Count, doc("how many names there are")]
    left_out: Annotated[Count, doc("names beyond the costliest 200")]
    left_out_ms: Annotated[Ms, doc("their time per step")]
    ms: Annotated[Ms, doc("the sum of their times per step")]


class KernelSumsJson(Sums):
    """All kernels together."""

    busy_ms: Annotated[Ms, doc("time per step in which GPUs work, including copies")]
    kinds: Annotated[Sequence[KernelsOfKind], doc("by what they do, the costliest kind first")]


class OpSumsJson(Sums):
    """All ops together."""

    host_ms: Annotated[Ms, doc("how long a step is on the host, as traced")]


class Launched(Document):
    """Launches, per step."""

    launches: Annotated[float, doc("calls that launch kernels")]
    host_ms: Annotated[Ms, doc("the host's time until each launch from the one before")]
    kernel_ms: Annotated[Ms, doc("how long the kernels run")]


class Phase(Launched, rename={"name": "phase"}):
    """The launches of one phase, per step."""

    name: Annotated[str, one_of(CALL_PHASES), doc("the phase")]


class Launcher(Launched):
    """The launches of one name, per step."""

    name: Annotated[str | None, doc("the name; null outside of any")]


class LaunchesJson(Document):
    """How the host launches kernels, as traced."""

    per_step: Annotated[float, doc("calls that launch kernels")]
    median_kernel_us: Annotated[Us, doc("the median length of a kernel")]
    host_us_per_launch: Annotated[Us, doc("the host's time per launch, without waits and long pauses")]
    phases: Annotated[Sequence[Phase], doc("by phase of the step")]
    ops: Annotated[Sequence[Launcher], doc("by the outermost op, the 50 with most launches")]
    modules: Annotated[Sequence[Launcher], doc("by the innermost module, likewise; none without Python stacks")]
    blockers: Annotated[Sequence[BlockerJson] | None, doc("what one graph of the step cannot hold; null if withheld")]


class PauseJson(Document):
    """The longest time per step in which the host ran no op and no call, as traced."""

    time_ms: Annotated[Ms, doc("its usual length")]
    after: Annotated[str, doc("the op or call before it; empty at the beginning of the step")]
    before: Annotated[str, doc("the op or call after it; empty at the end of the step")]


class Called(PlacedJson):
    """A line of your code, and what ran while it was the innermost of your lines."""

    samples: Annotated[Count, doc("how many samples")]
    share: Annotated[Share, doc("of all samples")]
    error: Annotated[Share, doc("half the width of the 95 % confidence interval")]
    per_step_ms: Annotated[Ms | None, doc("the same share of the measured step")]
    kinds: Annotated[Mapping[str, Count], doc("samples by kind")]
    parts: Annotated[Mapping[str, Count], doc("samples by what runs below it: a phase, or a library's function")]


@projection(Called, "file line function origin samples share error per_step_ms total total_share")
class HostLine(PlacedJson):
    """A line, or a function, of any code."""

    origin: sampled_stacks.CodeOrigin
    total: Annotated[Count, doc("samples with it in their stack; in `samples` it is innermost")]
    total_share: Annotated[Share, doc("of all samples")]


@projection(Called, "kind samples share error per_step_ms")
class KindJson(Document):
    """Samples of one kind."""

    kind: Annotated[str, one_of(CODE_KINDS), doc("what the innermost code is")]


class HostProfileJson(sampled_stacks.HostProfile, frozen=True, kw_only=True):
    """Where the host's time goes, by Python stacks sampled while no profiler ran."""

    kinds: Annotated[Sequence[KindJson], doc("by kind; they add up to all samples")]
    called: Annotated[Sequence[Called], doc("by your innermost line; they add up to all samples")]
    lines: Annotated[Sequence[HostLine], doc("by line of any code, most samples first")]
    functions: Annotated[Sequence[HostLine], doc("by function of any code")]


class MemoryPeakJson(Document):
    """The most memory that torch's allocator had given out on a GPU in the recording."""

    device: Annotated[Count, doc("the GPU")]
    allocated_bytes: Annotated[ByteSize, doc("in tensors, at the peak")]
    reserved_bytes: Annotated[ByteSize | None, doc("the most that was taken from the GPU; null where not recorded")]
    step: Annotated[Count | None, doc("the number of the step of the first such peak; null in none")]
    step_fraction: Annotated[Share | None, doc("how much of that step had passed")]
    op: Annotated[str | None, doc("the innermost op then that is more than an allocation")]


class FillJson(Document):
    """What a server marks while the GPU has no work."""

    mark: Annotated[str, doc("the innermost mark; in a program without marks, the outermost op, or Python in no op")]
    ms: Annotated[Ms, doc("its time without GPU work per batch")]


class ServingPhaseJson(Document):
    """Batches of one phase, of a server or a language model, as traced; all but `count` are means of a batch."""

    phase: Annotated[str, one_of(serving.BATCH_PHASES), doc("what the batches do, by marks or by lookups of tokens")]
    count: Annotated[Count, doc("batches; decodes unlike the others are left out")]
    requests: Annotated[float | None, doc("requests; null where the trace does not show them")]
    tokens: Annotated[float | None, doc("tokens put in and made; null where the trace does not show them")]
    step_ms: Annotated[Ms, doc("from the begin of a batch to that of the next one")]
    launches: Annotated[float, doc("calls that launch work; that of a CUDA graph is one")]
    graphs: Annotated[float, doc("calls that launch a CUDA graph")]
    idle_ms: Annotated[Ms, doc("time in which the busiest GPU has no work")]
    fills: Annotated[Sequence[FillJson], doc("what the host does in that time, the longest first")]
