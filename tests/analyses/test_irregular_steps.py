"""Steps with something else in them do not make the step of the others."""

import pytest
from msgspec import to_builtins
from trace_builder import TraceBuilder

from pinprof.analyses.step_parts import measure_communication
from pinprof.details import Details, details_of
from pinprof.measurement.measure import measure
from pinprof.replay import Replay
from pinprof.trace.collectives import match_collectives
from pinprof.trace.metadata.run_log import EVALUATION, RUN_KEY, IrregularWork, RunLog


def steps_of(*lengths: float, work: tuple[float, ...] = ()) -> TraceBuilder:
    """Return a trace of steps of these µs; the GPU works for 100 µs of each, or as `work` says."""
    builder, start = TraceBuilder(), 0.0
    for number, length in enumerate(lengths):
        builder.step(number, start, length - 10)
        busy = work[number] if work else 100.0
        builder.kernel(start + 20, busy, launch=start + 10)
        start += length
    return builder


def details(builder: TraceBuilder) -> Details:
    return details_of(builder.read())


def test_a_long_step_among_usual_ones_is_left_out() -> None:
    measured = details(steps_of(1000, 1010, 9000, 990, 1000, 1000))
    (long,) = measured.irregular
    assert (long.step, long.time_ns, long.reason) == (2, 9_000_000, "host")
    assert measured.trace.steps.complete.tolist() == [True, True, False, True, True, True]
    assert measured.steps.count == 5
    assert measured.steps.host_ns == pytest.approx(1_000_000, rel=0.01)
    assert measured.steps.device_ns == pytest.approx(1_000_000, rel=0.01)


@pytest.mark.parametrize(
    "lengths",
    [
        (1000, 1000, 1400, 1000, 1000, 1000),  # a log line
        (1000, 3000, 1000, 3000, 1000, 3000, 1000),  # of two kinds
        (500, 900, 1700, 3000, 4500, 900),  # no usual step
        (1000, 9000),  # too few
    ],
)
def test_steps_that_only_scatter_all_count(lengths: tuple[float, ...]) -> None:
    measured = details(steps_of(*lengths))
    assert measured.irregular == ()
    assert measured.trace.steps.complete.all()


def test_the_report_tells_of_it() -> None:
    profile = measure(steps_of(1000, 1010, 9000, 990, 1000, 1000).read())
    (doubt,) = (doubt for doubt in profile.doubts if doubt.check == "irregular_steps")
    assert doubt.what == "1 step of 6 unlike the others (step 2 takes 9.00 ms instead of 1.00 ms)"
    assert "adds 1.33 ms per step to the mean" in doubt.effect
    assert doubt.level == "unsure"
    assert profile.steps.traced_ns == pytest.approx(1_000_000, rel=0.01)


@pytest.mark.parametrize(
    ("off_cpu_us", "reason", "words"),
    [(7000, "off_cpu", "the machine was busy there"), (3000, "host", "nothing that was recorded says why")],
)
def test_a_busy_machine_is_told_where_it_was_noted(off_cpu_us: int, reason: str, words: str) -> None:
    builder = steps_of(1000, 1010, 9000, 990, 1000, 1000)
    off_cpu = [0] * 10
    off_cpu[6] = off_cpu_us * 1000
    log = RunLog(0, (("warm-up", 4), ("recorded", 6)), *((0,) * 10,) * 4, 0, off_cpu_ns=tuple(off_cpu))
    builder.metadata[RUN_KEY] = to_builtins(log)
    assert [step.reason for step in details(builder).irregular] == [reason]
    (doubt,) = (doubt for doubt in measure(builder.read()).doubts if doubt.check == "irregular_steps")
    assert words in doubt.effect


@pytest.mark.parametrize(("noted", "left_out"), [((0, 2, 4), [0, 2]), ((1, 3), []), ((), [])])
def test_where_half_of_the_steps_evaluate_only_the_other_half_are_usual(
    noted: tuple[int, ...], left_out: list[int]
) -> None:
    """The last step has no end; what is noted in steps that are not longer leaves none out."""
    builder = steps_of(4000, 1000, 4100, 1010, 4000)
    windows = (("plain", 5), ("recorded", 5))
    work = tuple(IrregularWork(5 + at, EVALUATION) for at in noted)
    builder.metadata[RUN_KEY] = to_builtins(RunLog(0, windows, *((0,) * 10,) * 4, 0, work=work))
    measured = details(builder)
    assert [step.step for step in measured.irregular] == left_out
    assert {step.usual_ns for step in measured.irregular} <= {1_005_000}


def test_a_step_that_is_unlike_the_others_on_one_rank_is_left_out_on_all() -> None:
    """Steps of 1000 µs with a collective that ends at 800; on rank 1 the host of the third one needs 9000 more."""
    ranks = []
    for rank in range(2):
        builder, start = TraceBuilder(), 0
        builder.metadata["distributedInfo"] = {"rank": rank, "world_size": 2}
        for step in range(7):
            builder.step(step, start, 990)
            builder.collective(start + 20, 780, launch=start + 10, stream=20)
            start += 10_000 if rank == 1 and step == 2 else 1000
        ranks.append(details(builder))
    first, second = (rank.trace for rank in ranks)
    assert (len(ranks[0].irregular), len(ranks[1].irregular)) == (0, 1)
    left_out = ranks[1].irregular[0].step
    tables = [measure_communication(trace).collectives for trace in (first, second)]
    meetings = match_collectives(tables)
    assert len(meetings) == int(second.steps.complete.sum())
    for meeting in meetings:
        of_ranks = [
            int(trace.links.activity_step[table.row[meeting[rank]]])
            for rank, (trace, table) in enumerate(zip((first, second), tables, strict=True))
        ]
        assert of_ranks[0] == of_ranks[1] != left_out
    chosen = Replay(ranks).replayed_steps
    assert chosen[0] == chosen[1]
    assert left_out not in chosen[0]
