"""The traces of a job measured in processes, where some die meanwhile."""

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from bench_builder import H200, BenchBuilder, as_json, gbps
from fitting import fitting
from msgspec.structs import replace
from trace_builder import TraceBuilder

import pinprof
from pinprof.ground.errors import PinprofError
from pinprof.ground.processes import children_of
from pinprof.ranks.rank import RankPart
from pinprof.trace_pool import measure_files

RANKS = 24
WAIT_SECONDS = 300
PAGEABLE = "HtoD (Pageable -> Device)"


def written(folder: Path, count: int = RANKS) -> list[str]:
    """Write the traces of a job: each step copies, of each rank for another time."""
    paths = []
    for rank in range(count):
        builder = TraceBuilder()
        builder.metadata["distributedInfo"] = {"rank": rank, "world_size": count}
        for start in builder.steps(4):
            builder.copy(PAGEABLE, start + 20, 100 + rank, launch=start + 10)
            builder.kernel(start + 700, 100, launch=start + 690)
        paths.append(str(builder.write(folder / f"rank{rank}.json.gz")))
    return paths


def bytes_of(outcomes: dict[str, RankPart | PinprofError]) -> dict[str, object]:
    """Return what was measured as what does not depend on the process; of errors their texts."""
    return {path: str(each) if isinstance(each, PinprofError) else sent(each) for path, each in outcomes.items()}


def sent(part: RankPart) -> bytes:
    """Return the pickle of a part that was sent before: only of such parts the same texts are the same objects."""
    return pickle.dumps(pickle.loads(pickle.dumps(part)))


def until(condition: Callable[[], Any]) -> Any:
    """Return what the condition gives as soon as that is something."""
    end = time.monotonic() + WAIT_SECONDS
    while not (value := condition()):
        assert time.monotonic() < end, "this did not come"
        time.sleep(0.02)
    return value


def readers(path: Path, pids: Iterable[int]) -> list[int]:
    """Return those of the processes that have a file open; one that has yet to become another program has ours."""
    open_in = []
    for pid in pids:
        with suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes() == Path("/proc/self/cmdline").read_bytes():
                continue
            open_in += [pid for link in Path(f"/proc/{pid}/fd").iterdir() if link.readlink() == path]
    return open_in


def kill_reader(path: Path) -> None:
    (reader,) = until(lambda: readers(path, children_of(os.getpid())))
    os.kill(reader, signal.SIGKILL)
    until(lambda: reader not in readers(path, children_of(os.getpid())))


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[Path]:
    """Return a file whose reader waits for more: there a process can be met while it reads."""
    path = tmp_path / "rank99.json"
    os.mkfifo(path)
    held = os.open(path, os.O_RDWR)
    yield path
    os.close(held)


# Processes of this machine


@pytest.mark.slow
def test_a_process_that_is_killed_costs_its_file_only(tmp_path: Path, endless: Path) -> None:
    paths = [str(endless), *written(tmp_path, 6)]
    outcomes: dict[str, RankPart | PinprofError] = {}
    measuring = Thread(target=lambda: outcomes.update(measure_files(paths, workers=2)), daemon=True)
    measuring.start()
    for _ in range(2):  # it is tried twice
        kill_reader(endless)
    measuring.join(WAIT_SECONDS)
    assert not measuring.is_alive()
    death = outcomes.pop(str(endless))
    assert str(death) == f"{endless}: the process that read it died, perhaps because memory ran out"
    assert set(outcomes) == set(paths[1:])
    assert not any(isinstance(outcome, PinprofError) for outcome in outcomes.values())


@pytest.mark.slow
def test_processes_and_this_one_measure_the_same(tmp_path: Path) -> None:
    paths = written(tmp_path, 3)
    here = {path: outcome for each in paths for path, outcome in measure_files([each])}
    assert bytes_of(dict(measure_files(paths, workers=2))) == bytes_of(here)


SLOW = BenchBuilder(replace(H200, gpu="slow")).add("E13", gbps("HtoD pinned", 4096, 0.5)).build()
"""Of a machine on which a MB takes 2 ms, longer than a step of these traces."""


@pytest.mark.slow
def test_ctrl_c_ends_a_job_with_one_line_and_leaves_no_process(tmp_path: Path, endless: Path) -> None:
    paths = [*written(tmp_path, 2), endless]
    command = [sys.executable, "-m", "pinprof", "report", *map(str, paths), "--jobs", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        try:
            (reader,) = until(lambda: readers(endless, children_of(job.pid)))
            job.send_signal(signal.SIGINT)
            output, errors = job.communicate(timeout=WAIT_SECONDS)
        finally:
            job.kill()  # or a test that fails never ends
    assert (job.returncode, output, errors) == (130, "", "Error: interrupted\n")
    assert not Path(f"/proc/{reader}").exists()


# In Python


@pytest.mark.slow
def test_a_program_measures_a_job(tmp_path: Path) -> None:
    written(tmp_path, 3)
    (tmp_path / "broken.json").write_text("<html>")
    file = tmp_path / "machine" / "bench.json"
    file.parent.mkdir()
    file.write_text(as_json(SLOW))
    report = pinprof.load(tmp_path, jobs=2, machine=file)
    assert isinstance(report, pinprof.JobReport)
    assert report.parts[0].findings.machine == "slow"  # the processes are given the machine
    report = pinprof.load(map(Path, sorted(tmp_path.glob("*.*"))), jobs=2)
    assert isinstance(report, pinprof.JobReport)
    assert str(report).startswith("3 ranks of one job\n")
    assert [row.rank for row in report.ranks.rows] == [0, 1, 2]
    assert list(report.skipped) == [str(tmp_path / "broken.json")]
    report.save(tmp_path / "job.json")
    assert fitting((tmp_path / "job.json").read_text())["ranks"]["world_size"] == 3
