"""Ranks on GPUs: of torchrun, balanced and with one that sleeps in each step, and those that a script starts itself."""

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[2]
NAP_MS = 20.0

pytestmark = pytest.mark.gpu
on_one = pytest.mark.skipif(torch.cuda.device_count() < 1, reason="needs a CUDA device")
on_two = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")

TRAIN = """
import os, sys, time
import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


def work(rank, method, nap_ms):
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    distributed.init_process_group("nccl", method, rank=rank, world_size=2, device_id=device)
    layers = [layer for _ in range(12) for layer in (nn.Linear(512, 512), nn.ReLU())]
    model = DistributedDataParallel(nn.Sequential(*layers).to(device), device_ids=[rank])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    data = TensorDataset(torch.randn(1_000_000, 512))
    for (batch,) in DataLoader(data, 256, num_workers=2, pin_memory=True):
        if rank == 1 and nap_ms:
            time.sleep(nap_ms / 1000)
        optimizer.zero_grad()
        model(batch.to(device, non_blocking=True)).square().mean().backward()
        optimizer.step()


if __name__ == "__main__" and "LOCAL_RANK" in os.environ:
    work(int(os.environ["LOCAL_RANK"]), "env://", float(sys.argv[1]))
elif __name__ == "__main__":
    multiprocessing.spawn(work, nprocs=2, args=("tcp://127.0.0.1:23456", 0.0))
    print("after")
"""


def python(folder: Path, *words: str) -> str:
    """Return what Python prints of these words."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    ran = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "NCCL_NVLS_ENABLE": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


def launched(folder: Path, nap_ms: float) -> tuple[str, dict[str, Any]]:
    """Return what rank 0 prints of a job of torchrun, and the report on its traces."""
    (folder / "train.py").write_text(TRAIN)
    launcher = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "pinprof", "run")
    shown = python(folder, *launcher, "-o", "run/", "--job-report", "train.py", str(nap_ms))
    return shown, json.loads(python(folder, "pinprof", "report", "run/", "--json", "-"))


def check(folder: Path) -> None:
    """Require that both ranks have recorded the same steps, with their GPUs."""
    traces = [
        json.loads(gzip.decompress(path.read_bytes())) for path in sorted((folder / "run").glob("*.rank?.json.gz"))
    ]
    first, second = (trace["pinprof"] for trace in traces)
    assert (first["rank"], second["rank"]) == (0, 1)
    assert first["steps_before"] == second["steps_before"] > 10
    assert (first["apart"], second["apart"]) == (None, None)
    assert first["plain"]["steps"] == second["plain"]["steps"]
    for trace in traces:
        assert any(event.get("cat") == "kernel" for event in trace["traceEvents"])


@on_two
def test_a_rank_that_sleeps_is_named_with_what_it_costs(tmp_path: Path) -> None:
    shown, report = launched(tmp_path, NAP_MS)
    check(tmp_path)
    assert "rank 1  holds up the others: its host runs no op" in shown
    assert report["ranks"]["slowest_rank"] == 1
    assert report["ranks"]["skew_ms"] == pytest.approx(NAP_MS, rel=0.3)
    assert [trace["steps"]["step_source"] for trace in report["traces"]] == ["measured", "measured"]


@on_two
def test_of_a_balanced_job_no_rank_is_named(tmp_path: Path) -> None:
    shown, report = launched(tmp_path, 0.0)
    check(tmp_path)
    assert report["ranks"]["slowest_rank"] is None
    assert "no rank holds up the others" in shown or "unsure" in shown  # hosts of other work may be as unlike as that


@on_two
def test_spawned_ranks_are_recorded_on_their_gpus(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    shown = python(tmp_path, "pinprof", "run", "-o", "run/", "train.py")
    check(tmp_path)
    assert "2 ranks of one job" in shown
    assert "after\n" in shown


@on_one
def test_a_forked_child_can_use_the_gpu_that_its_script_chose(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import multiprocessing, os, torch\n"
        "def work():\n"
        "    assert torch.cuda.device_count() == 1\n"
        "    model = torch.nn.Linear(64, 64).cuda()\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)\n"
        "    while True:\n"
        "        optimizer.zero_grad()\n"
        "        model(torch.randn(64, 64, device='cuda')).sum().backward()\n"
        "        optimizer.step()\n"
        "os.environ['CUDA_VISIBLE_DEVICES'] = '0'\n"
        "process = multiprocessing.get_context('fork').Process(target=work)\n"
        "process.start(); process.join(); print('status', process.exitcode)\n"
    )
    shown = python(tmp_path, "pinprof", "run", "-o", "run/", "train.py")
    assert shown.startswith("status 0\n")
    assert re.search(r"bound: [\d.]+ [µm]s per step", shown)
    assert "(estimated" not in shown, "it is measured without the profiler"
