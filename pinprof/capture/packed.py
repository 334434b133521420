"""Opens trace files to write and to read again. isal packs in 0.1 s what torch packs in 6 s, at the slowest level."""

from pathlib import Path
from typing import BinaryIO, cast

GZIP_LEVEL = 2
"""Of isal's four: as quick as the first; the third takes four times as long, for 5 % less."""


def is_packed(path: Path) -> bool:
    """Return whether the name says that the file is packed."""
    return path.name.endswith(".gz")


def trace_file(path: Path, mode: str) -> BinaryIO:
    """Open a file in a binary mode, packed if its name says so. Raises OSError if that is not possible."""
    from isal import igzip  # noqa: PLC0415  only where a trace is written

    opened = igzip.open(path, mode, compresslevel=GZIP_LEVEL) if is_packed(path) else path.open(mode)
    return cast("BinaryIO", opened)
