"""The program of some steps of a trace."""

import pytest
from trace_builder import TraceBuilder

from pinprof.details import details_of
from pinprof.replay.building import build_program

US = 1_000


@pytest.mark.parametrize(("steps", "gaps"), [(None, [100, 600, 310, 10, 1080, 600]), ({0, 2}, [100, 600, 390, 600])])
def test_the_pause_at_the_end_of_a_step_that_is_left_out_is_left_out(steps: set[int] | None, gaps: list[int]) -> None:
    builder = TraceBuilder()
    for step, begin in enumerate(builder.steps(3)):
        for offset in (10, 20) if step == 1 else (100, 700):
            builder.kernel(begin + offset + 20, 50, launch=begin + offset)
    details = details_of(builder.read())
    program = build_program(details.trace, details.syncs.stalls, details.loader.times, 1.0, steps)
    assert [call.gap_ns for call in program.calls] == pytest.approx([gap * US for gap in gaps])
