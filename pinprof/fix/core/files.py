"""Which files of the user may be changed, and where they are."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from pinprof.fix.core.program import Program, program_around
from pinprof.fix.core.rewrite import NotSafe, Refusal
from pinprof.fix.core.source import SourceFile
from pinprof.trace.lines import Place
from pinprof.trace.sources import EDITED_AFTER_S, MAX_BYTES, Sources, project_of

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
