"""Jobs of several ranks, recorded as a user records them: by torchrun, here on the CPU."""

import gzip
import json
import os
import re
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from warm_python import warm_python

pytestmark = pytest.mark.slow  # each test is a job of two processes

MEASURED = re.compile(r"\b[345] complete steps")
"""Of five recorded steps: on a busy machine one or two may take so long that they are left out as unlike the others."""
ROOT = Path(__file__).parents[2]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
RUN = ["-m", "pinprof", "run", "-o", "run/"]
SOON = ("--warmup", "4")

SETUP = """
import os, time
import torch, torch.distributed
from torch.nn.parallel import DistributedDataParallel

RANK = int(os.environ["RANK"])
torch.distributed.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train(steps):
    for step in range(1, steps + 1):
        before(step)
        optimizer.zero_grad()
        model(torch.ones(2, 16)).sum().backward()
        optimizer.step()

def before(step):
    time.sleep(0.002)

"""


LOADERS = """
def loader(batches):
    return torch.utils.data.DataLoader([torch.ones(16)] * batches)

if RANK == 0:
    for batch in loader(30):
        model.module(batch)
for batch in loader(100000):
    before(0)
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
"""


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str
    traces: dict[int, dict[str, Any]]
    """What each rank has written."""

    def agreed(self, key: str) -> Any:
        """Return what pinprof has written under this key into all traces alike."""
        values = [trace["pinprof"][key] for trace in self.traces.values()]
        assert all(value == values[0] for value in values), values
        return values[0]


def record(folder: Path, source: str, *options: str, launcher: Sequence[str] = TORCHRUN, timeout: float = 180) -> Ran:
    (folder / "train.py").write_text(source)
    done = subprocess.run(
        [warm_python(), *launcher, *RUN, *options, "train.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    return Ran(done.returncode, done.stdout, done.stderr, traces_in(folder / "run"))


def traces_in(folder: Path) -> dict[int, dict[str, Any]]:
    paths = {rank: folder / f"pinprof-train.rank{rank}.json.gz" for rank in range(2)}
    return {rank: json.loads(gzip.decompress(path.read_bytes())) for rank, path in paths.items() if path.exists()}


def test_ranks_record_the_same_steps_though_one_is_steady_later_and_report_together(tmp_path: Path) -> None:
    slow = "def before(step):\n    time.sleep(0.004 * step if RANK == 1 and step < 30 else 0.002)\n\n"
    ran = record(tmp_path, SETUP + slow + "train(100000)\nprint('finished')", "--job-report")
    assert ran.status == 0, ran.err
    assert "finished" not in ran.out
    assert ran.agreed("steps_before") > 30
    assert ran.agreed("apart") is None
    assert ran.agreed("marker") == "optimizer step (SGD)"
    assert len({trace["pinprof"]["plain"]["steps"] for trace in ran.traces.values()}) == 1
    assert [trace["distributedInfo"]["rank"] for trace in ran.traces.values()] == [0, 1]
    assert ran.out.startswith("2 ranks of one job")
    assert len(MEASURED.findall(ran.out)) == 1
    assert "to report on them again: pinprof report run/" in ran.err
    assert {path.suffix for path in (tmp_path / "run").iterdir()} == {".gz", ".html"}
    assert (tmp_path / "run" / "pinprof-train.html").exists()


def test_steps_are_numbered_alike_though_rank_0_evaluates_first(tmp_path: Path) -> None:
    ran = record(tmp_path, SETUP + LOADERS, *SOON)
    assert ran.status == 0, ran.err
    assert ran.agreed("steps_before") > 8
    assert "pinprof report run/" in ran.err
    assert len(MEASURED.findall(ran.out)) == 1


def test_a_job_is_ended_by_the_failure_of_one_rank_like_without_pinprof(tmp_path: Path) -> None:
    fails = "def before(step):\n    if RANK == 1 and step == 8:\n        raise ValueError('boom')\n\n"
    ran = record(tmp_path, SETUP + fails + "train(100000)", *SOON, "--job-report")
    assert ran.status != 0
    assert "ValueError: boom" in ran.err
    assert ran.traces == {}


def test_uneven_data_ends_no_rank_early_and_hangs_none(tmp_path: Path) -> None:
    source = "with model.join():\n    train(60 if RANK == 0 else 40)\nprint('finished', RANK)"
    options = (*SOON, "--steps", "20")  # with 20 timed ones, they end after the data of rank 1 does
    ran = record(tmp_path, SETUP + source, *options, "--job-report")
    assert ran.status == 0, ran.err
    assert ran.out.count("finished") == 2
    assert ran.agreed("steps_before") < 40
    assert "2 ranks of one job" in ran.out


def test_a_rank_that_ends_before_the_windows_leaves_the_others_theirs(tmp_path: Path) -> None:
    source = "with model.join():\n    train(200 if RANK == 0 else 6)\n"
    ran = record(tmp_path, SETUP + source, *SOON, "--job-report")
    assert ran.status == 0, ran.err
    assert list(ran.traces) == [0]
    assert "Rank 1: the program ended after 3 steps, before one was recorded" in ran.err
    assert "Rank 1: recorded nothing" in ran.err
    assert "Rank 0 may have recorded other steps than the other ranks: not all ranks were ready" in ran.err
    assert MEASURED.search(ran.out)


def test_the_recording_of_one_rank_may_fail(tmp_path: Path) -> None:
    breaks = (
        "def broken(*_): raise OSError('disk full')\n"
        "if RANK == 1:\n    torch.profiler.profile.export_chrome_trace = broken\n"
    )
    ran = record(tmp_path, SETUP + breaks + "train(100000)", *SOON, "--job-report")
    assert ran.status == 0, ran.err
    assert "Rank 1: the recording could not be finished: disk full" in ran.err
    assert list(ran.traces) == [0]
    assert MEASURED.search(ran.out)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def launch(folder: Path, source: str, *options: str) -> list[subprocess.CompletedProcess[str]]:
    """Run two ranks as a launcher that has no store: the process group makes one, if there is a process group."""
    (folder / "train.py").write_text(source)
    ranks = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    started = [
        subprocess.Popen(
            [warm_python(), *RUN, *options, "train.py"],
            cwd=folder,
            env={**os.environ, **ranks, "PYTHONPATH": str(ROOT), "RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=180) for process in started]
    return [
        subprocess.CompletedProcess(process.args, process.returncode, *output)
        for process, output in zip(started, outputs, strict=True)
    ]


def test_without_torchrun_the_store_of_the_process_group_serves(tmp_path: Path) -> None:
    first, second = launch(tmp_path, SETUP + "train(100000)", *SOON, "--job-report")
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    traces = traces_in(tmp_path / "run")
    assert len({trace["pinprof"]["steps_before"] for trace in traces.values()}) == 1
    assert [trace["pinprof"]["apart"] for trace in traces.values()] == [None, None]
    assert first.stdout.startswith("2 ranks of one job")


def test_without_any_store_each_rank_counts_for_itself(tmp_path: Path) -> None:
    source = "import pinprof, time\nfor _ in range(100000):\n    time.sleep(0.001); pinprof.step()"
    first, second = launch(tmp_path, source, *SOON, "--job-report")
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    traces = traces_in(tmp_path / "run")
    assert [trace["pinprof"]["steps_before"] for trace in traces.values()] == [4 + 20 + 2] * 2
    assert all("no store of torch.distributed" in trace["pinprof"]["apart"] for trace in traces.values())
    assert "Next, once all ranks have written theirs: pinprof report run/" in first.stderr
    assert MEASURED.search(first.stdout)
