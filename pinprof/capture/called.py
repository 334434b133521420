"""Tells what a Python frame is calling at this moment, where its source and its instruction say so."""

import ast
import dis
import linecache
import sys
from types import CodeType
from typing import NamedTuple

SUBSCRIPTS = {"BINARY_SUBSCR": "[]", "STORE_SUBSCR": "[]=", "DELETE_SUBSCR": "del []", "CONTAINS_OP": "in"}
"""Instructions that run methods of objects without a call in the source."""
CONDITIONS = ("POP_JUMP", "JUMP_IF", "TO_BOOL", "UNARY_NOT")
"""How instructions begin that ask for the truth of an object."""
FORMATS = ("FORMAT_",)
CALLS = ("CALL", "PRECALL")
CACHE, WORD = "CACHE", 2
"""A call of a Python function stands on the last of the empty instructions behind it; each has 2 bytes."""
TRUTH, FORMAT = "bool", "format"


class _Range(NamedTuple):
    """A part of a source file: lines from 1, columns in bytes from 0."""

    line: int
    end_line: int
    column: int
    end_column: int


def called_at(code: CodeType, instruction: int) -> str | None:
    """Return what the instruction at an offset of a function's code calls; None where that is not certain.

    It is the name of a function or method as the source has it, `bool` for a condition, `[]` for a subscript.
    """
    if not 0 <= instruction < len(code.co_code):
        return None
    while instruction and dis.opname[code.co_code[instruction]] == CACHE:
        instruction -= WORD
    operation = dis.opname[code.co_code[instruction]]
    if operation in SUBSCRIPTS:
        return SUBSCRIPTS[operation]
    if operation == "BINARY_OP":  # since Python 3.14 a subscript too
        return "[]" if isinstance(_expression(code, instruction), ast.Subscript) else None
    if operation.startswith(CONDITIONS):
        return TRUTH
    if operation.startswith(FORMATS):
        return FORMAT
    return _called_name(_expression(code, instruction)) if operation.startswith(CALLS) else None


def _called_name(node: ast.expr | None) -> str | None:
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else None


def _expression(code: CodeType, instruction: int) -> ast.expr | None:
    """Return the expression that an instruction belongs to; before Python 3.11 the code does not tell."""
    at = _range_of(code, instruction)
    if at is None:
        return None
    lines = [line.encode() for line in linecache.getlines(code.co_filename)[at.line - 1 : at.end_line]]
    if len(lines) != at.end_line - at.line + 1:
        return None
    lines[-1] = lines[-1][: at.end_column]
    lines[0] = lines[0][at.column :]
    try:
        return ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _range_of(code: CodeType, instruction: int) -> _Range | None:
    if sys.version_info < (3, 11):
        return None
    positions = list(code.co_positions())
    line, end_line, column, end_column = positions[instruction // WORD]
    if line is None or end_line is None or column is None or end_column is None:
        return None
    return _Range(line, end_line, column, end_column)
