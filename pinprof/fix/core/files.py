"""The files of a program: where they are, which may be changed, and which import which."""

import ast
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path

from pinprof.fix.core.rewrite import NotSafe, Refusal
from pinprof.fix.core.source import SourceFile
from pinprof.trace.lines import Place
from pinprof.trace.sources import EDITED_AFTER_S, MAX_BYTES, Sources, project_of

MOST_FILES = 40
"""Files of a program that are searched for clocks, at most."""
MOST_LISTED = 500
"""Entries of a folder that are searched for programs, at most: it may have a million pictures."""


def neighbours(start: Path, folder: Path) -> list[Path]:
    """Return a file and the files of a folder that it imports, and that these import."""
    files = [start]
    for path in files:
        new = [other for other in dict.fromkeys(_imported(path, folder)) if other not in files]
        files += new[: MOST_FILES - len(files)]
    return files


def importing(path: Path, folder: Path) -> list[Path]:
    """Return the files that import a file: from its own folder, the folders around it, or a folder in one of these."""
    name = path.parent.name if path.stem == "__init__" else path.stem
    tops = [top for top in path.parents if top.is_relative_to(folder)]
    near = dict.fromkeys(other for top in tops for other in _python_files(top) if other != path and _is_readable(other))
    return [other for other in near if name in other.read_text("utf-8", "replace") and path in _imported(other, folder)]


def _imported(path: Path, folder: Path) -> list[Path]:
    """Return the files of a folder that a file imports: from its own folder, otherwise from the top."""
    try:
        nodes = [*ast.walk(ast.parse(path.read_bytes()))]
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    modules = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    modules += [  # import_module("train")
        str(node.args[0].value)
        for node in nodes
        if isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func)
        if node.args and isinstance(node.args[0], ast.Constant)
    ]
    files = [_file_of(module, [path.parent, folder, folder / "src"]) for module in modules]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            tops = [path.parents[min(node.level, len(path.parents)) - 1]] if node.level else [path.parent, folder]
            names = [f"{node.module or ''}.{alias.name}".strip(".") for alias in node.names]
            files += [_file_of(module, [*tops, folder / "src"]) for module in (*names, node.module or "")]
    return [file for file in files if file is not None and file.is_relative_to(folder) and _is_readable(file)]


def _file_of(module: str, tops: Sequence[Path]) -> Path | None:
    """Return the file of a module in the first of some folders that holds one."""
    tail = Path(*module.split("."))
    files = [other for top in tops for other in (top / f"{tail}.py", top / tail / "__init__.py")]
    return next((other.resolve() for other in files if other.is_file()), None)


def _is_readable(path: Path) -> bool:
    with suppress(OSError):
        return path.is_file() and path.stat().st_size <= MAX_BYTES
    return False


def _python_files(top: Path) -> Iterator[Path]:
    """Yield the Python files of a folder, and of the folders in it."""
    entries = _entries(top)
    for paths in (entries, *map(_entries, entries)):
        yield from (path for path in paths if path.suffix == ".py")


def _entries(folder: Path) -> list[Path]:
    with suppress(OSError), os.scandir(folder) as entries:
        return sorted(Path(other.path) for other in islice(entries, MOST_LISTED))
    return []


INSTALLED = ("site-packages", "dist-packages")
RECORD_IT = "the trace does not have its line; record the program again with pinprof run, which learns lines"
RECORD_AGAIN = "record it again"


class Files:
    """The source files of a trace, each parsed once.

    `scripts` replace files of the same name in the trace. Files outside of `folder` are refused, and files that have
    changed since the recording: by their SHA-256 in `recorded` or, without it, by their age.
    """

    def __init__(
        self,
        trace_path: str,
        scripts: Sequence[str] = (),
        folder: Path | None = None,
        recorded: Mapping[str, str] | None = None,
    ) -> None:
        self._recorded = recorded or {}
        self._trace = Path(trace_path)
        self._sources = Sources(trace_path)
        self._scripts = [Path(script) for script in scripts]
        self.folder = (folder or project_of(Path.cwd())).resolve()
        self._read: dict[str, SourceFile | Refusal] = {}

    def at(self, place: Place) -> SourceFile:
        """Return the file of a place. Raises Refusal if it may not be changed, or is not what ran."""
        if place.file is None or place.line is None:
            raise NotSafe(RECORD_IT)
        source = self.named(place.file)
        if place.line > len(source.content.splitlines()) or not source.function_fits(
            place.function or "<module>", place.line
        ):
            raise NotSafe(f"this line is not in {place.function}, so this is not the file that ran")
        return source

    def named(self, file: str) -> SourceFile:
        """Return a file by the name that the trace has for it. Raises Refusal."""
        if file not in self._read:
            try:
                self._read[file] = self._open(file)
            except Refusal as reason:
                self._read[file] = reason
        source = self._read[file]
        if isinstance(source, Refusal):
            raise source
        return source

    def _open(self, file: str) -> SourceFile:
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
        recorded = self._recorded.get(file)
        if recorded is not None:
            if sha256(content).hexdigest() != recorded:
                raise NotSafe(f"the file is not as it was recorded; {RECORD_AGAIN}")
        elif not self._trace.is_file():
            raise NotSafe("the trace is not a file here, so it is unknown whether the program has changed since")
        elif path.stat().st_mtime > self._trace.stat().st_mtime + EDITED_AFTER_S:
            raise NotSafe(f"the file was changed after the recording; {RECORD_AGAIN}")

    def _path(self, file: str) -> Path | None:
        """Return where a file is: among the user's scripts, or where the trace says."""
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
    for part, other_part in pairs:
        if part != other_part:
            break
        count += 1
    return count
