"""The traces of a job measured in processes of this machine and on a Dask cluster, where some die meanwhile."""

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
from unittest.mock import patch

import pytest
from bench_builder import H200, BenchBuilder, as_json, gbps
from command_line import copying_trace, invoke, is_one_line_error
from fitting import fitting
from msgspec.structs import replace
from trace_builder import TraceBuilder, without_known_events

import pinprof
from pinprof.bench.advice import pinning
from pinprof.errors import PinprofError, TraceError
from pinprof.processes import children_of
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


def test_processes_and_this_one_measure_the_same(tmp_path: Path) -> None:
    paths = written(tmp_path, 3)
    here = {path: outcome for each in paths for path, outcome in measure_files([each])}
    assert bytes_of(dict(measure_files(paths, workers=2))) == bytes_of(here)


SLOW = BenchBuilder(replace(H200, gpu="slow")).add("E13", gbps("HtoD pinned", 4096, 0.5)).build()
"""Of a machine on which a MB takes 2 ms, longer than a step of these traces."""


def copying(folder: Path) -> list[str]:
    """Write traces whose copies are worth pinning at usual rates."""
    copies = [folder / str(number) for number in range(3)]
    for copy in copies:
        copy.mkdir()
    return [str(copying_trace(copy)) for copy in copies]


def savings(outcomes: Iterable[tuple[str, RankPart | PinprofError]]) -> list[float]:
    parts = [part for _, part in outcomes if isinstance(part, RankPart)]
    findings = [finding for part in parts for finding in part.findings if finding.rule.family == "copies"]
    return [finding.saving.saving_ns for finding in findings if finding.saving]


@pytest.mark.slow
def test_processes_are_given_the_machine(tmp_path: Path) -> None:
    paths = copying(tmp_path)
    assert min(savings(measure_files(paths, workers=2))) > 0
    assert savings(measure_files(paths, workers=2, machine=pinning(SLOW))) == [0, 0, 0]
    assert savings(measure_files(paths[:1], machine=pinning(SLOW))) == [0]


@pytest.mark.slow
def test_a_program_without_a_guard_can_measure(tmp_path: Path) -> None:
    """`multiprocessing` would run it again in every process."""
    paths = written(tmp_path, 2)
    program = tmp_path / "program.py"
    program.write_text(f"from pinprof.trace_pool import measure_files\nprint(len(dict(measure_files({paths}))))\n")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert done.stdout == "2\n"


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


# A Dask cluster


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Return a client of a cluster of three processes."""
    from distributed import Client, LocalCluster  # noqa: PLC0415  slow to load

    with (
        patch.dict(os.environ),  # Dask sets variables, with which `warm` would start a new Python for each program
        LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=":0", memory_limit=0) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.mark.slow
def test_a_cluster_whose_worker_is_killed_meanwhile_measures_all(client: Any, tmp_path: Path, endless: Path) -> None:
    paths = written(tmp_path)
    broken = tmp_path / "broken.json"
    broken.write_text("<html>")
    workers = client.run(os.getpid).values()
    outcomes = measure_files([str(endless), *paths, str(broken)], client=client)
    measured = dict([next(outcomes)])
    (reader,) = until(lambda: readers(endless, workers))
    endless.rename(tmp_path / "endless")
    without_known_events().write(endless)  # what the next worker finds
    os.kill(reader, signal.SIGKILL)
    measured |= dict(outcomes)
    assert isinstance(measured.pop(str(endless)), RankPart)
    assert bytes_of(measured) == bytes_of(dict(measure_files([*paths, str(broken)], workers=2)))
    assert "is not JSON" in str(measured[str(broken)])
    assert client.status == "running"


@pytest.mark.slow
def test_what_is_not_asked_for_any_more_is_not_measured(client: Any, tmp_path: Path, endless: Path) -> None:
    outcomes = measure_files([*written(tmp_path, 3), str(endless)], client=client)
    next(outcomes)
    outcomes.close()
    until(lambda: not client.futures)


@pytest.mark.slow
def test_a_report_from_a_cluster_is_that_from_this_machine(client: Any, tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "broken.json").write_text("<html>")
    here = invoke("report", tmp_path)
    there = invoke("report", tmp_path, "--scheduler", client.scheduler.address)
    assert there.exit_code == here.exit_code == 0
    assert there.stdout == here.stdout
    assert there.stderr == here.stderr
    assert f"{RANKS} ranks of one job" in there.stdout


@pytest.mark.slow
def test_a_program_measures_a_job_with_a_client_of_its_own(client: Any, tmp_path: Path) -> None:
    written(tmp_path, 3)
    (tmp_path / "broken.json").write_text("<html>")
    file = tmp_path / "machine" / "bench.json"
    file.parent.mkdir()
    file.write_text(as_json(SLOW))
    report = pinprof.load(tmp_path, client=client, machine=file)
    assert isinstance(report, pinprof.JobReport)
    assert report.parts[0].findings.machine == "slow"  # the workers are given the machine
    report = pinprof.load(tmp_path, client=client)
    assert isinstance(report, pinprof.JobReport)
    assert str(report) == str(pinprof.load(map(Path, sorted(tmp_path.glob("*.gz"))), jobs=2))
    assert str(report).startswith("3 ranks of one job\n")
    assert [row.rank for row in report.ranks.rows] == [0, 1, 2]
    assert list(report.skipped) == [str(tmp_path / "broken.json")]
    assert client.status == "running"
    report.save(tmp_path / "job.json")
    assert fitting((tmp_path / "job.json").read_text())["ranks"]["world_size"] == 3


def test_what_is_no_job_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text("<html>")
    with pytest.raises(TraceError, match="is not JSON"):
        pinprof.load(tmp_path)
    (path,) = written(tmp_path, 1)
    report = pinprof.load([path])
    assert not isinstance(report, pinprof.JobReport)
    assert pinprof.load(tmp_path).profile.path == report.profile.path


@pytest.mark.slow
def test_workers_without_this_version_are_said_in_one_line(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pinprof.trace_pool.VERSION", "99.0")
    with pytest.raises(
        PinprofError, match=r"^the Dask worker tcp://\S+ does not have pinprof 99.0 but 0.1.0; install it on"
    ):
        dict(measure_files(written(tmp_path, 2), client=client))


@pytest.mark.slow
def test_a_cluster_without_workers_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import Client, LocalCluster  # noqa: PLC0415  slow to load

    monkeypatch.setattr("pinprof.trace_pool.WORKER_SECONDS", 0.2)
    with (
        LocalCluster(n_workers=0, dashboard_address=":0", processes=False) as cluster,
        Client(cluster) as client,
        pytest.raises(PinprofError, match="has no workers"),
    ):
        dict(measure_files(written(tmp_path, 2), client=client))


@pytest.mark.slow
def test_an_address_without_scheduler_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pinprof.trace_pool.ANSWER_SECONDS", 1)
    written(tmp_path, 2)
    result = invoke("report", tmp_path, "--scheduler", "tcp://127.0.0.1:1")
    assert is_one_line_error(result)
    assert result.stderr.startswith("Error: tcp://127.0.0.1:1: no Dask scheduler answers there (")
