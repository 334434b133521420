"""Builds a recording of waits that are called by Python functions, and of the sampled host beside them."""

from pathlib import Path

from msgspec import to_builtins
from trace_builder import TraceBuilder

from pinprof.analysis import Analysis, analyse
from pinprof.trace import read_trace
from pinprof.trace.metadata.sampled_stacks import HOST_KEY, HostProfile

HOSTILE = "</script><img src=x onerror=alert(1)>"


def waiting(folder: Path, host: HostProfile | None = None, *, stacks: bool = True) -> Analysis:
    """Four steps, each with an item() from `log` and a synchronize from `loop` itself; both in `loop`."""
    builder = TraceBuilder()
    if stacks:
        builder.function("train.py(9): <module>", 0, 4000)
        builder.function("train.py(20): loop", 1, 3990)
    for step in range(4):
        time = 1000 * step
        builder.step(step, time + 2, 980)
        builder.kernel(time + 100, 250, launch=time + 20)
        if stacks:
            builder.function("logs.py(3): log", time + 150, 250)
            builder.function("<built-in method item of Tensor object at 0x7f00>", time + 151, 240)
        builder.op("aten::item", time + 152, 230)
        builder.op("aten::_local_scalar_dense", time + 153, 228)
        builder.copy("DtoH (Device -> Pageable)", time + 351, 1, launch=time + 160, size=4)
        builder.call("cudaStreamSynchronize", time + 170, 200)
        builder.kernel(time + 500, 300, launch=time + 450)
        builder.call("cudaDeviceSynchronize", time + 600, 205)
    if host is not None:
        builder.metadata[HOST_KEY] = to_builtins(host)
    return analyse(read_trace(builder.write(folder / "trace.json")))
