"""`pinprof report --json`: the whole document."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, get_args

from msgspec import UNSET, UnsetType, convert, defstruct

from pinprof.analyses.whole_run import FIRST_STEPS_SLOW, OFF_CPU, RECURRING, UNEXPLAINED
from pinprof.document import Bytes, Count, Document, Ms, RangeMs, Share, Words, doc, one_of
from pinprof.documents import by_name
from pinprof.documents.fields import Bound, DeviceJson, PlacedJson, Source
from pinprof.documents.findings import Cost, FindingJson, JointJson, RanksJson, VerdictJson
from pinprof.documents.waits import CopiesJson, IdleJson, Loader, OverlapJson, SyncsJson
from pinprof.measurement.figures import FIGURES, FigureUnit
from pinprof.measurement.trust import CHECKS
from pinprof.measurement.trust.doubt import DOUBT_LEVELS
from pinprof.measurement.trust.doubt import FIGURE_KINDS as KINDS
from pinprof.trace.metadata.info import HostMemory
from pinprof.trace.metadata.run_log import CAPTURE, CHECKPOINT, COMPILE, EPOCH, EVALUATION, GARBAGE
from pinprof.trace.tables import StepSource
from pinprof.version import VERSION

REPORT_SCHEMA: Final = "pinprof.report/1"
IRREGULAR_REASONS = (
    *(FIRST_STEPS_SLOW, COMPILE, EVALUATION, CHECKPOINT, CAPTURE, GARBAGE, EPOCH, OFF_CPU, RECURRING, UNEXPLAINED),
)
LEDGER_ENTRIES = ("start_up", "regular", "input", *IRREGULAR_REASONS, "later", "pinprof", "end")


class Events(Document):
    """What the trace holds."""

    kernel: Annotated[Count, doc("events of category `kernel`")]
    gpu_memcpy: Annotated[Count, doc("events of category `gpu_memcpy`")]
    gpu_memset: Annotated[Count, doc("events of category `gpu_memset`")]
    cuda_runtime: Annotated[Count, doc("events of category `cuda_runtime`")]
    cuda_driver: Annotated[Count, doc("events of category `cuda_driver`")]
    cuda_sync: Annotated[Count, doc("events of category `cuda_sync`")]
    cpu_op: Annotated[Count, doc("events of category `cpu_op`")]
    python_function: Annotated[Count, doc("events of category `python_function`")]
    user_annotation: Annotated[Count, doc("events of category `user_annotation`")]
    skipped: Annotated[Count, doc("events that could not be used")]
    skipped_reasons: Annotated[Mapping[str, Count], doc("the same by reason")]
    other: Annotated[Mapping[str, Count], doc("events of other categories")]


EVENT_CATEGORIES = tuple(name for name in Events.__struct_fields__ if not name.startswith(("skipped", "other")))


class Missing(Document, kw_only=True):
    """What the recording lacks or has wrong."""

    check: Annotated[str, one_of(CHECKS), doc("the check that found it")] = ""
    level: Annotated[str, one_of(DOUBT_LEVELS), doc("whether figures are withheld or doubtful, or something is absent")]
    what: Annotated[Words, doc("the lack or fault")]
    effect: Annotated[Words, doc("what follows")]
    remedy: Annotated[Words, doc("how to record it")]
    invalidates: Annotated[Sequence[Annotated[str, one_of(KINDS)]], doc("the kinds of figures that it makes null")]


class Point(PlacedJson):
    """A place in the code."""


class IrregularJson(Document, rename={"places": "sites"}):
    """Steps that are unlike the others for one reason."""

    reason: Annotated[str, one_of(IRREGULAR_REASONS), doc("what makes them longer")]
    count: Annotated[Count, doc("how many")]
    every: Annotated[Count | None, doc("their period in steps; null without one")]
    ms: Annotated[Ms, doc("the sum of what it adds to them")]
    per_step_ms: Annotated[Ms, doc("what it adds, divided by all steps")]
    places: Annotated[Sequence[Point], doc("where the program calls such work, as far as that is known")]


class Regular(Document):
    """The regular step as `pinprof run` timed it without a profiler."""

    count: Annotated[Count, doc("steps timed")]
    step_ms: Annotated[Ms, doc("their mean")]
    range_ms: Annotated[RangeMs | None, doc("where this run's mean lies with 95 % confidence; null for too few steps")]
    confidence: Annotated[Share, doc("how often such a range holds")]
    input_fraction: Annotated[Share, doc("the share of their time in a DataLoader")]


class RunsJson(Document):
    """The regular step of each run of `pinprof run --repeat`, each in a fresh process."""

    step_ms: Annotated[Sequence[Ms], doc("the mean of each run, in order; the report is on the run of the middle one")]
    range_ms: Annotated[RangeMs | None, doc("where the mean of one more run lies, by Student's t; null for two runs")]
    confidence: Annotated[Share, doc("how often such a range holds, if the runs differ by chance alone")]


class Entry(Document):
    """A row of the ledger; the rows add up to the run."""

    what: Annotated[str, one_of(LEDGER_ENTRIES), doc("where time went")]
    ms: Annotated[Ms, doc("how much")]
    fraction: Annotated[Share, doc("of the run")]
    steps: Annotated[Count | None, doc("steps with a part of it")]


class StepsJson(Document):
    """The step: how long it is, and what bounds it."""

    count: Annotated[Count, doc("complete steps in the recording")]
    source: Annotated[str, one_of(get_args(StepSource)), doc("what marks the steps")]
    marker: Annotated[str, doc("the mark of a step in the trace")]
    step_marker: Annotated[str | None, doc("what `pinprof run` took for the end of a step")]
    host_ms: Annotated[Ms | None, doc("median time between starts of steps on the host, as traced")]
    device_ms: Annotated[Ms | None, doc("mean time between ends of the steps' work on the GPU, as traced")]
    traced_ms: Annotated[Ms | None, doc("the larger of both")]
    busy_ms: Annotated[Ms | None, doc("time per step in which the busiest GPU works")]
    busy_fraction: Annotated[Share | None, doc("the same as a share of `step_ms`, at most 1")]
    step_ms: Annotated[Ms | None, doc("the step without the profiler")]
    step_source: Annotated[Source, doc("how that is known")]
    range_ms: Annotated[RangeMs | None, doc("where `step_ms` lies; of several runs, where that of another one lies")]
    bound: Annotated[Bound | None, doc("what sets the pace")]
    regular: Annotated[Regular | None, doc("the regular step as it was timed; null in traces of others")]
    runs: Annotated[RunsJson | None, doc("the same of all runs of `pinprof run --repeat`; null for a single run")]
    irregular: Annotated[Sequence[IrregularJson], doc("steps unlike the others, by reason")]
    ledger: Annotated[Sequence[Entry] | None, doc("where the time of the whole run went; null in traces of others")]


TYPE_OF_UNIT: Mapping[FigureUnit, Any] = {"ns": Ms, "bytes": Bytes, "share": Share, "count": float}
PerStep: TypeAlias = Document
if not TYPE_CHECKING:
    PerStep = defstruct(
        "PerStep",
        [
            (figure.name, Annotated[TYPE_OF_UNIT[figure.unit] | None, doc(figure.meaning)], None)
            for figure in FIGURES
            if not figure.place
        ],
        bases=(Document,),
        namespace={"__doc__": "Sums over the complete steps, divided by their number: what `pinprof check` limits."},
    )
"""A record with a field for each figure that is a sum per step."""


def per_step(values: Mapping[str, float | None]) -> PerStep:
    """Return the record of the sums per step, which are given by the names of their figures."""
    return convert(values, PerStep)


class StepPart(Document, rename={"length_ms": "step_ms", "both_ms": "overlapped_ms", "copy_ms": "exposed_ms"}):
    """How a mean step divides on a GPU; from `compute_ms` to `idle_ms` its parts add up to `step_ms`."""

    device: Annotated[Count, doc("the GPU")]
    length_ms: Annotated[Ms | None, doc("the step, or the GPU's work if that is longer")]
    compute_ms: Annotated[Ms | None, doc("time with kernels and without copies")]
    both_ms: Annotated[Ms | None, doc("time with kernels and copies")]
    copy_ms: Annotated[Ms | None, doc("time with copies and without kernels")]
    memset_ms: Annotated[Ms | None, doc("time with memsets only")]
    idle_ms: Annotated[Ms | None, doc("time without work")]
    collective_ms: Annotated[Ms | None, doc("the part of `compute_ms` in which only kernels of collectives run")] = None


class GpuJson(Document):
    """A GPU from its first work to its last, as traced."""

    device: Annotated[Count, doc("the GPU")]
    busy_ms: Annotated[Ms | None, doc("time with kernels, copies or memsets")]
    kernel_ms: Annotated[Ms | None, doc("time with kernels")]
    memcpy_ms: Annotated[Ms | None, doc("time with copies")]
    idle_ms: Annotated[Ms | None, doc("time without work")]
    span_ms: Annotated[Ms | None, doc("busy and idle time together")]


class HtaTimes(Document):
    """What the GPU does from its first work to its last."""

    idle_ms: Annotated[Ms, doc("time without work")]
    compute_ms: Annotated[Ms, doc("time with kernels that compute")]
    other_ms: Annotated[Ms, doc("time with only copies, memsets and communication")]
    span_ms: Annotated[Ms, doc("the sum")]


class HtaKernel(Document):
    """A kernel, or copies or memsets of one kind."""

    name: Annotated[str, doc("its name")]
    kind: Annotated[str, doc("COMPUTATION, COMMUNICATION or MEMORY")]
    time_ms: Annotated[Ms, doc("their time")]
    mean_ms: Annotated[Ms, doc("the mean of one")]
    max_ms: Annotated[Ms, doc("the longest")]


class HtaStream(Document):
    """The gaps of a stream by HTA's cause, and its queue."""

    stream: Annotated[Count, doc("the stream")]
    host_wait_ms: Annotated[Ms, doc("gaps that began before the launch of the next work")]
    kernel_wait_ms: Annotated[Ms, doc("other gaps under 30 µs")]
    other_ms: Annotated[Ms, doc("all other gaps")]
    mean_queue: Annotated[float | None, doc("work that was launched and had not begun, in the mean")]
    longest_queue: Annotated[Count | None, doc("the longest queue")]


