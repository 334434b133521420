"""What the time of the steps is spent on, by name: ops on the host, kernels on the GPU."""

from pinprof.analyses.spent.kernels import KernelSums, KernelTime, Lane, measure_kernels
from pinprof.analyses.spent.names import Names
from pinprof.analyses.spent.ops import OpSums, OpTime, measure_ops, own_times
from pinprof.analyses.spent.origins import Origin, Origins

__all__ = [
    "KernelSums",
    "KernelTime",
    "Lane",
    "Names",
    "OpSums",
    "OpTime",
    "Origin",
    "Origins",
    "measure_kernels",
    "measure_ops",
    "own_times",
]
