"""What codes are called in the user's own words: each cause of waits, of idle time and of a slow step, in one place.

Text in backticks is code, as it stands in a program.
"""

WAITS = {
    "item": "`.item()`",
    "optimizer_state": "the optimizer's step count",
    "bool": "`if tensor:`",
    "tolist": "`.tolist()`",
    "to_cpu": "`.cpu()`",
    "print": "`print(tensor)`",
    "nonzero": "`nonzero()`",
    "mask_index": "`x[mask]`",
    "masked_select": "`masked_select()`",
    "unique": "`unique()`",
    "repeat_interleave": "`repeat_interleave()`",
    "equal": "`torch.equal()`",
    "blocking_copy_htod": "blocking copy to the GPU",
    "blocking_copy_dtoh": "blocking copy to the host",
    "pageable_copy": "pageable copy",
    "tensor_from_host": "`torch.tensor()` on the GPU",
    "device_synchronize": "`torch.cuda.synchronize()`",
    "stream_synchronize": "`stream.synchronize()`",
    "event_synchronize": "`event.synchronize()`",
    "device_malloc": "GPU memory is allocated",
    "device_free": "GPU memory is freed",
    "host_alloc": "pinned memory is allocated",
    "module_load": "kernels are loaded",
    "queue_full": "the launch queue is full",
    "launch_blocking": "`CUDA_LAUNCH_BLOCKING=1`",
    "collective": "collective",
    "profiler": "profiler",
    "other": "wait within an op",
}
"""Why the host waits: what it calls, or what happens in the call."""

WAITING = {
    "hidden": "",
    "explicit": "asked for",
    "benign": "costs nothing",
    "profiler": "the profiler's own",
}
"""Whether the code asked for a wait; nothing where it did not, as that is what is looked for."""

IDLE = {
    "host_wait": "waits for launches",
    "sync_bubble": "has no work after a host wait",
    "kernel_wait": "has work queued that cannot start yet",
    "input_wait": "waits for the next batch",
    "communication_wait": "waits while the host is in a collective",
    "other": "is idle for an unknown reason",
}
"""What the GPU does while it is idle, to follow "the GPU"."""

SLOW = {
    "launch": "the GPU waits for launches",
    "python": "the GPU waits for Python code",
    "sync": "the host waits for the GPU, which then runs out of work",
    "copy": "copies keep the GPU from computing",
    "input": "the step waits for the next batch",
    "communication": "collectives take the time: they transfer, or wait for other ranks",
    "allocation": "the host waits while memory is allocated or freed",
    "irregular": "some steps take longer than the others",
    "host": "the GPU waits for the host",
    "gpu": "the GPU is the limit",
}
"""Why a step is as long as it is."""

AWAITED = "the host waits after {} to the GPU, which then has no work"
"""The same of copies that cost most by the waits behind them, with how many these are."""

LOST = {
    "launch": "launches",
    "python": "Python code",
    "sync": "waits for the GPU",
    "copy": "copies that keep the GPU from computing",
    "input": "waits for the next batch",
    "communication": "collectives",
    "allocation": "allocating and freeing memory",
    "irregular": "steps unlike the others",
    "host": "the host",
    "gpu": "the GPU's work",
}
"""The same as a thing that costs time."""

EXPOSED = {
    "pageable": "the memory is not pinned",
    "same_stream": "on the stream of the kernels",
    "no_kernels_to_overlap": "no kernel was queued",
    "launched_late": "launched too late",
    "other": "no known reason",
    "end_of_recording": "the recording ended",
}
"""Why nothing runs beside a copy."""

PARTS = {"drain": "for earlier work", "own": "for its own copy", "rest": "in the call"}
"""What a wait of the host is made of."""


def uncoded(text: str) -> str:
    """Return a phrase without its backticks, for labels that are no sentence."""
    return text.replace("`", "")


def wait_label(cause: str) -> str:
    """Return what a cause of waits is called in a legend."""
    return uncoded(WAITS[cause])
