"""Reports as objects: they print as text, show themselves in a notebook, and write themselves."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from msgspec import json

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
    _elsewhere: ClassVar[Mapping[str, str]] = {}
    """Names that people try, and what to call instead."""

    if not TYPE_CHECKING:  # else no misspelled name would be an error of types

        def __getattr__(self, name: str) -> Any:
            """Say what there is in place of a name that does not exist."""
            names = [known for known in dir(type(self)) if not known.startswith("_")]
            if name.startswith("_") or name in names:  # a protocol's, or a property that raised AttributeError itself
                return object.__getattribute__(self, name)
            close = get_close_matches(name, names, n=1) or [known for known in names if known in name.split("_")]
            instead = self._elsewhere.get(name) or (f"report.{close[0]}" if close else "")
            hint = f"take {instead}; " if instead else ""
            raise AttributeError(f"a {self._title} has no {name}; {hint}it has {', '.join(names)}")

    @property
    @abstractmethod
    def _contents(self) -> Contents: ...

    def __repr__(self) -> str:  # here: IPython prefers the repr of a class to the pretty printer of its base
        return f"<pinprof {self._contents.summary}; print it>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002  IPython's protocol
        """Print the text where IPython runs in a terminal."""
        printer.text(str(self))

    def to_json(self, path: str | os.PathLike[str] | None = None, *, force: bool = False) -> str:
        """Return the report as JSON, and write it to `path`, if given."""
        return self._written(self._contents.json(), path, force=force)

    def to_html(self, path: str | os.PathLike[str] | None = None, *, force: bool = False) -> str:
        """Return the page with its interactive timelines, and write it to `path`, if given."""
        return self._written(str(self._contents.page()), path, force=force)  # a Markup escapes what is compared with it

    def to_dict(self) -> dict[str, Any]:
        """Return what `to_json` returns, as a dictionary."""
        return json.decode(self.to_json(), type=dict[str, Any])

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the report, as what the path ends with: .html or .json.

        Raises PinprofError for other names, if `path` exists and `force` is not set, or if it is its trace.
        """
        formats = {".html": self.to_html, ".json": self.to_json}
        suffix = Path(path).suffix.lower()
        if suffix not in formats:
            raise PinprofError(f"{os.fspath(path)}: give a name that ends with {' or '.join(formats)}")
        formats[suffix](path, force=force)

    def _written(self, text: str, path: str | os.PathLike[str] | None, *, force: bool) -> str:
        if path is not None:
            traces = [trace for profile in self._contents.profiles if (trace := local_path(profile.path))]
            check_outputs([str(Path(path).absolute())], traces, force=force, way="overwrite it with force=True")
            write_whole(Path(path), text)
        return text

    def _repr_html_(self) -> Markup:
        """Return the page in its own frame, so that neither its styles nor its scripts affect the notebook."""
        return framed(self._contents.page(), self._title)
