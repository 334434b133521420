import numpy as np

from pinprof.rules.rule import AllEvidence, Details, Evidence, Profile, Rule
from pinprof.rules.snippets import AWAIT_BEFORE_READ, READ_AT_ONCE, SAFE_AWAIT
from pinprof.rules.sums import copies_in_steps


def _unawaited(details: Details, profile: Profile) -> AllEvidence:
    chosen = np.isin(details.overlap.row, details.hazards.unawaited)
    for copies in copies_in_steps(details, profile, chosen):
        yield Evidence(
            0.0,
            f"{copies.named('non-blocking copies')} to pinned host memory "
            f"({copies.amount}), and the thread never waits for the GPU afterwards: "
            "if the host reads the memory, it may read old values",
            *copies.place,
            at_any_cost=True,
        )


RULE = Rule(
    id="PIN501",
    title="results that may be read too early",
    numbers=None,
    why="x.to('cpu', non_blocking=True) returns before the copy has run. Code that reads the result without a wait "
    "gets what the memory held before, without an error. A trace does not record reads of the host, so this is only a "
    "suspicion.",
    fix="Record an event after the copy, on the stream of the copy, and wait for it before the memory is read.",
    before=READ_AT_ONCE,
    code=AWAIT_BEFORE_READ,
    safe_if=SAFE_AWAIT,
    near_miss="host = x.to('cpu')  # blocking: the numbers are there when it returns\nuse(host)",
    search=_unawaited,
)
