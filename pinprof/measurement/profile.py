"""What was measured of one trace: sums, each known or withheld, and how the step divides by them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pinprof.analyses.by_name.kernels import KernelSums
from pinprof.analyses.by_name.ops import OpSums
from pinprof.analyses.copies import Copied, Hidden
from pinprof.analyses.host_samples import HostSums
from pinprof.analyses.idle import DeviceTime
from pinprof.analyses.launches import Launches, Pause, SlowLaunches
from pinprof.analyses.loader import LoaderWaits
from pinprof.analyses.memory import MemoryPeak
from pinprof.analyses.serving import ServingPhase
from pinprof.analyses.step_parts import Communication, MeanStep
from pinprof.analyses.steps import StepTimes
from pinprof.analyses.syncs.sites import BareSite, Stalled, WaitCost
from pinprof.analyses.whole_run import Irregular, WholeRun
from pinprof.ground.units import duration, one_line
from pinprof.measurement.trust.doubt import Doubt, Known, KnownOrWithheld, WithheldKinds, given
from pinprof.replay import StepEstimate
from pinprof.trace.metadata.info import Info

TimesByCause = tuple[tuple[str, int], ...]  # (cause, ns), the longest first


@dataclass(frozen=True)
class GpuSums:
    """How long a GPU worked and was idle in the whole trace."""

    device: int
    time: KnownOrWithheld[DeviceTime]
    idle_by_cause: KnownOrWithheld[TimesByCause]


@dataclass(frozen=True)
class CopySums:
    """All copies of one direction and host memory in the whole trace."""

    direction: str
    host_memory: str
    unsized: int  # copies whose size is not recorded
    copied: KnownOrWithheld[Copied]
    hidden: KnownOrWithheld[Hidden]
    host_blocked_ns: KnownOrWithheld[int]  # how long the host was blocked in calls that made or awaited these copies


@dataclass(frozen=True)
class OverlapSums:
    """Copy time of all devices in the whole trace, in ns."""

    overlapped_ns: int
    exposed_ns: int
    known_ns: int  # the copy time that the recording shows to be hidden or exposed: `Overlap.known_ns`
    fraction: float | None  # the overlapped share of `known_ns`; None without copies


@dataclass(frozen=True)
class ExposedSums:
    """The exposed copies of one reason."""

    reason: KnownOrWithheld[str]
    count: KnownOrWithheld[int]
    exposed_ns: KnownOrWithheld[int]


@dataclass(frozen=True, kw_only=True)
class WaitSite(BareSite):
    """Waits of one cause at one place, and what they cost."""

    total: KnownOrWithheld[Stalled]  # in the whole trace
    total_cost: KnownOrWithheld[WaitCost]  # the same with drain, own and idle time
    in_steps: KnownOrWithheld[Stalled]  # in the complete steps together
    in_steps_cost: KnownOrWithheld[WaitCost]


@dataclass(frozen=True)
class Profile:
    """The sums of one trace: small and picklable, however large the trace."""

    path: str
    info: Info
    begin_ns: int  # when the first event began, in ns since 1970 if the trace has the date
    span_ns: int
    counts: dict[str, int]  # events by category, as in `Trace.counts`
    skipped: dict[str, int]  # events that could not be used, by reason
    doubts: tuple[Doubt, ...]  # the doubts about the trace, the gravest first
    withheld: WithheldKinds  # why figures are withheld, for code that takes figures from the rows of the trace
    steps: StepTimes  # its times are None where they are withheld
    step: KnownOrWithheld[StepEstimate]  # the step without the profiler
    bound: str | None
    """What sets the pace: `host`, `gpu`, `input` or `communication`; None without GPU work, and if it is withheld."""
    gpus: tuple[GpuSums, ...]
    copies: tuple[CopySums, ...]
    copy_ns: KnownOrWithheld[int]  # the copy time of all devices in the whole trace
    overlap: KnownOrWithheld[OverlapSums]
    exposed: tuple[ExposedSums, ...]  # by reason, the longest first
    sites: tuple[WaitSite, ...]  # where the host waits, the longest idle time first
    loader: LoaderWaits
    communication: Communication
    per_step: Mapping[str, KnownOrWithheld[float | None]]
    """Sums over the complete steps, divided by their number, by the name of the figure: `TraceFigure.of` returns them.
    Empty without complete steps."""
    mean_steps: KnownOrWithheld[tuple[MeanStep, ...]]
    """How the step divides on each GPU; empty if its length is unknown."""
    whole_run: WholeRun | None  # the sums of the whole run; None where pinprof did not record it
    serving: tuple[ServingPhase, ...]
    """The phases of a server's batches; none where the steps are no batches, or sums per step are withheld."""
    unlike: tuple[Irregular, ...]
    """The time that irregular steps add, in the whole run if pinprof noted it, otherwise in the trace."""
    pause: Pause | None  # as traced; None without complete steps on the host, and where sums per step are withheld
    launches: Launches | None
    """How kernels are launched, as traced; None without complete steps, and where sums per step are withheld."""
    slow_launches: SlowLaunches | None  # as traced; None where sums per step are withheld
    kernels: KnownOrWithheld[KernelSums]  # the kernels of the complete steps by name
    ops: KnownOrWithheld[OpSums]  # the ops of the complete steps by name, as traced
    memory: tuple[MemoryPeak, ...]  # the most memory on each GPU; none where it was not recorded
    host: HostSums | None  # where the host's time goes without the profiler; None where it was not sampled
    of_job: bool = False  # whether it is reported together with the other ranks of its job

    def __repr__(self) -> str:
        """Say how long the step is, and what limits it."""
        step = f"step {duration(self.step_ns)} ({self.estimate.source})" if self.step_ns else "step not known"
        return one_line(f"profile of {self.path!r}", (step, f"bound by {self.bound}" if self.bound else ""))

    @property
    def step_ns(self) -> float | None:
        """The step without the profiler; if that is unknown, the step in the trace."""
        return self.estimate.step_ns or self.steps.traced_ns

    @property
    def estimate(self) -> StepEstimate:
        """The step without the profiler; its fields are None if it is withheld."""
        return self.step.value if isinstance(self.step, Known) else UNKNOWN_STEP

    @property
    def step_range_ns(self) -> tuple[float, float] | None:
        """Where the step without the profiler lies; of several runs, where it lies in another one; None if unknown.

        After two runs, which are too few for that, it is the range of these.
        """
        runs = self.whole_run.runs if self.whole_run and self.estimate.source == "measured" else None
        return (runs.range_ns or (min(runs.step_ns), max(runs.step_ns))) if runs else self.estimate.range_ns

    @property
    def parts(self) -> tuple[MeanStep, ...]:
        """How the step divides on each GPU; empty if that is withheld or unknown."""
        return self.mean_steps.value if isinstance(self.mean_steps, Known) else ()

    @property
    def waits(self) -> Sequence[tuple[WaitSite, WaitCost]]:
        """The sites at which the host waits in the complete steps, with their cost there; empty if it is withheld."""
        if self.withheld.per_step:
            return ()
        costs = ((site, given(site.in_steps_cost)) for site in self.sites if site.is_wait)
        return [(site, cost) for site, cost in costs if cost and cost.count]

    @property
    def has_sums(self) -> bool:
        """Whether there are sums per step: complete steps, and no reason to withhold all of them."""
        return bool(self.per_step) and not self.withheld.per_step

    def doubt(self, check: str) -> Doubt | None:
        """Return the doubt that a check has found, None if it has found none."""
        return next((doubt for doubt in self.doubts if doubt.check == check), None)

    def gravest(self, *reasons: Doubt | None) -> Doubt | None:
        """Return the gravest of these doubts; None if all are None."""
        return next((doubt for doubt in self.doubts if doubt in reasons), None)


