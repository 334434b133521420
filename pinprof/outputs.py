"""Files that are written whole or not at all."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pinprof.errors import PinprofError


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """Give a name in the folder of `path` to write to; at the end of the block the file takes its place."""
    with tempfile.TemporaryDirectory(prefix=".pinprof-", dir=path.parent) as folder:
        temporary = Path(folder) / path.name
        yield temporary
        temporary.replace(path)


def write_whole(path: Path, text: str) -> None:
    """Write a text to a file, over one that is there; PinprofError if it cannot be written."""
    try:
        with unfinished(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise PinprofError(f"{path}: cannot be written ({exc.strerror})") from exc
