"""The marks that vLLM and SGLang make around each batch that they run: the steps of a server."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pinprof.trace.tables import HostEvents, Int64s, Steps


class Marks(NamedTuple):
    """Annotations of one kind; the numbers in their names are of requests and tokens, and do not separate kinds."""

    server: str
    """Whose they are."""
    kind: str
    """What they are, in words."""
    name: re.Pattern[str]

    def has(self, name: str) -> bool:
        """Return whether this is the name of one of them."""
        return self.name.fullmatch(name) is not None


SGLANG, VLLM = "SGLang", "vLLM"
MARKS = (
    Marks(
        VLLM,
        "execute_context_N_generation_N",
        re.compile(r"execute(?:_\d+)?_context_\d+\(.*\)_generation_\d+\(.*\)"),
    ),
    Marks(VLLM, "execute_new_N_cached_N", re.compile(r"execute_new_\d+_cached_\d+")),
    Marks(VLLM, "gpu_model_runner: forward", re.compile(r"(?:v\d+_)?gpu_model_runner: forward")),
    Marks(SGLANG, "scheduler.run_batch", re.compile(r"scheduler\.run_batch")),
    Marks(SGLANG, "step[MODE bs=N]", re.compile(r"step\[[A-Z_]+ .*\]")),
)
"""The outer ones before those within them: vllm/v1/worker/gpu_worker.py (`annotate_profile`; the names of 2025 tell new
and cached requests) and gpu_model_runner.py; sglang/srt/managers/scheduler.py and utils/profile_utils.py
(`build_step_span_name`: EXTEND is a prefill, and speculative decoding has several in a batch). SGLang also makes marks
of vLLM's name, for the same tools."""


def is_serving(steps: Steps) -> bool:
    """Return whether a server's batches are the steps: they differ in kind and size, as those of a training do not."""
    server, _, kind = steps.marker.partition("'s ")
    return server in (SGLANG, VLLM) and any(kind == marks.kind for marks in MARKS)


def serving_marks(annotations: HostEvents) -> tuple[str, Int64s] | None:
    """Return what marks the batches of a server, and the marks themselves in order; None where nothing does.

    They are of the thread that has most of them, and none lies within another.
    """
    for marks in MARKS:
        rows = np.flatnonzero(annotations.named(marks.has))
        if len(rows):
            server = SGLANG if _is_of_sglang(annotations.names) else marks.server
            return f"{server}'s {marks.kind}", _outer(annotations, rows[_of_busiest(annotations, rows)])
    return None


def _is_of_sglang(names: Sequence[str]) -> bool:
    """Return whether any event, be it one of Python's functions, is of SGLang."""
    own = [marks for marks in MARKS if marks.server == SGLANG]
    return any("sglang" in name or any(marks.has(name) for marks in own) for name in names)


def _of_busiest(annotations: HostEvents, rows: Int64s) -> np.ndarray:
    thread = annotations.thread[rows]
    return thread == np.bincount(thread).argmax()


def _outer(annotations: HostEvents, rows: Int64s) -> Int64s:
    """Return the rows that begin when all rows before have ended."""
    reach = np.maximum.accumulate(annotations.end_ns[rows])[:-1]
    return rows[np.concatenate(([True], annotations.start_ns[rows[1:]] >= reach))]
