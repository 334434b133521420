"""Makes a recording of the CPU look as one of a GPU does: for tests of what the host does while a GPU waits."""

from typing import Any

LAUNCH_US = 4.0
KERNEL_US = 3.0
DELAY_US = 6.0
"""From a launch to the start of its kernel."""
STREAM = 7
LAUNCH_NOTHING = (
    *("aten::empty", "aten::view", "aten::t", "aten::transpose", "aten::as_strided", "aten::detach", "detach"),
    *("aten::expand", "aten::unsqueeze", "aten::reshape", "aten::result_type", "autograd::"),
)
"""How the names of ops begin that only make a view, or memory."""


def as_gpu_trace(document: dict[str, Any]) -> dict[str, Any]:
    """Return a recording of the CPU with a kernel for each innermost op, and the backward pass on a thread of its own.

    What the host does stays as it was recorded.
    """
    events = [event for event in document["traceEvents"] if event.get("ph") == "X"]
    steps = [event for event in events if event["name"].startswith("ProfilerStep")]
    main = steps[0]["tid"]
    passes = [(event["ts"], event["ts"] + event["dur"]) for event in events if "run_backward of" in event["name"]]
    for event in events:
        inside = any(start < event["ts"] and event["ts"] + event["dur"] <= end for start, end in passes)
        if event["tid"] == main and inside and "run_backward of" not in event["name"]:
            event["tid"] = main + 1
    work, free = [], 0.0
    for number, op in enumerate(_innermost(events)):
        call = op["ts"] + 0.4 * op["dur"]
        start = max(call + DELAY_US, free)
        free = start + KERNEL_US
        common = {"ph": "X", "args": {"correlation": number + 1, "device": 0, "stream": STREAM, "context": 1}}
        length = min(LAUNCH_US, 0.5 * op["dur"])
        thread = {"pid": op["pid"], "tid": op["tid"]}
        gpu = {"pid": 0, "tid": STREAM}
        work.append(common | thread | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": call, "dur": length})
        work.append(common | gpu | {"cat": "kernel", "name": op["name"], "ts": start, "dur": KERNEL_US})
    return {**document, "traceEvents": [*document["traceEvents"], *work]}


def _innermost(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the ops that launch, in order."""
    ops = sorted((event for event in events if event.get("cat") == "cpu_op"), key=lambda op: (op["ts"], -op["dur"]))
    following = [op["ts"] for op in ops[1:]] + [float("inf")]
    leaves = [op for op, next_ts in zip(ops, following, strict=True) if next_ts >= op["ts"] + op["dur"]]
    return [op for op in leaves if not op["name"].startswith(LAUNCH_NOTHING)]
