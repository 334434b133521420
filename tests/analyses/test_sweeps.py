"""A report sweeps over the events of a trace once for each fact, however many analyses and rules need it."""

import cProfile
import pstats
from collections.abc import Callable
from types import CodeType

import pytest

from pinprof.analysis import analyse
from pinprof.measurement.trust.launches import launches_of
from pinprof.trace import callers, collectives, idle_times, links, phases, read_trace
from tests.recordings import TRACES

SWEEPS: list[Callable[..., object]] = [
    getattr(module, name).__wrapped__
    for module in (callers, collectives, idle_times, links, phases)
    for name in dir(module)
    if hasattr(getattr(module, name), "__wrapped__") and getattr(module, name).__module__ == module.__name__
] + [launches_of.__wrapped__]


@pytest.mark.parametrize("name", ["small_kernels.stack.json.gz", "launches/lstm.before.json.gz"])
def test_an_analysis_sweeps_once_for_each_fact(name: str) -> None:
    trace = read_trace(TRACES / name)
    with cProfile.Profile() as profile:
        analyse(trace)
    calls = {key: counts[1] for key, counts in pstats.Stats(profile).stats.items()}
    codes: dict[str, CodeType] = {sweep.__name__: sweep.__code__ for sweep in SWEEPS}
    made = {name: calls.get((code.co_filename, code.co_firstlineno, name), 0) for name, code in codes.items()}
    assert {"long_pauses", "long_ops", "python_in_nodes", "phase_of_calls", "launches_of"} <= {*made}
    assert set(made.values()) <= {0, 1} and sum(made.values()) >= 10, made
