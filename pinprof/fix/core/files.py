"""The files of a program: where they are, which may be changed, and what is defined in them."""

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeAlias

import libcst as cst

from pinprof.fix.core.clocks import NAMES, is_timer
from pinprof.fix.core.rewrite import NotSafe, Refusal, walk
from pinprof.fix.core.source import SourceFile
from pinprof.trace.lines import Place
from pinprof.trace.sources import EDITED_AFTER_S, MAX_BYTES, Sources, project_of

Body: TypeAlias = cst.FunctionDef | cst.Lambda
MOST_FILES = 40
"""So many files of a program are looked at: LibCST takes a second or more per 1,000 lines, with the names resolved."""
MOST_LISTED = 500
"""So many entries of a folder are looked at for programs: it may be one of a million pictures."""
IMPORTED = re.compile(
    r"(?:^|[;:])[ \t]*(?:from[\s\\]+([.\w]+)[\s\\]+import[\s\\]+(\([^)]*\)|[^\n#;]+)|import\s+([^\n#;]+))"
    r"|import_module\(\s*[\"']([.\w]+)",
    re.MULTILINE,
)
COMMENT = re.compile(r"#[^\n]*")


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
        self.asked: set[str] = set()
        """Names by which it asks objects for their methods: `getattr(hook, "start")`; "" for one made as it runs."""
        self.has_clock = False
        """Whether anything in it may read a clock."""
        for source in files:
            for node in source.nodes:
                self._take(source, node)

    def _take(self, source: SourceFile, node: cst.CSTNode) -> None:
        if isinstance(node, cst.Name) and (node.value in NAMES or is_timer((node.value,))):
            self.has_clock = True
        elif isinstance(node, cst.Call) and source.code(node.func) == "getattr":
            text = node.args[1].value if len(node.args) > 1 else None
            self.asked.add(str(text.evaluated_value) if isinstance(text, cst.SimpleString) else "")
        elif isinstance(node, cst.FunctionDef):
            around = source.scope(node)
            of_class = around.name.value if isinstance(around, cst.ClassDef) else None
            self.functions[node.name.value].append(Function(source, node, of_class))
        elif isinstance(node, cst.ClassDef):
            self.classes[node.name.value].append((source, node))
        elif isinstance(node, cst.ImportAlias) and node.asname is not None:
            self.assigned[str(node.evaluated_alias)].append((source, node.name))
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

    def named(self, name: str, *names: str) -> list[Function]:
        """Return the functions that a name may stand for: those of the name, and those that are assigned to it."""
        found = [*self.functions.get(name, ())]
        others = {_last_name(node) for source, value in self.assigned.get(name, ()) for node in handed(source, value)}
        for other in sorted(others - {name, *names}):
            found += [each for each in self.named(other, name, *names) if each not in found]
        return found

    @cached_property
    def modules(self) -> set[str]:
        """The names by which its files may be imported, those of packages too."""
        return {part for each in self.files for part in each.path.with_suffix("").parts}


def handed(source: SourceFile, value: cst.BaseExpression) -> Iterator[cst.Name | cst.Attribute]:
    """Yield what an expression names and does not call there: `train` of `partial(train, model)`."""
    for node in walk(value):
        around = source.parent(node)
        is_called = isinstance(around, cst.Call) and around.func is node
        if isinstance(node, cst.Name | cst.Attribute) and not is_called and not isinstance(around, cst.Attribute):
            yield node


