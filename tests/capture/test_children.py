"""Scripts whose children make the steps, run as a user runs them, on the CPU; and which processes are followed."""

import gzip
import json
import multiprocessing
import os
import subprocess
import time
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from forked_driver import forked
from warm_python import warm_python

from pinprof.capture.children.commands import may_make_steps

ROOT = Path(__file__).parents[2]
WINDOWS = ("--warmup", "4", "--steps", "2")

TRAIN = """
import os, socket, subprocess, sys, time
import multiprocessing
import torch, torch.distributed, torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel


def train(model, steps=100000):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 16)).sum().backward()
        optimizer.step()
        time.sleep(0.002)
    print("finished")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def work(rank, port):
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    model = DistributedDataParallel(torch.nn.Linear(16, 4))
    during(rank, model)


def during(rank, model):
    train(model)


def alone(seconds=0):
    time.sleep(seconds)
    train(torch.nn.Linear(16, 4))

"""
SPAWN = """
if __name__ == "__main__":
    torch.multiprocessing.spawn(work, args=(free_port(),), nprocs=2)
    print("after")
"""


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str
    folder: Path

    @property
    def traces(self) -> dict[str, dict[str, Any]]:
        """What pinprof has written into each trace."""
        paths = sorted(self.folder.glob("*.json.gz"))
        return {path.name.removesuffix(".json.gz"): json.loads(gzip.decompress(path.read_bytes())) for path in paths}


def run(folder: Path, source: str, *words: str, options: tuple[str, ...] = WINDOWS, python: str | None = None) -> Ran:
    """Run the script of this source, by `warm_python` if no other; the folder for temporary files must be empty."""
    (folder / "train.py").write_text(TRAIN + source)
    with TemporaryDirectory(dir="/tmp") as temporary:  # the path of a socket in it must be short
        ran = subprocess.run(
            [python or warm_python(), "-m", "pinprof", "run", *options, *(words or ("train.py",))],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TMPDIR": temporary},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,  # a busy machine takes many times as long
        )
        assert list(Path(temporary).glob(".pinprof*")) == []
    assert list(folder.glob(".pinprof*")) == []
    return Ran(ran.returncode, ran.stdout, ran.stderr, folder)


@pytest.mark.slow
def test_spawned_ranks_are_recorded_together_and_reported_on_as_a_job(tmp_path: Path) -> None:
    loader = (
        "def during(rank, model):\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "    for batch in torch.utils.data.DataLoader([torch.ones(16)] * 100000, num_workers=1):\n"
        "        time.sleep(0.02 * rank)\n"
        "        optimizer.zero_grad()\n        model(batch).sum().backward()\n        optimizer.step()\n"
    )
    ran = run(tmp_path, loader + SPAWN)
    assert ran.status == 0, ran.err
    assert ran.out.startswith("after\n2 ranks of one job")
    assert list(ran.traces) == ["pinprof-train.rank0", "pinprof-train.rank1"]
    first, second = (trace["pinprof"] for trace in ran.traces.values())
    assert (first["rank"], second["rank"], second["world_size"]) == (0, 1, 2)
    assert first["steps_before"] == second["steps_before"] > 4
    assert (first["apart"], second["apart"]) == (None, None)
    assert first["marker"] == second["marker"] == "batch drawn from a DataLoader"
    assert "to report on them again: pinprof report 'pinprof-train.rank*.json.gz'" in ran.err
    assert (tmp_path / "pinprof-train.html").exists()


@pytest.mark.slow
def test_a_rank_that_fails_ends_the_script_as_without_pinprof(tmp_path: Path) -> None:
    # the other rank waits for none: one whose all-reduce breaks off may end before the failed one does
    fails = (
        "def during(rank, model):\n"
        "    train(model.module, 4 if rank else 1)\n"
        "    time.sleep(0 if rank else 100)\n"
        "    raise ValueError('boom')\n"
    )
    ran = run(tmp_path, fails + SPAWN)
    assert ran.status == 1
    assert "-- Process 1 terminated with the following error" in ran.err
    assert "ValueError: boom" in ran.err
    assert "after" not in ran.out
    assert "pinprof/capture" not in ran.err
    assert ran.traces == {}


@pytest.mark.slow
def test_forked_and_spawned_children_without_a_job_are_recorded_each_for_itself(tmp_path: Path) -> None:
    source = (
        "if __name__ == '__main__':\n"
        "    for how in ('fork', 'spawn'):\n"
        "        process = multiprocessing.get_context(how).Process(target=alone)\n"
        "        process.start(); process.join(); print(how, process.exitcode, flush=True)\n"
        "    idle = multiprocessing.Process(target=time.sleep, args=(0,))\n"
        "    idle.start(); idle.join()\n"
    )
    ran = run(tmp_path, source)
    assert ran.status == 0, ran.err
    assert ran.out.startswith("fork 0\nspawn 0\n")
    assert ran.out.count("2 complete steps (optimizer step (SGD))") == 2
    assert list(ran.traces) == ["pinprof-train.child0", "pinprof-train.child1"]
    assert "rank" not in ran.traces["pinprof-train.child1"]["pinprof"]


