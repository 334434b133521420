"""The source files of a recorded program, where they are at hand."""

from functools import cached_property
from pathlib import Path

EDITED_AFTER_S = 10
"""A source file that is newer than the trace by more than this is not the one that ran; files of one copy or checkout
are written within seconds of each other, in any order."""

MAX_BYTES = 10_000_000
"""Nobody wrote a source file larger than this."""


class Sources:
    """Finds the source of a file that a trace names: from the working directory, else from the trace's own folder."""

    def __init__(self, trace_path: str) -> None:
        self._trace = Path(trace_path)
        self._found: dict[str, str | None] = {}

    def text(self, file: str) -> str | None:
        """Return the text of a source file; None if it is not at hand, is not Python, or was edited after the trace."""
        if file not in self._found:
            self._found[file] = self._read(file) if file.endswith(".py") else None
        return self._found[file]

    def _read(self, file: str) -> str | None:
        for folder in (Path(), self._trace.parent):
            path = folder / file
            try:
                if path.is_file() and self._is_as_recorded(path):
                    return path.read_text(encoding="utf-8-sig")
            except (OSError, ValueError):  # not readable, not text, or no name that a file can have
                continue
        return None

    def _is_as_recorded(self, path: Path) -> bool:
        about = path.stat()
        return about.st_mtime <= self._recorded + EDITED_AFTER_S and about.st_size <= MAX_BYTES

    @cached_property
    def _recorded(self) -> float:
        try:
            return self._trace.stat().st_mtime
        except OSError:
            return 0.0