def _last_name(node: cst.Name | cst.Attribute) -> str:
    return node.attr.value if isinstance(node, cst.Attribute) else node.value


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

    Raises Refusal where that is more than `most_bytes`.
    """
    paths = _paths_around(source.path, folder)
    if most_bytes is not None and sum(path.stat().st_size for path in paths) > most_bytes:
        raise NotSafe("the program is too large to be read on the way")
    others = (_taken(path, folder) for path in paths if path != source.path)
    return Program([source, *(other for other in others if other is not None)])


def _paths_around(start: Path, folder: Path) -> list[Path]:
    """Return a file, the files of a folder that it imports, and those that import it."""
    found = [start]
    importing = _importing(start, folder)
    for path in found:
        near = [each for files in _imported(path, _text_of(path), folder) for each in files]
        if path == start:
            near += importing
        elif path in importing:
            near += _importing(path, folder)
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
    with suppress(Refusal, OSError, ValueError):
        return SourceFile(path.relative_to(folder).as_posix(), path, path.read_bytes())
    return None


def _imported(path: Path, text: str, folder: Path) -> Iterator[list[Path]]:
    """Yield the files of a folder that each import of a file may be of: from beside it, then from the top."""
    for module, names, plain, by_text in IMPORTED.findall(text):
        listed = COMMENT.sub("", names if module else plain or by_text).strip("() ").split(",")
        words = [each.split()[0] for each in listed if each.split()]
        parts = [*(f"{module.removesuffix('.')}.{word}" for word in words), module] if module else words
        for part in parts:
            steps = len(part) - len(part.lstrip("."))
            tops = [path.parents[min(steps, len(path.parents)) - 1]] if steps else [path.parent, folder, folder / "src"]
            tail = Path(*part.strip(".").split("."))
            files = [other for top in tops for other in (top / f"{tail}.py", top / tail / "__init__.py")]
            yield [other.resolve() for other in files if other.is_relative_to(folder) and other.is_file()]


def _importing(path: Path, folder: Path) -> list[Path]:
    """Return the files that import a file: those beside it and in the folders around it, and in the folders of these.

    What names it in an import does so from beside or above it; from another folder it must be this file that is meant.
    """
    name = re.compile(rf"\b{re.escape(path.parent.name if path.stem == '__init__' else path.stem)}\b")
    found: list[Path] = []
    for top in path.parents:
        if not top.is_relative_to(folder):
            break
        for other in _python_files(top):
            if other in {path, *found} or not _is_readable(other):
                continue
            text = _text_of(other)
            is_named = any(name.search(" ".join(each)) for each in IMPORTED.findall(text))
            is_near = other.parent in path.parents
            if is_named and (is_near or [path] in (files[:1] for files in _imported(other, text, folder))):
                found.append(other.resolve())
    return found


def _python_files(top: Path) -> Iterator[Path]:
    """Yield the Python files of a folder, and of the folders in it."""
    inner = _entries(top)
    for each in (inner, *map(_entries, inner)):
        yield from (other for other in each if other.suffix == ".py" and other.is_file())


def _entries(folder: Path) -> list[Path]:
    with suppress(OSError), os.scandir(folder) as entries:
        return sorted(Path(each.path) for each in islice(entries, MOST_LISTED))
    return []


INSTALLED = ("site-packages", "dist-packages")


RECORD_IT = "the trace does not know its line; record the program anew with pinprof run, which learns lines"


RECORD_AGAIN = "record it again"


class Files:
    """The source files of a trace, each taken apart once.

    `scripts` are files to take where the trace names others of the same name. None outside of `folder` is changed, and
    none that is not as it was recorded: by its SHA-256 in `recorded`, or else by its age. A program of more than
    `most_bytes` is not taken apart.
    """

    def __init__(
        self,
        trace_path: str,
        scripts: Sequence[str] = (),
        folder: Path | None = None,
        recorded: Mapping[str, str] | None = None,
        most_bytes: int | None = None,
    ) -> None:
        self._recorded = recorded or {}
        self._most_bytes = most_bytes
        self._trace = Path(trace_path)
        self._sources = Sources(trace_path)
        self._scripts = [Path(script) for script in scripts]
        self.folder = (folder or project_of(Path.cwd())).resolve()
        self._taken: dict[str, SourceFile | Refusal] = {}
        self._programs: dict[str, Program] = {}

    def at(self, place: Place) -> SourceFile:
        """Return the file of a place. Raises Refusal where it may not be changed, or is not what ran."""
        if place.file is None or place.line is None:
            raise NotSafe(RECORD_IT)
        source = self.taken(place.file)
        if place.line > len(source.content.splitlines()) or not source.function_fits(
            place.function or "<module>", place.line
        ):
            raise NotSafe(f"this line is not in {place.function}, so this is not the file that ran")
        return source

    def taken(self, file: str) -> SourceFile:
        """Return a file by the name that the trace has for it. Raises Refusal."""
        if file not in self._taken:
            try:
                self._taken[file] = self._take(file)
            except Refusal as reason:
                self._taken[file] = reason
        found = self._taken[file]
        if isinstance(found, Refusal):
            raise found
        return found

    def program(self, file: str) -> Program:
        """Return the program around a file. Raises Refusal, as `taken`, and for one that is too large."""
        if file not in self._programs:
            self._programs[file] = program_around(self.taken(file), self.folder, self._most_bytes)
        return self._programs[file]

    def _take(self, file: str) -> SourceFile:
        path = self._path(file)
        if path is None:
            raise NotSafe("the file is not here; name it after the trace")
        try:
            path = path.resolve(strict=True)
            if any(part in INSTALLED for part in path.parts):
                raise NotSafe("it is in an installed library")
            if not path.is_relative_to(self.folder):
                raise NotSafe(f"the file is outside of the program's folder ({self.folder})")
            if path.stat().st_size > MAX_BYTES:
                raise NotSafe("the file is too large to be a program that people wrote")
            content = path.read_bytes()
            self._check_is_as_recorded(file, path, content)
            return SourceFile(file, path, content)
        except (OSError, ValueError) as error:
            raise NotSafe(f"the file cannot be read ({error})") from error

    def _check_is_as_recorded(self, file: str, path: Path, content: bytes) -> None:
        """Raise Refusal for a file that is not the one that ran."""
        known = self._recorded.get(file)
        if known is not None:
            if sha256(content).hexdigest() != known:
                raise NotSafe(f"the file is not as it was recorded; {RECORD_AGAIN}")
        elif not self._trace.is_file():
            raise NotSafe("the trace is not a file here, so it is unknown whether the program has changed since")
        elif path.stat().st_mtime > self._trace.stat().st_mtime + EDITED_AFTER_S:
            raise NotSafe(f"the file was changed after the recording; {RECORD_AGAIN}")

    def _path(self, file: str) -> Path | None:
        """Return where a file is: among those that were named, else where the trace names it."""
        named = [path for path in self._scripts if path.name == Path(file).name]
        if named:
            best = max(named, key=lambda path: _shared_end(path, Path(file)))
            same = [path for path in named if _shared_end(path, Path(file)) == _shared_end(best, Path(file))]
            if len(same) > 1:
                raise NotSafe("several of the named files may be it")
            return best
        return self._sources.path(file)


def _shared_end(one: Path, other: Path) -> int:
    """Return how many parts at the end two paths share."""
    pairs = zip(reversed(one.absolute().parts), reversed(other.parts), strict=False)
    count = 0
    for mine, its in pairs:
        if mine != its:
            break
        count += 1
    return count
