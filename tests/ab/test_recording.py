"""A run of each version is recorded for as long as was asked for, if it has the steps."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pinprof.ab.recording import NeverRecordedError, RecordedChanges, record, record_one
from pinprof.ab.worker import AUTO, ProgramVersion, StepOptions
from pinprof.trace import read_trace
from pinprof.trace.run_log import PLAIN

PROGRAM = """
import sys, time, torch
from torch.utils.data import DataLoader
weight = torch.nn.Parameter(torch.zeros(4))
optimizer = torch.optim.SGD([weight], lr=0.1)
loader = DataLoader(torch.arange(60.0), batch_size=1)
for _ in range(int(sys.argv[1])):
    for x in loader:
        (weight * x).sum().backward()
        optimizer.step()
        time.sleep(0.003)
"""

pytestmark = pytest.mark.usefixtures("warm")


@pytest.mark.slow
@pytest.mark.parametrize(("epochs", "fewest", "most"), [(8, 60, 400), (1, 20, 59)])
def test_the_first_epoch_is_taken_for_the_last_only_if_it_is(
    epochs: int, fewest: int, most: int, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    program = ProgramVersion("before", (sys.executable, "train.py", f"{epochs}"), tmp_path)
    path, _ = record_one(program, StepOptions(max_warmup=10), tmp_path / "out", seconds=1.0)
    run = read_trace(str(path)).run
    assert run is not None
    assert fewest <= sum(count for window, count in run.windows if window == PLAIN) <= most


def test_an_interruption_leaves_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pinprof.ab.recording.record_one", interrupted)
    test = SimpleNamespace(judgement=SimpleNamespace(ratio=1.1))
    measurement: Any = SimpleNamespace(programs=[ProgramVersion(name, (), tmp_path) for name in "ab"], test=test)
    assert record(measurement, AUTO, tmp_path) == RecordedChanges(None, "interrupted", (), ())


def test_a_program_that_fails_runs_once(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('ran', file=open('ran.txt', 'a')); raise ValueError('no data')")
    program = ProgramVersion("before", (sys.executable, "train.py"), tmp_path)
    with pytest.raises(NeverRecordedError, match=r"it could not be recorded: the program failed .*no data"):
        record_one(program, AUTO, tmp_path / "out", seconds=1.0)
    assert (tmp_path / "ran.txt").read_text() == "ran\n"
