"""The parts of an experiment: its sizes and cases, the figures that its text publishes, and the claims to judge."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pinprof.bench.judging import Judge, NotJudged

SOURCES = {
    "tutorial": "the PyTorch tutorial on pin_memory() and non_blocking",
    "article": "an article on pinned memory in data loading",
    "question": "a question on prefetching",
    "answer": "answers to a question on prefetching",
    "processes": "an article that times pinned against pageable memory over several processes",
    "pinprof": "pinprof; no text says so",
}
"""The texts that make claims, by a short name."""
TUTORIAL, ARTICLE, QUESTION, ANSWER, PROCESSES, OURS = SOURCES

MIB = 1024**2
GIB = 1024**3


@dataclass(frozen=True)
class Size:
    """One option of an experiment."""

    name: str
    default: int
    """The size if no other is chosen."""
    means: str
    quick: int | None = None
    """The size with `--quick`, if the default takes too long."""
    of_text: bool = True
    """Whether the text has this default; otherwise it has another size, or none."""


@dataclass(frozen=True)
class Published:
    """One figure that the text gives: its name and unit are those of `pinprof.bench.results.Figure`."""

    figure: str
    value: float
    size: int | None = None


@dataclass(frozen=True)
class Claim:
    """One statement of a text, in other words, with its judge or the reason why figures cannot judge it."""

    text: str
    sources: tuple[str, ...]
    """Which texts claim it: keys of SOURCES."""
    judge: Judge | NotJudged
    shows: str = ""
    """The text's own evidence, besides the experiment's figures."""
    differs: str = ""
    """Why the outcome may differ from that of the text."""


@dataclass(frozen=True)
class Experiment:
    """A program of a published text, to be run again on this machine."""

    number: str
    """`E1` to `E15`."""
    name: str
    summary: str
    claims: tuple[Claim, ...]
    published: tuple[Published, ...] = ()
    sizes: tuple[Size, ...] = ()
    cases: tuple[str, ...] = ()
    """Its cases that can be recorded, each as a trace."""
    changed: str = ""
    """How the experiment differs from the text, and why."""

    def defaults(self, *, quick: bool = False) -> dict[str, int]:
        """Return the sizes that it runs with by default."""
        return {size.name: size.quick if quick and size.quick is not None else size.default for size in self.sizes}

    def texts_sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return those of the text's own sizes that differ from these."""
        return {
            size.name: size.default
            for size in self.sizes
            if size.of_text and sizes.get(size.name, size.default) != size.default
        }

    def published_at(self, sizes: Mapping[str, int]) -> dict[str, float]:
        """Return the published values by figure; none where these sizes differ from the text's own."""
        return {} if self.texts_sizes(sizes) else {figure.figure: figure.value for figure in self.published}

    @property
    def sources(self) -> tuple[str, ...]:
        """The texts of its claims, without pinprof's own."""
        return tuple(dict.fromkeys(source for claim in self.claims for source in claim.sources if source != OURS))


def traces_of(path: Path, processes: int) -> list[Path]:
    """Return the path of the trace of each process of a case that several record: `e12.process0.json.gz` and so on."""
    stem, dot, suffix = path.name.partition(".json")
    return [path.with_name(f"{stem}.process{number}{dot}{suffix}") for number in range(processes)]


def resized(experiment: Experiment, chosen: Mapping[str, int]) -> Experiment:
    """Return the experiment with the chosen sizes in place of its own, quick or not."""
    sizes = (
        replace(size, default=chosen[size.name], quick=None) if size.name in chosen else size
        for size in experiment.sizes
    )
    return replace(experiment, sizes=tuple(sizes))
