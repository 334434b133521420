"""Ranks on two GPUs that the script starts itself, as the imagenet example does with --multiprocessing-distributed.

IMAGENET names the main.py of that example of PyTorch; without it, a script of the same shape stands in.
"""

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

pytestmark = pytest.mark.gpu
on_two = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
on_one = pytest.mark.skipif(torch.cuda.device_count() < 1, reason="needs a CUDA device")

TRAIN = """
import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


def work(rank, ranks):
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", "tcp://127.0.0.1:23456", rank=rank, world_size=ranks)
    layers = [layer for _ in range(12) for layer in (nn.Linear(512, 512), nn.ReLU())]
    model = DistributedDataParallel(nn.Sequential(*layers).cuda(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    data = TensorDataset(torch.randn(1_000_000, 512))
    for step, (batch,) in enumerate(DataLoader(data, 256, num_workers=2, pin_memory=True)):
        loss = model(batch.cuda(rank, non_blocking=True)).square().mean()
        if step % 10 == 0:
            print(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    multiprocessing.spawn(work, nprocs=2, args=(2,))
    print("after")
"""


def recorded(folder: Path, *words: str) -> tuple[str, list[dict[str, Any]]]:
    """Return what `pinprof run` prints of the script, and what the ranks have written into their traces."""
    ran = subprocess.run(
        [sys.executable, "-m", "pinprof", "run", "-o", "run/", *words],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
            "NCCL_NVLS_ENABLE": "0",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    traces = sorted((folder / "run").glob("*.rank?.json.gz"))
    return ran.stdout, [json.loads(gzip.decompress(path.read_bytes())) for path in traces]


def check(shown: str, traces: list[dict[str, Any]]) -> None:
    first, second = (trace["pinprof"] for trace in traces)
    assert "2 ranks of one job" in shown
    assert (first["rank"], second["rank"]) == (0, 1)
    assert first["steps_before"] == second["steps_before"] > 10
    assert (first["apart"], second["apart"]) == (None, None)
    assert first["plain"]["steps"] == second["plain"]["steps"]
    for trace in traces:
        assert any(event.get("cat") == "kernel" for event in trace["traceEvents"])


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
    shown, _ = recorded(tmp_path, "train.py")
    assert shown.startswith("status 0\n")
    assert re.search(r"bound: [\d.]+ [µm]s per step", shown)
    assert "(estimated" not in shown, "it is measured without the profiler"


@on_two
def test_spawned_ranks_are_recorded_on_their_gpus(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    shown, traces = recorded(tmp_path, "train.py")
    check(shown, traces)
    assert "after\n" in shown


@on_two
@pytest.mark.skipif("IMAGENET" not in os.environ, reason="IMAGENET names the example's main.py")
def test_the_imagenet_example_is_recorded(tmp_path: Path) -> None:
    options = ["--multiprocessing-distributed", "--dist-url", "tcp://127.0.0.1:23457", "--world-size", "1"]
    options += ["--rank", "0", "--dist-backend", "nccl", "--arch", "resnet18", "--workers", "8"]
    shown, traces = recorded(tmp_path, os.environ["IMAGENET"], *options, "--dummy")
    check(shown, traces)
