"""Traces of a language model that answers: each call looks up its tokens, multiplies, and chooses the next."""

from collections.abc import Sequence

from trace_builder import TraceBuilder

PERIOD = 1000
TOKENS, POSITIONS = [32000, 64], [2048, 64]
SMALL = "void at::native::(anonymous namespace)::indexSelectSmallIndex<c10::Half, long, 2, 2, -2>"
LARGE = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int)"


def lookup(builder: TraceBuilder, start: int, kernel: str, dims: Sequence[object] | None = None) -> None:
    """Look tokens up in 20 us, with shapes if given."""
    args = {} if dims is None else {"Input Dims": dims}
    builder.event("cpu_op", "aten::embedding", start, 20, **args)
    builder.kernel(start + 30, 5, launch=start + 5, name=kernel)


def rest_of_call(
    builder: TraceBuilder, start: int, *, choice: str = "aten::argmax", product: str = "flash_fwd_kernel"
) -> None:
    """Multiply, and choose the next token."""
    builder.op("aten::mm", start + 100, 20)
    builder.kernel(start + 130, 5, launch=start + 105, name=product)
    builder.op(choice, start + 200, 20)
    builder.kernel(start + 230, 5, launch=start + 205, name="reduce")


def answered(
    sizes: Sequence[tuple[int, int]],
    *,
    with_shapes: bool = True,
    positions: bool = False,
    choice: str = "aten::argmax",
    product: str = "flash_fwd_kernel",
) -> TraceBuilder:
    """Make a call for each size, requests and tokens of each; more than 16 tokens take another kernel."""
    builder = TraceBuilder()
    for number, (requests, tokens) in enumerate(sizes):
        start = PERIOD * number
        for offset, table, dims in (0, TOKENS, [requests, tokens]), (40, POSITIONS, [tokens]):
            kernel = SMALL if requests * tokens <= 16 else LARGE
            if not offset or positions:
                lookup(builder, start + offset, kernel, [table, dims, [], [], []] if with_shapes else None)
        rest_of_call(builder, start, choice=choice, product=product)
    return builder
