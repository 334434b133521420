from typing import Final, NamedTuple

import numpy as np

from pinprof.ground.intervals import distinct
from pinprof.ground.units import counted, duration
from pinprof.rules.rule import AllEvidence, Details, Evidence, Profile, Rule
from pinprof.rules.sums import aten, in_complete_steps, launched_kernels, matters, per_step
from pinprof.trace.callers import usual_place
from pinprof.trace.links import outermost
from pinprof.trace.tables import NONE, Bools, Int64s, Trace

MATH_ATTENTION: Final = "aten::_scaled_dot_product_attention_math"
PRODUCT_OPS: Final = aten("matmul bmm baddbmm einsum")
SOFTMAX_OP: Final = "aten::softmax"
BATCHED_PRODUCT_OPS: Final = aten("bmm baddbmm")
OPS_BETWEEN: Final = aten(
    "add add_ sub mul mul_ div div_ to float half type_as contiguous view masked_fill masked_fill_ where eq ne lt tril "
    "triu slice unsqueeze expand dropout reshape transpose permute size clone copy_ full ones zeros rsub max clamp "
    "finfo logical_not bitwise_not _to_copy nan_to_num alias detach"
)
"""What stands between the products and the softmax of attention: scales, masks, casts, dropout."""


class _Attention(NamedTuple):
    """Attentions that are not fused; rows of `Trace.ops`."""

    what: str
    first: Int64s  # the op that begins each
    last: Int64s


def _attention(details: Details, profile: Profile) -> AllEvidence:
    trace = details.trace
    rows = np.flatnonzero(trace.ops.named(MATH_ATTENTION.__eq__))
    rows = rows[in_complete_steps(trace, trace.ops.start_ns[rows])]
    by_torch = _Attention("by scaled_dot_product_attention's math, not fused", rows, rows)
    for attention in (by_torch, _by_hand(trace)):
        if len(attention.first):
            yield from _evidence(details, profile, attention)


def _evidence(details: Details, profile: Profile, attention: _Attention) -> AllEvidence:
    trace, ops = details.trace, details.trace.ops
    rows = launched_kernels(trace)
    launch = trace.links.launch[rows]
    issued = trace.calls.start_ns[launch]
    index = np.searchsorted(ops.start_ns[attention.first], issued, side="right") - 1
    inside = (
        (index >= 0)
        & (issued < ops.end_ns[attention.last][index])
        & (trace.calls.thread[launch] == ops.thread[attention.first][index])
    )
    time = per_step(trace, profile, rows[inside])
    if not matters(profile, time):
        return
    calls = distinct(launch[inside]).astype(np.int64)
    count = len(attention.first) / profile.steps.divisor
    yield Evidence(
        time,
        f"{counted(count, 'attention')} {profile.steps.per} {attention.what}: "
        f"{counted(int(inside.sum()) / len(attention.first), 'kernel')} each, {duration(time)} together in the forward "
        "pass; the same parts in backward come on top",
        *usual_place(details.trace, calls, details.sources),
    )


def _by_hand(trace: Trace) -> _Attention:
    """Return softmaxes between two batched products, with nothing but scales, masks, casts and dropout between them."""
    ops, parent = trace.ops, trace.links.op_parent
    top = np.flatnonzero((parent == NONE) & trace.has_role("main")[ops.thread])
    top = top[in_complete_steps(trace, ops.start_ns[top])]
    product = _batched(trace)[top]
    softmax = ops.named(SOFTMAX_OP.__eq__)[top]
    other = ~(product | softmax | ops.named(OPS_BETWEEN.__contains__)[top])
    if not softmax.any():
        none = np.empty(0, np.int64)
        return _Attention("", none, none)
    position = np.arange(len(top))
    before = np.maximum.accumulate(np.where(product | other | softmax, position, NONE))
    before = np.append(NONE, before[:-1])
    behind = np.minimum.accumulate(np.where(product | other | softmax, position, len(top))[::-1])[::-1]
    behind = np.append(behind[1:], len(top))
    rows = np.flatnonzero(softmax)
    rows = rows[(before[rows] != NONE) & (behind[rows] < len(top))]
    rows = rows[product[before[rows]] & product[behind[rows]]]
    return _Attention("by hand: product, softmax, product", top[before[rows]], top[behind[rows]])


def _batched(trace: Trace) -> Bools:
    """Return for each op whether it is a product of batches of matrices: a linear layer is one of matrices."""
    ops = trace.ops
    batched = np.flatnonzero(ops.named(BATCHED_PRODUCT_OPS.__contains__)).astype(np.int32)
    around = outermost(ops.named(PRODUCT_OPS.__contains__), batched, trace.links.op_parent)
    result = np.zeros(len(ops), bool)
    result[around[around != NONE]] = True
    return result


RULE = Rule(
    id="PIN703",
    title="attention that is not fused",
    short="fused attention",
    answers=("gpu",),
    numbers="rounding",
    why="In separate ops, attention writes and reads all scores several times. A fused kernel keeps them on the chip, "
    "and is one launch.",
    fix="torch.nn.functional.scaled_dot_product_attention, and what its fused kernels need: float16 or bfloat16 for "
    "the fastest, is_causal=True instead of a causal mask, a mask without gradients, no sdpa_kernel(MATH).",
    before="scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5\n"
    "scores = scores.masked_fill(~mask, -math.inf)\n"
    "y = scores.softmax(-1) @ v",
    code="y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)",
    safe_if="Nothing else reads the scores. A boolean mask is true where a query may see a key. Results differ by "
    "rounding.",
    near_miss="weights = x.softmax(-1)  # of a classifier: no product of batches follows",
    search=_attention,
)
