"""What a run gets of a report, and a run that takes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pinprof.errors import PinprofError

FOLDER = "pinprof"
"""Where the files are among the artifacts of a run, and how all names begin: trackers group by what stands before /."""
PAGE, DOCUMENT = "report.html", "report.json"


@dataclass(frozen=True)
class Logged:
    """What a run gets of a report. A figure that is withheld is not among the numbers."""

    numbers: Mapping[str, float]
    words: Mapping[str, str]
    files: Mapping[str, str]
    """The contents by name."""


@dataclass(frozen=True)
class Destination:
    """A run of a tracker."""

    tracker: str
    run: str
    """Its id."""
    write: Callable[[Logged], None]
    see: str = ""
    """Where to look at it, or the command for that."""

    def __str__(self) -> str:
        return f"{self.tracker} run {self.run}"

    def take(self, logged: Logged) -> None:
        """Write to the run. Raises PinprofError with the tracker's reason if that fails."""
        try:
            self.write(logged)
        except Exception as error:
            raise PinprofError(f"{self}: cannot be written to ({reason(error)})") from error


def reason(error: Exception) -> str:
    """Return what a tracker says of an error, as one line."""
    return " ".join(str(error).split()) or type(error).__name__


def library(module: str, name: str, install: str) -> Any:
    """Return the library of a tracker. Raises PinprofError with the command that installs it if it is not there."""
    try:
        return import_module(module)
    except ImportError as error:
        if error.name and error.name.partition(".")[0] != module:  # it is there, and lacks something itself
            raise PinprofError(f"{name} cannot be imported ({reason(error)})") from error
        raise PinprofError(f"{name} is not installed: {install}") from error
