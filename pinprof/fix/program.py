"""The files of a program around one of them, and the functions and classes in these by their names."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeAlias

import libcst as cst

from pinprof.fix.clocks import NAMES, is_timer
from pinprof.fix.rewrite import NotSure, walk
from pinprof.fix.source import SourceFile
from pinprof.trace.sources import MAX_BYTES

Body: TypeAlias = cst.FunctionDef | cst.Lambda
MOST_FILES = 40
"""So many files of a program are looked at: each takes some 10 ms per 1,000 lines."""
IMPORTED = re.compile(r"^\s*(?:from\s+([.\w]+)\s+import\s+([^\n#]+)|import\s+([^\n#]+))", re.MULTILINE)


class Function(NamedTuple):
    """A function of the program."""

    source: SourceFile
    node: Body
    of_class: str | None
    """The class of which it is a method."""


class Program:
    """One file of a program, those that it imports, and those that import it."""

    def __init__(self, files: Sequence[SourceFile]) -> None:
        self.files = files
        self.functions: dict[str, list[Function]] = defaultdict(list)
        self.classes: dict[str, list[tuple[SourceFile, cst.ClassDef]]] = defaultdict(list)
        self.attributes: set[str] = set()
        """What the program calls parts of its objects: `self.model = ...`."""
        self.assigned: dict[str, list[tuple[SourceFile, cst.BaseExpression]]] = defaultdict(list)
        """What is assigned to names, those of attributes and of arguments too."""
        self.has_clock = False
        """Whether anything in it may read a clock."""
        for source in files:
            for node in source.nodes:
                self._take(source, node)

    def _take(self, source: SourceFile, node: cst.CSTNode) -> None:
        if isinstance(node, cst.Name) and (node.value in NAMES or is_timer((node.value,))):
            self.has_clock = True
        elif isinstance(node, cst.FunctionDef):
            around = source.scope(node)
            of_class = around.name.value if isinstance(around, cst.ClassDef) else None
            self.functions[node.name.value].append(Function(source, node, of_class))
        elif isinstance(node, cst.ClassDef):
            self.classes[node.name.value].append((source, node))
        elif isinstance(node, cst.Param) and node.default is not None:
            self.assigned[node.name.value].append((source, node.default))
        elif isinstance(node, cst.Assign | cst.AnnAssign | cst.NamedExpr) and node.value is not None:
            targets = [each.target for each in node.targets] if isinstance(node, cst.Assign) else [node.target]
            for name in (name for target in targets for name in _bound(target)):
                self.assigned[name].append((source, node.value))
                if isinstance(node.value, cst.Lambda):
                    self.functions[name].append(Function(source, node.value, None))
            self.attributes |= {each.attr.value for each in targets if isinstance(each, cst.Attribute)}

    def methods(self, name: str) -> list[Function]:
        """Return the methods of a name, of all classes."""
        return [each for each in self.functions.get(name, ()) if each.of_class]

    def named(self, name: str) -> list[Function]:
        """Return the functions that a name may stand for: those of the name, and those that are assigned to it."""
        found = [*self.functions.get(name, ())]
        for source, value in self.assigned.get(name, ()):
            found += [
                each for other in handed(source, value) if other != name for each in self.functions.get(other, ())
            ]
        return found

    @cached_property
    def modules(self) -> set[str]:
        """The names by which its files may be imported, those of packages too."""
        return {part for each in self.files for part in each.path.with_suffix("").parts}


def handed(source: SourceFile, value: cst.BaseExpression) -> Iterator[str]:
    """Yield the names in an expression that are not called there: `train` of `partial(train, model)`."""
    for node in walk(value):
        if isinstance(node, cst.Name):
            around = source.parent(node)
            whole = around if isinstance(around, cst.Attribute) else node
            call = source.parent(whole)
            if not (isinstance(call, cst.Call) and call.func is whole):
                yield node.value


def _bound(target: cst.BaseExpression) -> Iterator[str]:
    if isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, cst.Attribute):
        yield target.attr.value
    elif isinstance(target, cst.Subscript):
        yield from _bound(target.value)
    elif isinstance(target, cst.Tuple | cst.List):
        for each in target.elements:
            yield from _bound(each.value)


def program_around(source: SourceFile, folder: Path, most_bytes: int | None = None) -> Program:
    """Return the program of a file in a folder: with what it imports from there, and what imports it.

    Raises NotSure where that is more than `most_bytes`.
    """
    paths = _paths_around(source.path, folder)
    if most_bytes is not None and sum(path.stat().st_size for path in paths) > most_bytes:
        raise NotSure("the program is too large to be read on the way")
    others = (_taken(path, folder) for path in paths if path != source.path)
    return Program([source, *(other for other in others if other is not None)])


def _paths_around(start: Path, folder: Path) -> list[Path]:
    """Return a file, the files of a folder that it imports, and those that import it."""
    found = [start]
    importing = _importing(start, folder)
    for path in found:
        near = [*_imported(path, _text_of(path), folder)]
        if path == start or path in importing:
            near += importing if path == start else _importing(path, folder)
        new = [other for other in dict.fromkeys(near) if other not in found and _is_readable(other)]
        found += new[: MOST_FILES - len(found)]
    return found


def _is_readable(path: Path) -> bool:
    with suppress(OSError):
        return path.stat().st_size <= MAX_BYTES
    return False


def _text_of(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


def _taken(path: Path, folder: Path) -> SourceFile | None:
    """Return a file of the program; None for one that cannot be read."""
    with suppress(NotSure, OSError, ValueError):
        return SourceFile(path.relative_to(folder).as_posix(), path, path.read_bytes())
    return None


def _imported(path: Path, text: str, folder: Path) -> Iterator[Path]:
    """Yield the files of a folder that a file imports, from beside it or from the top."""
    for module, names, plain in IMPORTED.findall(text):
        words = [each.split()[0] for each in (names if module else plain).strip("() ").split(",") if each.split()]
        parts = [*(f"{module}.{word}" for word in words), module] if module else words
        for part in parts:
            steps = len(part) - len(part.lstrip("."))
            tops = [path.parents[min(steps, len(path.parents)) - 1]] if steps else [path.parent, folder, folder / "src"]
            tail = Path(*part.strip(".").split("."))
            for top in tops:
                for other in (top / tail.with_suffix(".py"), top / tail / "__init__.py"):
                    if tail.name and other.is_relative_to(folder) and other.is_file():
                        yield other.resolve()


def _importing(path: Path, folder: Path) -> list[Path]:
    """Return the files beside a file, or in the folders around it, that name it in an import."""
    name = path.parent.name if path.stem == "__init__" else path.stem
    found = []
    for top in path.parents:
        if not top.is_relative_to(folder):
            break
        for other in sorted(top.glob("*.py")):
            if other != path and _is_readable(other):
                words = (" ".join(each) for each in IMPORTED.findall(_text_of(other)))
                if any(re.search(rf"\b{re.escape(name)}\b", text) for text in words):
                    found.append(other.resolve())
    return found
