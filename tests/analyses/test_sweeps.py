"""A report sweeps over the events of a trace once for each fact, however many analyses and rules need it."""

import cProfile
from types import CodeType

import pytest
from recordings import TRACES

from pinprof.analysis import analyse
from pinprof.measurement.trust import launches
from pinprof.trace import callers, collectives, links, read_trace
from pinprof.trace.spans import idle_times, phases

SWEEPS: dict[str, CodeType] = {
    name: vars(module)[name].__wrapped__.__code__
    for module in (callers, collectives, idle_times, launches, links, phases)
    for name in vars(module)
    if hasattr(vars(module)[name], "__wrapped__") and vars(module)[name].__module__ == module.__name__
}
"""The facts that are computed once for a trace."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["small_kernels.stack.json.gz", "launches/lstm.before.json.gz"])
def test_an_analysis_sweeps_once_for_each_fact(name: str) -> None:
    trace = read_trace(TRACES / name)
    with cProfile.Profile() as profile:
        analyse(trace)
    calls = {entry.code: entry.callcount for entry in profile.getstats()}
    made = {sweep: calls.get(code, 0) for sweep, code in SWEEPS.items()}
    assert max(made.values()) == 1, made
    assert sum(made.values()) >= 10, made
    assert {"long_pauses", "long_ops", "python_in_nodes", "phase_of_calls", "launches_of"} <= {*made}
