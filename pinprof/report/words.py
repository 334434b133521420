"""What codes mean, in the words that all reports share, and names of the trace made safe to show."""

from pinprof.measure import Profile

REASONS = {
    "pageable": "the host memory is pageable: the driver stages the copy and nothing runs beside it",
    "same_stream": "the copy is on the stream of the kernels around it, so they run one after the other",
    "no_kernels_to_overlap": "no kernel was queued that could have run beside it",
    "launched_late": "it was launched too late: the kernels that it could hide behind had ended",
    "other": "none of the known reasons",
}
IDLE = {
    "host_wait": "the next launch came late: the host is busy elsewhere",
    "sync_bubble": "the host had waited for the GPU and had nothing queued",
    "kernel_wait": "work was queued and waited for other work, or for its launch",
    "input_wait": "the host waited for the next batch",
    "communication_wait": "the host was in a collective",
    "other": "the next launch is not in the trace",
}
BOUNDS = {
    "gpu": "the GPU is the limit: it is busy nearly all the time",
    "host": "the host is the limit: the GPU waits for its launches, or for it to stage copies",
    "input": "the input is the limit: the GPU waits for the next batch",
    "communication": "communication is the limit",
}


def steps(profile: Profile) -> str:
    """Return how many complete steps there are, and what marks them."""
    times, marker = profile.steps, profile.info.step_marker or profile.steps.marker
    return f"{times.count} complete step{'s' * (times.count != 1)} ({marker})"


def place(file: str | None, line: int | None, function: str | None) -> str:
    """Return where a wait was called from: `FILE:LINE (FUNCTION)`, without a line `FUNCTION (FILE)`; else nothing."""
    if file is None or function is None:
        return function or ""
    return f"{function} ({file})" if line is None else f"{file}:{line} ({function})"


def printable(text: str) -> str:
    """Return a text of the trace without the control characters that a terminal would obey."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
