"""The recordings in traces/, each read and analysed once per process: dozens of tests look at every one of them."""

from functools import cache
from pathlib import Path

from pinprof.analysis import Analysis, analyse
from pinprof.trace import Trace, read_trace

ROOT = Path(__file__).parents[1]
TRACES = ROOT / "traces"
WORKLOADS = sorted(TRACES.glob("*.json.gz"))
"""Of the workloads, which have a known answer."""
RECORDINGS = sorted(TRACES.rglob("*.json.gz"))
"""All of them: also of experiments, pairs of programs, and ranks."""
CORPUS = ROOT.parent / "shared" / "corpus"
"""Traces of other makers, which are not part of this project."""
OF_OTHERS = sorted(CORPUS.glob("[!n]*.json.gz"))


@cache
def trace_of(path: Path) -> Trace:
    return read_trace(path)


@cache
def analysis_of(path: Path) -> Analysis:
    return analyse(trace_of(path))
