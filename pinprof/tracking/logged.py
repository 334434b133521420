"""What a tracker's run stores of a report, and the run as a destination."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pinprof.errors import PinprofError

FOLDER = "pinprof"
"""The folder of the files among a run's artifacts, and the prefix of all names: trackers group by the part before /."""
PAGE, DOCUMENT = "report.html", "report.json"


@dataclass(frozen=True)
class Logged:
    """What a run stores of a report. The numbers do not include withheld figures."""

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
    """The address of the run, or the command that shows it."""

    def __str__(self) -> str:
        return f"{self.tracker} run {self.run}"

    def take(self, logged: Logged) -> None:
        """Write to the run. Raises PinprofError with the tracker's reason if that fails."""
        try:
            self.write(logged)
        except Exception as error:
            raise PinprofError(f"{self}: cannot be written to ({reason(error)})") from error


def reason(error: Exception) -> str:
    """Return the message of a tracker's error, as one line."""
    return " ".join(str(error).split()) or type(error).__name__


def library(module: str, name: str, install: str) -> Any:
    """Return the library of a tracker. Raises PinprofError with the command that installs it if it is not there."""
    try:
        return import_module(module)
    except ImportError as error:
        if error.name and error.name.partition(".")[0] != module:  # installed, but one of its own imports is missing
            raise PinprofError(f"{name} cannot be imported ({reason(error)})") from error
        raise PinprofError(f"{name} is not installed: {install}") from error
