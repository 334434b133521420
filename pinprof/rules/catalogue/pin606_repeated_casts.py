from collections.abc import Sequence
from itertools import groupby

import numpy as np

from pinprof.ground.units import duration, how_many
from pinprof.rules.launching import late_ns
from pinprof.rules.rule import Details, Edits, Evidence, Found, Profile, Rule
from pinprof.rules.sums import times_of_ops
from pinprof.trace.spans.phases import Pass, casts_of_weights, optimizer_within, passes_of
from pinprof.trace.tables import Trace

MIN_MICRO_BATCHES = 2
"""The least micro-batches of a step, and weights in each: with fewer nothing is cast again."""


def _casts(details: Details, profile: Profile) -> Found:
    trace = details.trace
    steps = [list(passes) for _, passes in groupby(passes_of(trace), key=lambda each_pass: each_pass.step)]
    count = profile.steps.count
    if not steps or len(steps) < count or not all(_repeats(trace, passes, steps[0]) for passes in steps):
        return
    first = steps[0][0]
    later = [later_pass for passes in steps for later_pass in passes[1:]]
    of_weights = [rows for each in later if (rows := casts_of_weights(trace, each)) is not None]
    casts = np.concatenate([each.casts for each in later])
    rows = np.concatenate(of_weights) if len(of_weights) == len(later) else casts[:0]
    share = 1.0 if len(rows) else first.weights / len(first.casts)
    host, on_gpu = (share * time / count for time in times_of_ops(trace, rows if len(rows) else casts))
    yield Evidence(
        max(on_gpu, min(host, late_ns(profile))),
        f"each of {len(steps[0])} micro-batches {profile.steps.per} casts {how_many(first.weights)} weights again: its "
        "backward pass adds the gradients of these casts to those of the weights; after the first, these take "
        f"{'' if len(rows) else 'about '}{duration(host)} of the host as traced, and {duration(on_gpu)} of the GPU",
        edits=Edits(removed_ops=frozenset(rows.tolist())),
    )


def _repeats(trace: Trace, passes: Sequence[Pass], usual: Sequence[Pass]) -> bool:
    """Return whether all passes of a step cast the same weights: as many, as often, with one update behind them."""
    if not MIN_MICRO_BATCHES <= len(passes) == len(usual):
        return False
    first = usual[0]
    alike = all(one.weights == first.weights and len(one.casts) == len(first.casts) for one in passes)
    adds = all(each.adds == each.weights for each in passes[1:])
    enough = MIN_MICRO_BATCHES <= first.weights <= len(first.casts)
    return alike and adds and enough and not optimizer_within(trace, passes[0].begin_ns, passes[-1].begin_ns)


RULE = Rule(
    id="PIN606",
    title="weights cast in every micro-batch",
    short="cast weights once",
    answers=("launch", "host", "gpu"),
    numbers="equal",
    why="Autocast keeps the weights that it has cast until its outermost block ends. With a block for each "
    "micro-batch it casts all of them again, though they change only once per step.",
    fix="Put one block around all micro-batches of the step. Inside it, call backward with autocast turned off.",
    before="for x, y in micro_batches:\n"
    "    with torch.autocast(device, torch.bfloat16):\n"
    "        loss = loss_of(model(x), y) / len(micro_batches)\n"
    "    loss.backward()\n"
    "optimizer.step()",
    code="with torch.autocast(device, torch.bfloat16):  # keeps the weights that it casts\n"
    "    for x, y in micro_batches:\n"
    "        loss = loss_of(model(x), y) / len(micro_batches)\n"
    "        with torch.autocast(device, enabled=False):\n"
    "            loss.backward()\n"
    "optimizer.step()  # behind the block: the next one casts the new weights",
    safe_if="No weight changes within the block. The casts of all weights stay in memory until the block ends. If a "
    "module runs without gradients in the block, later modules reuse its casts without gradients, too.",
    near_miss="with torch.autocast(device, torch.bfloat16):  # one micro-batch per step\n"
    "    loss = loss_of(model(x), y)\n"
    "loss.backward()",
    search=_casts,
)
