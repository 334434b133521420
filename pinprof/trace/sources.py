"""The source files of a recorded program, and the only line in them that can have made a recorded call."""

import ast
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeGuard

from pinprof.trace.metadata.info import Made

REPOSITORY_FOLDER = ".git"  # an entry at the top of a git repository: a folder, or a file in worktrees and submodules
EDITED_AFTER_S = 10
"""A source file that is newer than the trace by more than this is not the one that ran. The files of one copy or
checkout are written within seconds, in any order."""
MAX_BYTES, LONGEST_LINE_CHARS = 500_000, 10_000
"""Larger files, and longer lines, are not sources that anybody wrote. Python takes up to a kB for each byte of a
source, and for broken code the square of the length of a line; how deep code may be nested it checks itself."""


class Sources:
    """Finds the source of a file that a trace names: in the working directory, otherwise in the trace's own folder.

    A trace names a file of a package as it is imported, such as `mypackage/net.py`. These are also looked for in the
    top folder of the project, and in its `src`.
    """

    def __init__(self, trace_path: str, made: Made | None = None, folders: Iterable[str] = ()) -> None:
        """Look in the trace's folder and in `folders`, too. `made` has hashes of files that ran: surer than times."""
        self._trace, self._folders = Path(trace_path), [Path(folder) for folder in folders]
        self._hashes = made.hashes if made else {}
        self._texts: dict[str, str | None] = {}
        self._path_of: dict[str, Path | None] = {}

    def text(self, file: str) -> str | None:
        """Return the text of a source file; None if it is missing, is not Python, or was edited after the trace."""
        if file not in self._texts:
            self._texts[file] = self._read(file) if file.endswith(".py") else None
        return self._texts[file]

    def path(self, file: str) -> Path | None:
        """Return the path of a source file, edited after the trace or not; None if it is missing, or is not Python."""
        if file not in self._path_of:
            self._path_of[file] = next(self._paths(file), None) if file.endswith(".py") else None
        return self._path_of[file]

    def _paths(self, file: str) -> Iterator[Path]:
        folders = [Path(), self._trace.parent, *self._folders]
        if len(Path(file).parts) > 1:
            folders += [self._project, self._project / "src"]
        for folder in folders:
            path = folder / file
            with suppress(OSError, ValueError):  # not readable, or not a possible name of a file
                if path.is_file():
                    yield path

    def _read(self, file: str) -> str | None:
        for path in self._paths(file):
            with suppress(OSError, ValueError):  # not readable, or not text
                if not self.is_edited(path, file) and path.stat().st_size <= MAX_BYTES:
                    text = path.read_text(encoding="utf-8-sig")
                    return text if max(map(len, text.splitlines()), default=0) <= LONGEST_LINE_CHARS else None
        return None

    @cached_property
    def _project(self) -> Path:
        """The top folder of the project: the git repository around the working directory, otherwise the latter."""
        here = Path.cwd()
        return next((folder for folder in (here, *here.parents) if (folder / REPOSITORY_FOLDER).exists()), here)

    def is_edited(self, path: Path, file: str) -> bool:
        """Return whether a file is not the one that ran, by its hash or else its time; raises OSError if gone."""
        recorded = self._hashes.get(file)
        if recorded is not None and path.stat().st_size <= MAX_BYTES:
            return sha256(path.read_bytes()).hexdigest() != recorded
        return path.stat().st_mtime > self._recorded + EDITED_AFTER_S

    @cached_property
    def _recorded(self) -> float:
        try:
            return self._trace.stat().st_mtime
        except OSError:
            return 0.0


Body: TypeAlias = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Named: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
ScopeNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda | ast.GeneratorExp
MODULE_CODE = "<module>"  # Python's name for code outside of functions
DUNDER_NAME = re.compile(r"__\w+__")
"""Methods that Python calls although the source does not name them: `Linear(3, 3)` calls `__init__`."""
LAMBDA = "<lambda>"
ANONYMOUS_SCOPES: dict[str, type[ast.expr]] = {
    LAMBDA: ast.Lambda,
    "<genexpr>": ast.GeneratorExp,
    "<listcomp>": ast.ListComp,
    "<setcomp>": ast.SetComp,
    "<dictcomp>": ast.DictComp,
}
"""Python's names of functions without a name."""


class _Use(NamedTuple):
    line: int
    certain: bool


