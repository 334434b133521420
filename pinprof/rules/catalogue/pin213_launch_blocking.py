from pinprof.rules.rule import Rule
from pinprof.rules.wait_sites import waits_of

RULE = Rule(
    id="PIN213",
    title="`CUDA_LAUNCH_BLOCKING=1` waits for every kernel",
    short="no LAUNCH_BLOCKING",
    numbers="equal",
    why="CUDA_LAUNCH_BLOCKING=1 makes each launch wait, so host and GPU take turns. It is meant for finding errors.",
    fix="Unset it for training.",
    before="export CUDA_LAUNCH_BLOCKING=1",
    code="unset CUDA_LAUNCH_BLOCKING",
    safe_if="Events order the streams, and the host waits for what it reads: blocking launches hide places where that "
    "is missing.",
    near_miss="export CUDA_LAUNCH_BLOCKING=0  # as if it were unset",
    **waits_of("launch_blocking"),
)
