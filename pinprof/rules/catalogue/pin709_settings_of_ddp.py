from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from pinprof.ground.units import duration
from pinprof.rules.rule import AllEvidence, Details, Edits, Evidence, Profile, Rule, as_one
from pinprof.trace.callers import outermost_op, usual_place
from pinprof.trace.links import step_at
from pinprof.trace.tables import NONE, HostEvents, Int64s, Trace

HostTime = tuple[int, int, int]  # thread, begin and end in ns

FORWARD_MARK = "DistributedDataParallel.forward"
BROADCAST_OP = "c10d::broadcast_"
OPS_OF_BROADCAST = frozenset(
    {BROADCAST_OP, "aten::flatten_dense_tensors", "aten::unflatten_dense_tensors", "record_param_comms", "aten::copy_"}
)
SEARCH_OP = "torch.distributed.ddp.reducer::search_unused_parameters"
SINK_OP = "_DDPSink"  # a node behind the outputs, which the search needs
OPS_BEFORE_MAP = frozenset({"aten::empty_strided", "aten::is_pinned", "aten::pin_memory", "aten::copy_"})
"""What brings the map of used parameters to the GPU, before all ranks add it up."""
MESSAGE_OF_MAP = "Int "  # begins the message of the collective that adds it up


class _Setting(NamedTuple):
    """An argument of DistributedDataParallel, the work that it asks for, and when the host does that."""

    argument: str
    work: str
    times: list[HostTime]


def _unneeded_work(details: Details, profile: Profile) -> AllEvidence:
    trace, steps = details.trace, profile.steps
    settings = (
        _Setting("broadcast_buffers", "sends the buffers of the first rank to all others", list(_broadcasts(trace))),
        _Setting("find_unused_parameters", "looks for parameters without a gradient", list(_searches(trace))),
    )

    def evidence_of(chosen: Sequence[_Setting]) -> Evidence:
        times = sorted(time for setting in chosen for time in setting.times)
        cost = sum(end - begin for _, begin, end in times) / steps.divisor
        works = " and ".join(f"{setting.work} ({setting.argument}=True)" for setting in chosen)
        return Evidence(
            cost,
            f"DistributedDataParallel {works}: this takes {duration(cost)} of the host {steps.per}, as traced",
            *usual_place(trace, _calls_in(trace, times), details.sources),
            edits=Edits(removed_times=frozenset(times)),
        )

    if profile.step_ns:
        yield from as_one(profile, [setting for setting in settings if setting.times], evidence_of)


def _calls_in(trace: Trace, times: Sequence[HostTime]) -> Int64s:
    calls = trace.calls
    inside = [(calls.thread == at) & (calls.start_ns >= begin) & (calls.start_ns < end) for at, begin, end in times]
    return np.flatnonzero(np.logical_or.reduce(inside))


def _broadcasts(trace: Trace) -> Iterator[HostTime]:
    """Yield when buffers are sent: from the beginning of a forward pass to the last copy out of what was sent."""
    marks, ops = trace.annotations, trace.ops
    for mark in _in_complete_steps(trace, marks, np.flatnonzero(marks.named(FORWARD_MARK.__eq__))):
        inside = _from_time(trace, int(marks.thread[mark]), int(marks.start_ns[mark]))
        sending = list(takewhile(lambda op: ops.name_of(op) in OPS_OF_BROADCAST, inside))
        if any(ops.name_of(op) == BROADCAST_OP for op in sending):
            yield int(marks.thread[mark]), int(marks.start_ns[mark]), int(ops.end_ns[sending[-1]])


def _searches(trace: Trace) -> Iterator[HostTime]:
    """Yield when unused parameters are looked for, and when all ranks add up which parameters they used."""
    ops = trace.ops
    searches = _in_complete_steps(trace, ops, np.flatnonzero(ops.named(SEARCH_OP.__eq__)))
    for search in searches:
        thread, end = int(ops.thread[search]), int(ops.end_ns[search])
        following = next(_from_time(trace, thread, end), NONE)
        is_sink = following != NONE and ops.name_of(following) == SINK_OP
        yield thread, int(ops.start_ns[search]), int(ops.end_ns[following]) if is_sink else end
    for reduction in _reductions_of_maps(trace) if searches else ():
        thread, begin = int(ops.thread[reduction]), int(ops.start_ns[reduction])
        before = takewhile(lambda op: ops.name_of(op) in OPS_BEFORE_MAP, _before_time(trace, thread, begin))
        yield thread, min((int(ops.start_ns[op]) for op in before), default=begin), int(ops.end_ns[reduction])


def _reductions_of_maps(trace: Trace) -> list[int]:
    """Return the ops that add up maps of used parameters."""
    gpu, launch = trace.gpu, trace.links.launch
    rows = np.flatnonzero((gpu.message != NONE) & (launch != NONE) & trace.steps.holds(trace.links.activity_step))
    of_maps = [row for row in rows.tolist() if gpu.names[gpu.message[row]].startswith(MESSAGE_OF_MAP)]
    ops = outermost_op(trace, launch[of_maps].astype(np.int64))
    return np.unique(ops[ops != NONE]).tolist()


def _outermost_of_thread(trace: Trace, thread: int) -> Int64s:
    ops = trace.ops
    rows = np.flatnonzero((trace.links.op_parent == NONE) & (ops.thread == thread))
    return rows[np.argsort(ops.start_ns[rows], kind="stable")]


def _from_time(trace: Trace, thread: int, time_ns: int) -> Iterator[int]:
    """Yield the outermost ops of a thread from this time on."""
    rows = _outermost_of_thread(trace, thread)
    yield from rows[np.searchsorted(trace.ops.start_ns[rows], time_ns) :].tolist()


def _before_time(trace: Trace, thread: int, time_ns: int) -> Iterator[int]:
    """Yield the outermost ops of a thread before this time, the last first."""
    rows = _outermost_of_thread(trace, thread)
    yield from rows[: np.searchsorted(trace.ops.start_ns[rows], time_ns)][::-1].tolist()


def _in_complete_steps(trace: Trace, events: HostEvents, rows: Int64s) -> list[int]:
    return rows[trace.steps.holds(step_at(trace.steps, events.start_ns[rows]))].tolist()


RULE = Rule(
    id="PIN709",
    title="DistributedDataParallel does more than the model needs",
    short="fewer DDP checks",
    answers=("communication", "launch"),
    numbers="equal",
    why="By default each forward pass begins with a copy of all buffers from the first rank. Normalizations compute "
    "their statistics anew in training, so that nothing reads what was sent. With find_unused_parameters, torch walks "
    "through the whole graph in each step, and all ranks add up which parameters they used.",
    fix="Pass broadcast_buffers=False (forward_sync_buffers=False in newer torch) and no find_unused_parameters; if "
    "parameters stay unused, but always the same ones, static_graph=True. With gradient_as_bucket_view=True the "
    "gradients need no second copy in memory.",
    before="model = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)",
    code="model = torch.nn.parallel.DistributedDataParallel(\n"
    "    model, broadcast_buffers=False, static_graph=True, gradient_as_bucket_view=True\n"
    ")",
    safe_if="All ranks begin with the same buffers, and no forward pass in training reads what the ranks compute into "
    "them. Each step uses the same parameters.",
    near_miss="loss_of(model(x), y).backward()  # of a model that is not wrapped",
    search=_unneeded_work,
)
