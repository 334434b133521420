from dataclasses import replace

from pinprof.rules.rule import AllEvidence, Details, Edits, Profile, Rule
from pinprof.rules.snippets import PLAIN_TRAINING
from pinprof.rules.wait_sites import search_waits
from pinprof.trace.spans.phases import nan_checks


def _checks(details: Details, profile: Profile) -> AllEvidence:
    removed = Edits(removed_ops=frozenset(nan_checks(details.trace).tolist()))
    for evidence in search_waits("nan_check", are_one=True)(details, profile):
        yield replace(evidence, edits=evidence.edits | evidence.at_most | removed, at_most=Edits(), keep="")


RULE = Rule(
    id="PIN217",
    title="anomaly detection checks each gradient for NaN",
    short="no anomaly detection",
    numbers="equal",
    why="The check reads its result on the host, so the backward pass waits for the GPU at each of its nodes. In the "
    "forward pass the same mode keeps the Python stack of each op.",
    fix="Turn it off: torch.autograd.set_detect_anomaly(False); Lightning: Trainer(detect_anomaly=False). To find a "
    "NaN, put the steps in question alone into `with torch.autograd.detect_anomaly():`.",
    before="torch.autograd.set_detect_anomaly(True)\n\n"
    "for x, y in batches:\n"
    "    optimizer.zero_grad()\n"
    "    loss_of(model(x), y).backward()  # waits at each node\n"
    "    optimizer.step()",
    code=f"torch.autograd.set_detect_anomaly(False)\n\n{PLAIN_TRAINING}",
    safe_if="No NaN is searched for: without it, training goes on with NaN.",
    near_miss="with torch.autograd.set_detect_anomaly(True, check_nan=False):  # keeps stacks, and reads nothing\n"
    "    model(x).sum().backward()",
    answers=("sync",),
    what_if="--drop-syncs",
    causes=("nan_check",),
    search=_checks,
)
