"""Remove `torch.cuda.empty_cache()`, so that torch keeps memory of the GPU for the next step."""

from collections.abc import Iterator

import libcst as cst

from pinprof.fix.core.clocks import check_clocks, waits_at
from pinprof.fix.core.facts import Work
from pinprof.fix.core.files import RECORD_IT
from pinprof.fix.core.fix import Fix, PlannedOutcome, change_of
from pinprof.fix.core.rewrite import NotSafe, Refusal, RefusedPlace, Rewrite, Waits
from pinprof.fix.core.source import SourceFile, removal, statement_alone
from pinprof.rules.rule import Finding
from pinprof.trace.lines import Place

EMPTY_CACHE = "torch.cuda.empty_cache"
OF_MEMORY = (
    *("memory_reserved", "memory_allocated", "memory_stats", "memory_summary", "memory_snapshot", "peak_memory"),
    *("mem_get_info", "memory_cached", "device_memory_used", "nvml", "nvidia-smi", "nvidia_smi", "GPUtil", "gpustat"),
    *("_snapshot", "max_split_size"),
)
"""Words of programs that report the memory of the GPU."""
SHORT = ("out of memory", "OutOfMemoryError", "set_per_process_memory_fraction", "MemPool")
"""Words of programs that go on when memory is short, or bound it."""
LIBRARIES = ("cupy", "cudf", "jax", "tensorflow", "numba", "pycuda", "tensorrt", "onnxruntime", "vllm", "paddle")
"""Other libraries that take memory of the GPU."""


class NoEmptyCache(Fix):
    """Takes `torch.cuda.empty_cache()` out of a loop or a function."""

    rules = ("PIN303",)
    what = "without empty_cache()"
    safe_if = "No other process needs the GPU memory that torch keeps for the next step."
    guide = (("`torch.cuda.empty_cache()` is removed", "equal"),)
    INVALID = (
        """
        import torch
        for x in loader:
            train(x)
            torch.cuda.empty_cache()  #? PIN303
        # becomes
        import torch
        for x in loader:
            train(x)
        """,
    )
    VALID = (
        """
        import torch
        torch.cuda.empty_cache()  #? PIN303
        print(torch.cuda.max_memory_reserved())
        # stays: the program looks at memory (memory_reserved)
        """,
        """
        import torch
        try:
            f(x)
        except RuntimeError:
            torch.cuda.empty_cache()  #? PIN303
        # stays: it follows an error, and is not for each step
        """,
    )

    def changes(self, finding: Finding, work: Work) -> Iterator[PlannedOutcome]:
        """Yield the change that removes the calls, or why none is removed."""
        rewrites: list[Rewrite] = []
        waits: list[Waits] = []
        reasons: list[str] = []
        for place in sorted(work.facts.allocating, key=finding.evidence.place.__ne__):  # the finding's place first
            try:
                source = work.files.at(place)
                rewrites.append(_without_call(source, place, work))
                waits.append(waits_at(source, place))
            except Refusal as reason:  # noqa: PERF203  the others are changed all the same
                reasons.append(str(reason))
        if rewrites:
            yield change_of(finding, self.what, rewrites, finding.sites, "equal", self.safe_if, waits=waits)
        else:
            yield RefusedPlace(finding.rule, finding.evidence.place, next(iter(reasons), RECORD_IT))


def _without_call(source: SourceFile, place: Place, work: Work) -> Rewrite:
    """Return the rewrite that takes `torch.cuda.empty_cache()` out of a loop or a function. Raises Refusal."""
    statement = statement_alone(source, place.line or 0, EMPTY_CACHE)
    if any(isinstance(outer, cst.ExceptHandler | cst.ExceptStarHandler) for outer in source.ancestors(statement)):
        raise NotSafe("it follows an error, and is not for each step")
    with work.condition():
        other = next((library for library in LIBRARIES if library in source.nodes_named), None) or source.mentions(
            SHORT
        )
        if other:
            raise NotSafe(f"the program may need the memory that torch keeps ({other})")
    with work.condition():
        if looked_at := source.mentions(OF_MEMORY):
            raise NotSafe(f"the program looks at memory ({looked_at}), and would see the memory that torch keeps")
    rewrite = removal(source, statement)
    with work.condition():
        check_clocks([waits_at(source, place)], work)
    return rewrite