UNKNOWN_STEP = StepEstimate(None, "estimated", None)


# How the step divides on the GPU that works most: the parts of a report's bar, and the basis of the verdict


OUTSIDE_WORK = "outside"  # the cause of idle time before and after all GPU work of an only step: no launch shows more
UNKNOWN_IDLE = ""  # the cause of idle time that is not in the trace


@dataclass(frozen=True)
class Division:
    """The parts of a mean step, which add up to it; times in ns."""

    kernels_ns: float  # kernels run, with or without copies, and not only those of collectives
    collectives_ns: float  # only kernels of collectives run
    copies_ns: float  # copies run, and no kernel
    memsets_ns: float
    idle_ns: Mapping[str, float]
    """Idle time of the step without the profiler, by cause, in the proportions of the trace."""


def divide(profile: Profile, mean: MeanStep) -> Division:
    """Return how a mean step divides."""
    times = {} if profile.withheld.causes else idle_times(profile, gpu_of(profile, mean))
    whole = sum(times.values())
    return Division(
        kernels_ns=mean.compute_ns - mean.collective_ns + mean.both_ns,
        collectives_ns=mean.collective_ns,
        copies_ns=mean.copy_ns,
        memsets_ns=mean.memset_ns,
        idle_ns={cause: mean.idle_ns * time / whole for cause, time in times.items() if time}
        if whole
        else {UNKNOWN_IDLE: mean.idle_ns},
    )


def busiest(profile: Profile) -> MeanStep | None:
    """Return the mean step of the GPU that works most; None if the parts of the step are withheld or unknown."""
    return max(profile.parts, key=lambda mean: mean.work_ns, default=None)


def busiest_idle_times(profile: Profile) -> dict[str, float]:
    """Return the idle time of the GPU that works most by cause, as `idle_times`."""
    times = ((gpu, given(gpu.time)) for gpu in profile.gpus)
    return idle_times(profile, max(times, key=lambda of_gpu: of_gpu[1].busy_ns if of_gpu[1] else 0)[0])


def idle_times(profile: Profile, gpu: GpuSums) -> dict[str, float]:
    """Return the idle time of a GPU by cause, in ns; for an only step with the time before and after all work."""
    return dict(given(gpu.idle_by_cause) or ()) | {OUTSIDE_WORK: idle_outside(profile, gpu)}


def idle_outside(profile: Profile, gpu: GpuSums) -> float:
    """Return how long the only step lasts before the first work of a GPU and after its last, as traced, in ns.

    It is 0 for several steps: one begins where the other ends.
    """
    time = given(gpu.time)
    return max((profile.steps.traced_ns or 0.0) - time.span_ns, 0.0) if time and profile.steps.count == 1 else 0.0


def gpu_of(profile: Profile, mean: MeanStep) -> GpuSums:
    """Return the whole trace's times of the GPU of a mean step."""
    return next(gpu for gpu in profile.gpus if gpu.device == mean.device)
