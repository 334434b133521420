"""The recordings in traces/, each read, analysed and reported on once per process: dozens of tests look at each."""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pytest

from pinprof.analysis import Analysis, analyse
from pinprof.details import Details, details_of
from pinprof.measurement.measure import profile_of
from pinprof.measurement.profile import Profile
from pinprof.ranks.rank import RankPart, measure_rank
from pinprof.replay import Replay
from pinprof.report.html import Markup
from pinprof.report.trace import text
from pinprof.report.trace.json import traces_to_json
from pinprof.report.trace.page import to_html
from pinprof.trace import Trace, read_trace

ROOT = Path(__file__).parents[1]
TRACES = ROOT / "traces"
WORKLOADS = sorted(TRACES.glob("*.json.gz"))
"""Of the workloads, which have a known answer."""
RECORDINGS = sorted(TRACES.rglob("*.json.gz"))
"""All of them: also of experiments, pairs of programs, and ranks."""
ON_THE_HOST = frozenset(
    TRACES / "experiments" / f"{name}.json.gz"
    for name in ("e1.pageable-pin_memory", "e15.allocate-pageable", "e15.allocate-pinned", "e15.allocate-pinned-again")
)
"""Experiments in which the GPU does nothing: they pin memory, and allocate it."""
OF_A_GPU = [path for path in RECORDINGS if path not in ON_THE_HOST]
CORPUS = ROOT.parent / "shared" / "corpus"
"""Traces of other makers, which are not part of this project."""
OF_OTHERS = sorted(CORPUS.glob("[!n]*.json.gz"))

CHOSEN = frozenset(
    TRACES / f"{name}.json.gz"
    for name in (
        *("pageable_blocking.stack", "mask_loss.stack", "loader_pinned", "small_kernels"),
        "causes/worker",
        "experiments/e10.prefetcher-pageable",  # a stream that waits for another one
        "experiments/e15.allocate-pinned",  # nothing on the GPU
        "pairs/everything_at_once.before",
        "pairs/two_gpus_item.before",
        "ranks/sleeping_rank.rank1.before",
        "runs/images.before",  # with all that `pinprof run` writes
        "serving/loop",
    )
) | {CORPUS / f"hta_{name}.json.gz" for name in ("rocm_mi250", "event_sync_multi_stream")}
"""Twelve that stand for all recordings in every run of the tests, and two of other makers."""


def each_recording(values: Sequence[Any], name: Callable[[Any], str] = lambda path: path.name) -> list[Any]:
    """Return parameters of a test that looks at each of these recordings, paths or names.

    Those that are not among the chosen ones are looked at each night alone: with --recordings, or -m recordings.
    """
    return [
        pytest.param(value, id=name(value), marks=[] if TRACES / value in CHOSEN else [pytest.mark.recordings])
        for value in values
    ]


@cache
def trace_of(path: Path) -> Trace:
    return read_trace(path)


@cache
def recorded_details(path: Path) -> Details:
    return details_of(trace_of(path))


@cache
def recorded_profile(path: Path) -> Profile:
    """Return what was measured, in a fifth of the time in which `analysis_of` looks for findings, too."""
    details = recorded_details(path)
    return profile_of(details, Replay([details]))


@cache
def analysis_of(path: Path) -> Analysis:
    return analyse(trace_of(path))


@cache
def rank_part_of(path: Path) -> RankPart:
    return measure_rank(trace_of(path))


@lru_cache(maxsize=2)  # tests come recording by recording
def page_of(path: Path) -> Markup:
    return to_html([analysis_of(path)])


@lru_cache(maxsize=2)
def json_of(path: Path) -> str:
    analysis = analysis_of(path)
    return traces_to_json([(analysis.profile, analysis.findings)])


@lru_cache(maxsize=2)
def full_text_of(path: Path) -> str:
    """Return the full report in lines that are as long as they like."""
    analysis = analysis_of(path)
    return text.trace_to_text(analysis.profile, analysis.findings, width=10_000)
