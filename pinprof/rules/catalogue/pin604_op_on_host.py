from pinprof.analyses.hazards import IN_PLACE_OP
from pinprof.ground.units import duration, how_many, shortened
from pinprof.rules.launching import host_ops, late_ns
from pinprof.rules.rule import AllEvidence, Details, Edits, Evidence, Profile, Rule
from pinprof.rules.sums import LONGEST_NAMED_CHARS
from pinprof.trace.spans.phases import NODE_PREFIX

FIX_OF_WRITES = (
    "Write the values on the GPU if only the GPU needs them, or fill another buffer in a DataLoader's worker. A buffer "
    "that each step fills in place, such as the source of a copy, cannot be filled once before the loop."
)


def _on_the_host(details: Details, profile: Profile) -> AllEvidence:
    late, rows, ops = late_ns(profile), host_ops(details), details.trace.ops
    if not late:
        return
    for name in dict.fromkeys(ops.name_of(row) for row in rows.tolist()):
        if name.startswith(NODE_PREFIX):  # it ran Python (PIN603), or waited for a CPU or Python's lock
            continue
        same_op = rows[[ops.name_of(row) == name for row in rows.tolist()]]
        time = float(ops.duration_ns[same_op].sum()) / profile.steps.divisor
        count = len(same_op) / profile.steps.divisor
        yield Evidence(
            min(time, late),
            f"{shortened(name, LONGEST_NAMED_CHARS)}, {how_many(count)} {profile.steps.per}: "
            f"the host computes for {duration(time)} as traced, and launches nothing meanwhile",
            edits=Edits(removed_ops=frozenset(same_op.tolist())),
            fix=FIX_OF_WRITES if IN_PLACE_OP.match(name) else "",
        )


RULE = Rule(
    id="PIN604",
    title="an op on the host while the GPU is idle",
    short="keep it on the GPU",
    answers=("host",),
    numbers="rounding",
    why="The CPU computes ops on tensors in host memory. Meanwhile the thread launches no kernel.",
    fix="Compute it on the GPU, or in a DataLoader's worker, or once before the loop.",
    before="for batch in batches:\n"
    "    order = torch.argsort(scores)  # in host memory, in each step\n"
    "    train(batch, order)",
    code="scores = scores.to(device)  # once\n\n"
    "for batch in batches:\n"
    "    order = torch.argsort(scores)\n"
    "    train(batch, order)",
    safe_if="The GPU has room for it, and nothing reads the result on the host.",
    near_miss="order = torch.argsort(host[0])  # takes far less than 0.5 ms",
    search=_on_the_host,
)
