"""Reports as objects: they print as text, show themselves in a notebook, write themselves, and give their numbers."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from msgspec import json

from pinprof.documents.report import TraceJson
from pinprof.ground.errors import PinprofError
from pinprof.ground.outputs import check_outputs, write_whole
from pinprof.ground.urls import local_path
from pinprof.measurement.figures import FIGURES
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import FIGURE_KINDS
from pinprof.report.html import Markup
from pinprof.report.page import framed

SCALAR_PREFIX = "pinprof/"
"""Trackers group numbers by the part before a slash."""
PREDICTED_PATHS = ("verdict/ms", "verdict/fraction", "joint/saving_ms", "joint/predicted_step_ms")
RANGE_PATHS = ("steps/range_ms", "joint/range_ms")
SEARCHED_KINDS = FIGURE_KINDS.keys() - {"estimate"}
"""The kinds of figures that rules need: without one of them, nobody knows how many findings there are."""


class Contents(NamedTuple):
    """What a report shows and writes."""

    summary: str
    """For its one-line repr."""
    profiles: Iterable[Profile]
    """Of the traces that it is about."""
    json: Callable[[], str]
    page: Callable[[], str]
    markdown: Callable[[], str] = str


class ReportObject(ABC):
    """A report that prints as text, shows itself as a page in a notebook, and writes itself as JSON or as a page."""

    _title: ClassVar[str]

    if not TYPE_CHECKING:  # else no misspelled name would be an error of types

        def __getattr__(self, name: str) -> Any:
            """Say which names there are in place of one that does not exist."""
            names = [known for known in dir(type(self)) if not known.startswith("_")]
            if name.startswith("_") or name in names:  # a protocol's, or a property that raised AttributeError itself
                return object.__getattribute__(self, name)
            raise AttributeError(f"a {self._title} has no {name}; it has {', '.join(names)}")

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


def scalars_of(trace: TraceJson) -> dict[str, float]:
    """Return the numbers of a trace's document by their places in it, as trackers of experiments take them.

    Those that the trace does not tell are left out, and never 0.
    """
    return {f"{SCALAR_PREFIX}{name}": float(value) for name, value in _named(trace) if value is not None}


def _named(trace: TraceJson) -> Iterator[tuple[str, float | None]]:
    for path in (*(figure.path for figure in FIGURES), *PREDICTED_PATHS):
        yield path, _value_at(trace, path)
    for path in RANGE_PATHS:
        for end, value in zip(("low", "high"), _value_at(trace, path) or (), strict=False):
            yield f"{path}/{end}", value
    if all(SEARCHED_KINDS.isdisjoint(lack.invalidates) for lack in trace.missing):
        yield "findings/count", len(trace.findings)
    first_of_rule = {finding.rule: finding for finding in reversed(trace.findings)}  # it has the largest saving
    for rule, finding in first_of_rule.items():
        yield f"findings/{rule}/saving_ms", finding.saving_ms
        yield f"findings/{rule}/at_most_ms", finding.at_most_ms


def _value_at(trace: TraceJson, path: str) -> Any:
    """Return what stands at a place in the document; None if it, or an object around it, is null."""
    value: Any = trace
    for name in path.split("/"):
        value = None if value is None else getattr(value, name)
    return value
