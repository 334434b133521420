"""Ranks on two GPUs that the script starts itself, as pytorch/examples' imagenet does with --multiprocessing-distributed.

IMAGENET names that example's main.py; without it, a script of the same shape stands in.
"""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices"),
]

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


def test_spawned_ranks_are_recorded_on_their_gpus(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    shown, traces = recorded(tmp_path, "train.py")
    check(shown, traces)
    assert "after\n" in shown


@pytest.mark.skipif("IMAGENET" not in os.environ, reason="IMAGENET names the example's main.py")
def test_the_imagenet_example_is_recorded(tmp_path: Path) -> None:
    options = ["--multiprocessing-distributed", "--dist-url", "tcp://127.0.0.1:23457", "--world-size", "1"]
    options += ["--rank", "0", "--dist-backend", "nccl", "--arch", "resnet18", "--workers", "8"]
    shown, traces = recorded(tmp_path, os.environ["IMAGENET"], *options, "--dummy")
    check(shown, traces)
