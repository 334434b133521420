"""Statements that are taken out: an emptied cache, and the second of two synchronizations in a row."""

import libcst as cst

from pinprof.fix.rewrite import NotSafe, Rewrite
from pinprof.fix.source import SourceFile

EMPTY_CACHE = "torch.cuda.empty_cache"
OF_MEMORY = (
    "memory_reserved",
    "memory_allocated",
    "memory_stats",
    "memory_summary",
    "memory_snapshot",
    "peak_memory",
    "mem_get_info",
    "nvml",
    "nvidia-smi",
    "nvidia_smi",
    *("memory_cached", "device_memory_used", "GPUtil", "gpustat", "_snapshot", "max_split_size"),
)
"""How a program that tells of the GPU's memory does so."""
SHORT = ("out of memory", "OutOfMemoryError", "set_per_process_memory_fraction", "MemPool")
"""Words of programs that go on when memory is short, or bound it."""
LIBRARIES = ("cupy", "cudf", "jax", "tensorflow", "numba", "pycuda", "tensorrt", "onnxruntime", "vllm", "paddle")
"""Other libraries that take memory of the GPU."""
SYNCHRONIZE = "torch.cuda.synchronize"


def without_empty_cache(source: SourceFile, line: int) -> list[Rewrite]:
    """Return the rewrite that takes `torch.cuda.empty_cache()` out of a loop or a function. Raises Refusal."""
    statement = _statement_of(source, line, EMPTY_CACHE)
    if any(isinstance(each, cst.ExceptHandler | cst.ExceptStarHandler) for each in source.around(statement)):
        raise NotSafe("it follows an error, and is not for each step")
    other = source.imported(LIBRARIES) or source.mentions(SHORT)
    if other:
        raise NotSafe(f"the program may need the memory that torch keeps ({other})")
    told = source.mentions(OF_MEMORY)
    if told:
        raise NotSafe(f"the program looks at memory ({told}), and would see the memory that torch keeps")
    return [_removal(source, statement)]


def without_second_wait(source: SourceFile, line: int) -> list[Rewrite]:
    """Return the rewrite that takes out the second of two synchronizations in a row. Raises Refusal."""
    statement = _statement_of(source, line, SYNCHRONIZE)
    block = source.parent(statement)
    body = list(block.body) if isinstance(block, cst.IndentedBlock | cst.Module) else [statement]
    place = next(number for number, each in enumerate(body) if each is statement)
    for first, second in ((place, place + 1), (place - 1, place)):
        if first >= 0 and second < len(body) and _are_alike(source, body[first], body[second]):
            return [_removal(source, cst.ensure_type(body[second], cst.SimpleStatementLine))]
    raise NotSafe("the source does not show what relies on the wait: a measured time, or memory that is used again")


def _are_alike(source: SourceFile, one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Return whether two statements are the same synchronization of a device."""
    if not (isinstance(one, cst.SimpleStatementLine) and isinstance(other, cst.SimpleStatementLine)):
        return False
    calls = [
        line.body[0].value if len(line.body) == 1 and isinstance(line.body[0], cst.Expr) else None
        for line in (one, other)
    ]
    plain = [
        isinstance(call, cst.Call)
        and source.qualified(call.func) == SYNCHRONIZE
        and all(isinstance(each.value, cst.Name | cst.Integer | cst.SimpleString) for each in call.args)
        for call in calls
    ]
    return all(plain) and source.code(one.body[0]) == source.code(other.body[0])


def _statement_of(source: SourceFile, line: int, function: str) -> cst.SimpleStatementLine:
    calls = [call for call in source.calls(line) if source.qualified(call.func) == function]
    if len(calls) != 1:
        raise NotSafe(source.names(len(calls), f"{function}() by its imported name"))
    statement = source.statement(calls[0])
    small = statement.body[0]
    if not (isinstance(small, cst.Expr) and small.value is calls[0]):
        raise NotSafe("the call is a part of a larger statement")
    if calls[0].args and function == EMPTY_CACHE:
        raise NotSafe("the call has arguments")
    return statement


def _removal(source: SourceFile, statement: cst.SimpleStatementLine) -> Rewrite:
    """Return the rewrite that takes out a statement; where it is alone in its block, `pass` stands there."""
    block = source.parent(statement)
    if isinstance(block, cst.IndentedBlock) and len(block.body) == 1:
        return source.anew(statement.body[0], "taken out", cst.Pass())
    if any(line.comment for line in statement.leading_lines):
        raise NotSafe("a comment stands above the line; take both out by hand")
    return source.anew(statement, "taken out", cst.RemoveFromParent())
