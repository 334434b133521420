"""Where a server and its commands import from: never from the folder, whose files it may not run."""

import sys
from collections.abc import Sequence
from pathlib import Path

HOME = Path(__file__).parents[2].resolve()
"""The folder from which this process imports pinprof."""
INSTALLED = ("site-packages", "dist-packages")


def import_path(folder: Path, path: Sequence[str]) -> list[str]:
    """Return the entries of `sys.path` outside of a folder, as absolute paths.

    An environment in the folder is not left out, nor is pinprof itself: they run the server.
    """
    root = folder.resolve()
    environments = {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}
    entries = dict.fromkeys([HOME, *(Path(entry).resolve() for entry in path)])
    return [
        str(entry)
        for entry in entries
        if entry == HOME
        or not entry.is_relative_to(root)
        or entry.name in INSTALLED
        or any(root != environment and entry.is_relative_to(environment) for environment in environments)
    ]