class HtaLaunches(Document):
    """Launches whose work is in the trace."""

    count: Annotated[Count, doc("how many")]
    longer_than_work: Annotated[Count, doc("those that take longer than their work")]
    slow: Annotated[Count, doc("those over 50 µs")]
    late: Annotated[Count, doc("those whose work begins more than 100 µs later")]


class Hta(Document):
    """HTA's figures on the trace without its last step (`--hta`)."""

    times: Annotated[HtaTimes | None, doc("what the GPU does")]
    overlapped: Annotated[Share | None, doc("share of the communication time in which the GPU also computes")]
    kernels: Annotated[Sequence[HtaKernel], doc("by time")]
    streams: Annotated[Sequence[HtaStream], doc("by stream")]
    launches: Annotated[HtaLaunches | None, doc("launches")]
    failed: Annotated[Sequence[Words], doc("methods of HTA that raised, with the error")]


class TraceJson(Document):
    """One trace; of the ranks of a job each has one."""

    path: Annotated[str, doc("where it was read")]
    rank: Annotated[Count | None, doc("the rank")]
    world_size: Annotated[Count | None, doc("how many ranks the job has")]
    torch_version: Annotated[str | None, doc("the torch that recorded it")]
    devices: Annotated[Sequence[DeviceJson], doc("the GPUs")]
    span_ms: Annotated[Ms | None, doc("from the first event to the end of the last")]
    events: Annotated[Events, doc("how many events of each kind it holds")]
    missing: Annotated[Sequence[Missing], doc("what it lacks, the gravest first")]
    verdict: Annotated[VerdictJson, doc("why the step is as long as it is")]
    verdicts: Annotated[Sequence[Cost], doc("what each cause costs, the largest first")]
    steps: Annotated[StepsJson, doc("the step")]
    per_step: Annotated[PerStep | None, doc("sums per step; null without complete steps")]
    step_parts: Annotated[Sequence[StepPart], doc("how the step divides, by GPU")]
    gpu: Annotated[Sequence[GpuJson], doc("busy and idle time, by GPU")]
    copies: Annotated[Sequence[CopiesJson], doc("copies, by direction and host memory")]
    overlap: Annotated[OverlapJson, doc("how much copy time is hidden")]
    syncs: Annotated[SyncsJson, doc("where the host waits")]
    idle: Annotated[Sequence[IdleJson], doc("idle time by cause")]
    pause: Annotated[by_name.PauseJson | None, doc("the host's longest pause")]
    launches: Annotated[by_name.LaunchesJson | None, doc("how kernels are launched")]
    loader: Annotated[Loader, doc("the DataLoader")]
    kernels: Annotated[Sequence[by_name.KernelJson], doc("kernels by name, the costliest 200")]
    kernel_sums: Annotated[by_name.KernelSumsJson | None, doc("all kernels")]
    ops: Annotated[Sequence[by_name.Op], doc("ops by name, the costliest 200")]
    op_sums: Annotated[by_name.OpSumsJson | None, doc("all ops")]
    host_profile: Annotated[by_name.HostProfileJson | None, doc("the sampled host; null in traces of others")]
    host_memory: Annotated[HostMemory | None, doc("pinned memory; null in traces of others")]
    findings: Annotated[Sequence[FindingJson], doc("what to do, the largest saving first; a graph of the step last")]
    joint: Annotated[JointJson | None, doc("all fixes together")]
    hta: Annotated[Hta | None, doc("HTA's figures; null without `--hta`")]
    memory: Annotated[
        Sequence[by_name.MemoryPeakJson], doc("the peak of each GPU's memory; only with `profile_memory`")
    ] = []
    serving: Annotated[Sequence[by_name.ServingPhaseJson], doc("batches by phase, if steps are those of a server")] = []


class MeasuredOn(Document):
    """The machine of `--machine`."""

    gpu: Annotated[str, doc("its GPU")]


class ReportJson(Document, kw_only=True, tag_field="schema", tag=REPORT_SCHEMA):
    """What `pinprof report --json` writes."""

    pinprof_version: Annotated[str, doc("what wrote it")] = VERSION
    machine: Annotated[MeasuredOn | UnsetType, doc("the machine of the findings' bench; only with `--machine`")] = UNSET
    traces: Annotated[Sequence[TraceJson], doc("the traces")]
    ranks: Annotated[RanksJson | None, doc("the ranks of a job; null for one trace")]
