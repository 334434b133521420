"""Reports as objects: they print as text, show themselves in a notebook, and write themselves."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pinprof.errors import PinprofError
from pinprof.measurement.profile import Profile
from pinprof.outputs import check_outputs, write_whole
from pinprof.report.html import Markup
from pinprof.report.page import framed
from pinprof.urls import local_path


class Contents(NamedTuple):
    """What a report shows and writes."""

    summary: str
    """For its one-line repr."""
    profiles: Iterable[Profile]
    """Of the traces that it is about."""
    json: Callable[[], str]
    page: Callable[[], str]


class ReportObject(ABC):
    """A report that prints as text, shows itself as a page in a notebook, and writes itself as JSON or as a page."""

    _title: ClassVar[str]

    @property
    @abstractmethod
    def _contents(self) -> Contents: ...

    def __repr__(self) -> str:  # here: IPython prefers the repr of a class to the pretty printer of its base
        return f"<pinprof {self._contents.summary}; print it>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002  IPython's protocol
        """Print the text where IPython runs in a terminal."""
        printer.text(str(self))

    def to_json(self) -> str:
        """Return the report as JSON."""
        return self._contents.json()

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the report, as what the path ends with: .html or .json.

        Raises PinprofError for other names, if `path` exists and `force` is not set, or if it is its trace.
        """
        formats = {".html": self._contents.page, ".json": self._contents.json}
        suffix = Path(path).suffix.lower()
        if suffix not in formats:
            raise PinprofError(f"{os.fspath(path)}: give a name that ends with {' or '.join(formats)}")
        traces = [trace for profile in self._contents.profiles if (trace := local_path(profile.path))]
        check_outputs([str(Path(path).absolute())], traces, force=force, way="overwrite it with force=True")
        write_whole(Path(path), formats[suffix]())

    def _repr_html_(self) -> Markup:
        """Return the page in its own frame, so that neither its styles nor its scripts affect the notebook."""
        return framed(self._contents.page(), self._title)

    def to_html(self) -> str:
        """Return the page with its interactive timelines."""
        return str(self._contents.page())  # not as Markup, which escapes what is compared with it
