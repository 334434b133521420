from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from pinprof.ground.units import duration
from pinprof.rules.rule import AllEvidence, Details, Edits, Evidence, Profile, Rule, as_one
from pinprof.rules.sums import in_complete_steps
from pinprof.trace.callers import outermost_op, usual_place
from pinprof.trace.tables import NONE, HostEvents, Int64s, Trace, computed_once

HostTime = tuple[int, int, int]  # thread, begin and end in ns

FORWARD_MARK = "DistributedDataParallel.forward"
BROADCAST_OP = "c10d::broadcast_"
OPS_OF_BROADCAST = frozenset(
    {BROADCAST_OP, "aten::flatten_dense_tensors", "aten::unflatten_dense_tensors", "record_param_comms", "aten::copy_"}
)
SEARCH_OP = "torch.distributed.ddp.reducer::search_unused_parameters"
SINK_OP = "_DDPSink"  # a node behind the outputs, which the search needs
OPS_BEFORE_MAP = frozenset({"aten::empty_strided", "aten::is_pinned", "aten::pin_memory", "aten::copy_"})
"""They copy the map of used parameters to the GPU, before all ranks add it up."""
MESSAGE_OF_MAP = "Int "  # begins the message of the collective that adds it up


class _Setting(NamedTuple):
    """An argument of DistributedDataParallel, the work it causes, and when the host does that work."""

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
        calls = trace.calls
        begins = np.searchsorted(calls.start_ns, [begin for _, begin, _ in times])  # the first call in each
        return Evidence(
            cost,
            f"DistributedDataParallel {works}: this takes the host {duration(cost)} {steps.per}, as traced",
            *usual_place(trace, begins[begins < len(calls)], details.sources),
            edits=Edits(removed_times=frozenset(times)),
        )

    if profile.step_ns:
        yield from as_one(profile, [setting for setting in settings if setting.times], evidence_of)


def _broadcasts(trace: Trace) -> Iterator[HostTime]:
    """Yield when buffers are sent: from the beginning of a forward pass to the last copy out of what was sent."""
    marks, ops = trace.annotations, trace.ops
    for mark in _rows_in_steps(trace, marks, FORWARD_MARK):
        thread, begin = int(marks.thread[mark]), int(marks.start_ns[mark])
        sending = _next_to(trace, thread, begin, OPS_OF_BROADCAST)
        if any(ops.name_of(op) == BROADCAST_OP for op in sending):
            yield thread, begin, int(ops.end_ns[sending[-1]])


def _searches(trace: Trace) -> Iterator[HostTime]:
    """Yield when unused parameters are looked for, and when all ranks add up which parameters they used."""
    ops, launch = trace.ops, trace.links.launch
    searches = _rows_in_steps(trace, ops, SEARCH_OP)
    for search in searches:
        thread = int(ops.thread[search])
        last = _next_to(trace, thread, int(ops.end_ns[search]), {SINK_OP})[:1] or [search]
        yield thread, int(ops.start_ns[search]), int(ops.end_ns[last[0]])
    for reduction in np.unique(outermost_op(trace, launch[_maps(trace)].astype(np.int64))).tolist() if searches else ():
        thread, begin = int(ops.thread[reduction]), int(ops.start_ns[reduction])
        before = _next_to(trace, thread, begin, OPS_BEFORE_MAP, back=True)
        yield thread, min([begin, *ops.start_ns[before].tolist()]), int(ops.end_ns[reduction])


def _maps(trace: Trace) -> list[int]:
    """Return the collectives of complete steps that add up maps of used parameters: rows of `Trace.gpu`."""
    gpu, links = trace.gpu, trace.links
    rows = np.flatnonzero((gpu.message != NONE) & (links.launch != NONE) & trace.steps.holds(links.activity_step))
    return [row for row in rows.tolist() if gpu.names[gpu.message[row]].startswith(MESSAGE_OF_MAP)]


def _next_to(trace: Trace, thread: int, time_ns: int, names: AbstractSet[str], *, back: bool = False) -> list[int]:
    """Return the outermost ops of a thread that follow a time, or come before it, up to the first of another name."""
    ops, rows = trace.ops, _outermost_by_thread(trace).get(thread, np.empty(0, np.int64))
    at = int(np.searchsorted(ops.start_ns[rows], time_ns))
    near = rows[:at][::-1] if back else rows[at:]
    return list(takewhile(lambda op: ops.name_of(op) in names, near.tolist()))


@computed_once
def _outermost_by_thread(trace: Trace) -> dict[int, Int64s]:
    """Return the outermost ops of each thread, in order of their start."""
    rows = np.flatnonzero(trace.links.op_parent == NONE)  # the table is sorted by start
    return {of: rows[trace.ops.thread[rows] == of] for of in np.unique(trace.ops.thread[rows]).tolist()}


def _rows_in_steps(trace: Trace, events: HostEvents, name: str) -> list[int]:
    rows = np.flatnonzero(events.named(name.__eq__))
    return rows[in_complete_steps(trace, events.start_ns[rows])].tolist()


RULE = Rule(
    id="PIN709",
    title="DistributedDataParallel does more than the model needs",
    short="fewer DDP checks",
    answers=("communication", "launch"),
    numbers="equal",
    why="By default each forward pass begins by sending all buffers from the first rank. Normalizations compute "
    "their statistics anew in training: nothing reads these buffers. With find_unused_parameters, torch traverses "
    "the whole graph in each step, and the ranks exchange which parameters they used.",
    fix="Pass broadcast_buffers=False (forward_sync_buffers=False in newer torch) and no find_unused_parameters; if "
    "the same parameters always stay unused, pass static_graph=True. With gradient_as_bucket_view=True the "
    "gradients need no second copy in memory.",
    before="model = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)",
    code="model = torch.nn.parallel.DistributedDataParallel(\n"
    "    model, broadcast_buffers=False, static_graph=True, gradient_as_bucket_view=True\n"
    ")",
    safe_if="All ranks begin with the same buffers, and no forward pass in training reads what ranks write to "
    "them. Each step uses the same parameters.",
    near_miss="loss_of(model(x), y).backward()  # of a model that is not wrapped",
    search=_unneeded_work,
)
