import numpy as np

from pinprof.ground.intervals import contains
from pinprof.ground.units import duration, how_many
from pinprof.rules.launching import late_ns
from pinprof.rules.rule import AllEvidence, Details, Edits, Evidence, Profile, Rule
from pinprof.rules.sums import in_complete_steps, times_of_ops
from pinprof.trace.spans.phases import ADD_OPS, TO_WEIGHT
from pinprof.trace.tables import NONE, Int64s, Trace
from pinprof.trace.threads import optimizer_marks

ZEROING_OPS = frozenset({"aten::zero_", "aten::_foreach_zero_"})
ACCUMULATING_NODES = frozenset({"torch::autograd::AccumulateGrad", TO_WEIGHT})
ENGINE_PREFIX = "autograd::engine::"
MIN_OPS_SHARE_OF_STEP = 0.02


def _zeros(details: Details, profile: Profile) -> AllEvidence:
    trace, per = details.trace, profile.steps.divisor
    zeros = _zeroed(trace)
    adds = _first_adds(trace, zeros)
    ops = np.concatenate((zeros, adds))
    ops = ops[in_complete_steps(trace, trace.ops.start_ns[ops])]
    host, on_gpu = (time / per for time in times_of_ops(trace, ops))
    cost = max(on_gpu, min(host, late_ns(profile)))
    if profile.step_ns and cost >= MIN_OPS_SHARE_OF_STEP * profile.step_ns:
        in_steps = int(in_complete_steps(trace, trace.ops.start_ns[adds]).sum()) / per
        added = f", and backward adds to {how_many(in_steps)} of them" if in_steps else ""
        yield Evidence(
            cost,
            f"zero_grad fills gradients with zeros{added}, {profile.steps.per}: {duration(host)} of the host as "
            f"traced, and {duration(on_gpu)} of the GPU",
            edits=Edits(removed_ops=frozenset([*zeros.tolist(), *adds.tolist()])),
        )


def _zeroed(trace: Trace) -> Int64s:
    marks = optimizer_marks(trace.annotations, "zero_grad")
    if not marks.any():
        return np.empty(0, np.int64)
    ops = trace.ops
    of_thread = np.isin(ops.thread, trace.annotations.thread[marks])
    named = ops.named(ZEROING_OPS.__contains__) & (trace.links.op_parent == NONE) & of_thread
    rows = np.flatnonzero(named)
    return rows[contains(trace.annotations.times(marks), ops.start_ns[rows])]


def _first_adds(trace: Trace, zeros: Int64s) -> Int64s:
    """Return the additions to gradients in the first backward pass behind each zero_grad.

    Without the zeros that pass would hand over its gradients as they are. Where several optimizers clear theirs in a
    step, it is not known whose a gradient is: then none.
    """
    ops, parent = trace.ops, trace.links.op_parent
    if int(optimizer_marks(trace.annotations, "zero_grad").sum()) > len(trace.steps) or not len(zeros):
        return np.empty(0, np.int64)
    gives = ops.named(ACCUMULATING_NODES.__contains__)
    adds = np.flatnonzero(ops.named(ADD_OPS.__contains__) & (parent != NONE))
    adds = adds[gives[parent[adds]]]
    between = (
        ~ops.named(lambda name: name.startswith(ENGINE_PREFIX)) & (parent == NONE) & trace.has_role("main")[ops.thread]
    )
    passes = np.searchsorted(ops.start_ns[between], ops.start_ns[adds])  # no op of the program runs within a pass
    behind = np.searchsorted(ops.start_ns[zeros], ops.start_ns[adds])
    order = np.lexsort((passes, behind))
    _, which, inverse = np.unique(behind[order], return_index=True, return_inverse=True)
    is_first = passes[order] == passes[order][which][inverse]
    return np.sort(adds[order][is_first & (behind[order] > 0)])


RULE = Rule(
    id="PIN611",
    title="gradients are set to zero, not dropped",
    short="set_to_none=True",
    answers=("launch", "host", "gpu"),
    numbers="equal",
    why="zero_grad(set_to_none=False) writes zeros to all gradients, and the backward pass reads them to add its own. "
    "Without old gradients it hands over the new ones as they are.",
    fix="optimizer.zero_grad() as it is by default since torch 2.0: set_to_none=True.",
    before="for x, y in batches:\n"
    "    optimizer.zero_grad(set_to_none=False)\n"
    "    loss_of(model(x), y).backward()\n"
    "    optimizer.step()",
    code="for x, y in batches:\n"
    "    optimizer.zero_grad()  # gradients become None\n"
    "    loss_of(model(x), y).backward()\n"
    "    optimizer.step()",
    safe_if="No code reads .grad between zero_grad and backward, or keeps it. Each parameter gets a gradient in each "
    "step: the optimizer leaves out those without one, but with zeros still applies momentum and weight decay.",
    near_miss="model.zero_grad()  # gradients become None: nothing is filled",
    search=_zeros,
)