@pytest.mark.slow
def test_with_keep_going_children_finish_and_the_script_is_recorded_beside_them(tmp_path: Path) -> None:
    source = (
        "if __name__ == '__main__':\n"
        "    process = multiprocessing.get_context('fork').Process(target=alone)\n"
        "    train = __import__('functools').partial(train, steps=60)\n"
        "    process.start(); alone(); process.join()\n"
    )
    ran = run(tmp_path, source, options=(*WINDOWS, "--keep-going"))
    assert ran.status == 0, ran.err
    assert ran.out.count("finished") == 2
    assert sorted(ran.traces) == ["pinprof-train", "pinprof-train.child0"]
    sentence = "Wrote the traces of 1 child of the script, too. Next: pinprof report pinprof-train.child0.json.gz"
    assert sentence in ran.err


@pytest.mark.slow
def test_torchruns_own_module_as_the_script_records_its_ranks(tmp_path: Path) -> None:
    source = (
        "torch.distributed.init_process_group('gloo')\nduring(0, DistributedDataParallel(torch.nn.Linear(16, 4)))\n"
    )
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py")
    ran = run(tmp_path, source, *launcher)
    assert ran.status == 0, ran.err
    assert "2 ranks of one job" in ran.out
    first, second = (trace["pinprof"] for trace in ran.traces.values())
    assert first["steps_before"] == second["steps_before"]
    assert (first["rank"], second["rank"]) == (0, 1)


@pytest.mark.slow
def test_a_script_that_is_rank_0_itself_and_starts_the_other_stops_with_it(tmp_path: Path) -> None:
    source = (
        "port = os.environ.get('PORT') or str(free_port())\n"
        "if 'PORT' not in os.environ:\n"
        "    subprocess.Popen([sys.executable, 'train.py'], env={**os.environ, 'PORT': port})\n"
        "work(int('PORT' in os.environ), port)\n"
    )
    ran = run(tmp_path, source)
    assert ran.status == 0, ran.err
    assert "finished" not in ran.out
    assert ran.out.startswith("2 ranks of one job")
    assert list(ran.traces) == ["pinprof-train.rank0", "pinprof-train.rank1"]
    first, second = (trace["pinprof"] for trace in ran.traces.values())
    assert first["steps_before"] == second["steps_before"]
    assert (first["apart"], second["apart"]) == (None, None)


class Trainer(multiprocessing.Process):
    def run(self) -> None:
        """Train."""


def train() -> None:
    """Do as a function of the user's does."""


def test_only_processes_that_run_the_users_code_may_make_steps() -> None:
    worker_loop = import_module("torch.utils.data._utils.worker")._worker_loop
    pool_worker: Any = vars(import_module("multiprocessing.pool"))["worker"]
    make = multiprocessing.Process
    followed = [make(target=train), make(target=partial(train)), Trainer(), Trainer(target=time.sleep)]
    followed.append(make(target=import_module("torch.multiprocessing.spawn")._wrap))
    helpers = [make(target=target) for target in (worker_loop, pool_worker, time.sleep, None)]
    assert [may_make_steps(process) for process in followed] == [True] * 5
    assert [may_make_steps(process) for process in helpers] == [False] * 4


WAITS = """
import subprocess, sys, threading, time
from types import SimpleNamespace
from pinprof.capture.children import waiting
from pinprof.program.ending import StopRequested, finishable

are_stopped, works = (word == "yes" for word in sys.argv[1:])
waiting.MAX_IDLE_S, waiting.IDLE_POLL_S = 0.3, 0.05
if works:  # on half a core
    waiting.HOST_TIME = SimpleNamespace(monotonic=time.monotonic, process_time=lambda: time.monotonic() / 2)
script = waiting.StuckScript(lambda: are_stopped, lambda: None)
with script.watched():
    script.watch()
    subprocess.run([sys.executable, "-IS", "-c", ""], check=True)  # a child has ended
    try:
        with finishable():
            threading.Event().wait(60 if are_stopped and not works else 1)
    except StopRequested:
        print("finished", end=" ")
print(script.interrupted)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("are_stopped", "works", "said"),
    [("yes", "no", "finished True\n"), ("yes", "yes", "False\n"), ("no", "no", "False\n")],
)
def test_only_a_script_that_stands_still_after_its_children_were_stopped_is_ended(
    tmp_path: Path, are_stopped: str, works: str, said: str
) -> None:
    done = forked(WAITS, [are_stopped, works], tmp_path, timeout=120)
    assert (done.stdout, done.stderr) == (said, "")
