"""Runs the command line: `python -m pinprof`."""

import os
import sys

if sys.path[:1] == [os.getcwd()]:  # noqa: PTH109  pathlib could be that of the working directory
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
"""Python puts the working directory first, where the user may have a `click.py`: pinprof must not import that."""

from pinprof.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