def call_line(source: str, function: str, line: int, called: str, *, of_object: bool) -> int | None:
    """Return the line of the only call of `called` in a function of a source file, None if that is not certain.

    A trace gives `line` for the function: its first line, or one inside. The function is the one of that name around
    this line. `of_object` says that a method was called: then a variable of that name does not matter. No line is
    certain if several calls fit, if the name is also used without a call (`read = x.item`), if the call spans lines,
    or if Python calls the method by itself (`__init__`).
    """
    body = _function(source, function, line)
    if body is None or DUNDER_NAME.fullmatch(called):
        return None
    uses = list(_uses(body, called, of_object=of_object))
    return uses[0].line if len(uses) == 1 and uses[0].certain else None


COMPUTING_NODES = (ast.Call, ast.BinOp, ast.UnaryOp, ast.AugAssign, ast.Subscript)  # nodes that may run an op of torch


def loop_line(source: str, function: str, line: int) -> int | None:
    """Return the first line of the only innermost loop of a function that computes; None if it has none or several."""
    if function in ANONYMOUS_SCOPES:
        return line if function != LAMBDA and line in _lines_of(source, function) else None
    body = _function(source, function, line)
    loops = [node for node, own in _walk(body.body) if own and _computes(node)] if body else []
    innermost = [loop for loop in loops if not any(_computes(inner) for inner in _repeated(loop))]
    return innermost[0].lineno if len(innermost) == 1 else None


def _computes(node: ast.AST) -> TypeGuard[ast.stmt | ast.expr]:
    return any(isinstance(inner, COMPUTING_NODES) for inner in _repeated(node))


def _repeated(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes in the body of a loop; none of other nodes, and not what a loop runs once."""
    body: Sequence[ast.AST] = ()
    if isinstance(node, ast.ListComp | ast.SetComp):
        body = (node.elt,)
    elif isinstance(node, ast.DictComp):
        body = (node.key, node.value)
    elif isinstance(node, ast.For | ast.AsyncFor | ast.While):
        body = node.body
    return chain.from_iterable(map(ast.walk, body))


def fits(source: str, function: str, line: int) -> bool:
    """Return whether a source file has exactly one function (or class) of this name around a line.

    The name may be qualified (`Trainer.step`). Lambdas and comprehensions, which have no names, fit if any is around
    the line; other code without a name always fits.
    """
    name = function.rpartition(".")[2]
    if name in ANONYMOUS_SCOPES:
        return line in _lines_of(source, name)
    return (name != MODULE_CODE and name.startswith("<")) or _function(source, name, line) is not None


@lru_cache(maxsize=4)
def _parsed(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the program's own, as of `"\d"`
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(maxsize=64)
def _lines_of(source: str, name: str) -> frozenset[int]:
    """Return the lines of a source file that expressions of a kind of `ANONYMOUS_SCOPES` hold."""
    nodes = (
        node for node in ast.walk(_parsed(source) or ast.Module([], [])) if isinstance(node, ANONYMOUS_SCOPES[name])
    )
    return frozenset(line for node in nodes for line in range(node.lineno, (node.end_lineno or 0) + 1))


@lru_cache(maxsize=64)
def _by_name(source: str) -> dict[str, list[Named]]:
    named: dict[str, list[Named]] = {}
    for node in ast.walk(_parsed(source) or ast.Module([], [])):
        if isinstance(node, Named):
            named.setdefault(node.name, []).append(node)
    return named


def _function(source: str, function: str, at: int) -> Body | None:
    if function == MODULE_CODE:
        return _parsed(source)
    named = _by_name(source).get(function, ())
    holding = [
        node
        for node in named
        if min([node.lineno, *(mark.lineno for mark in node.decorator_list)]) <= at <= (node.end_lineno or 0)
    ]
    return holding[0] if len(holding) == 1 else None


def _uses(body: Body, called: str, *, of_object: bool) -> Iterator[_Use]:
    """Yield where a function uses a name; only a call on one line, in the function's own frame, is certain."""
    called_at: set[int] = set()
    for node, own in _walk(body.body):
        name = _name(node.func) if isinstance(node, ast.Call) else _name(node)
        if name != called or (of_object and isinstance(node, ast.Name | ast.alias)):
            continue
        if isinstance(node, ast.Call):
            called_at.add(id(node.func))
            name_line = node.func.end_lineno or 0
            yield _Use(name_line, own and node.lineno == name_line)
        elif id(node) not in called_at:
            yield _Use(0, certain=False)


def _walk(body: Iterable[ast.AST]) -> Iterator[tuple[ast.AST, bool]]:
    """Yield all nodes, outer ones first, and whether each runs in the function's own frame. Code may nest deep."""
    waiting = [(node, True) for node in body]
    while waiting:
        node, own = waiting.pop()
        inside = own and not isinstance(node, ScopeNode)
        yield node, inside
        waiting += [(child, inside) for child in ast.iter_child_nodes(node)]


def _name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.alias):
        return node.name if node.asname else None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
