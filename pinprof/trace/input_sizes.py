"""How large the inputs of ops are, where the recording has their shapes (`record_shapes=True`)."""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import msgspec
import numpy as np

from pinprof.errors import TraceError
from pinprof.trace.arguments import look_up
from pinprof.trace.tables import Int64s, Trace

BYTES = {
    **dict.fromkeys(("double", "long int", "long", "c10::complex<float>"), 8),
    **dict.fromkeys(("float", "int", "unsigned int"), 4),
    **dict.fromkeys(("c10::Half", "c10::BFloat16", "short int", "short"), 2),
    **dict.fromkeys(("bool", "unsigned char", "signed char", "c10::Float8_e4m3fn", "c10::Float8_e5m2"), 1),
}
"""Bytes of an element, by what torch.profiler calls its type."""


def input_sizes(trace: Trace, ops: Int64s) -> Mapping[int, frozenset[int]]:
    """Return the bytes of each input of these rows of `Trace.ops` that is a tensor.

    Ops whose shapes were not recorded are left out, and all where the file of the trace cannot be read again.
    """
    wanted = np.zeros(len(trace.ops), bool)
    wanted[ops] = True
    try:
        found = list(look_up(trace, {"ops": wanted}))
    except TraceError:
        return {}
    args = ((each.row, msgspec.json.decode(each.args)) for each in found if each.args)
    return {row: frozenset(_sizes(of)) for row, of in args if isinstance(of, dict) and of.get("Input Dims")}


def _sizes(args: dict[str, Any]) -> Iterator[int]:
    """Yield the bytes of each tensor among the inputs."""
    shapes, types = args["Input Dims"], args.get("Input type") or []
    if not (isinstance(shapes, list) and isinstance(types, list)):
        return
    for shape, name in zip(shapes, types, strict=False):
        if isinstance(shape, list) and name in BYTES and all(isinstance(side, int) for side in shape):
            yield prod(shape) * BYTES[name]
