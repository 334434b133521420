"""Jobs on two GPUs, recorded by torchrun: balanced, and with a rank that sleeps 20 ms in every step."""

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
NAP_MS = 20.0

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")]

TRAIN = """
import os, sys, time
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", rank)
torch.cuda.set_device(device)
distributed.init_process_group("nccl", device_id=device)
layers = [layer for _ in range(12) for layer in (nn.Linear(512, 512), nn.ReLU())]
model = DistributedDataParallel(nn.Sequential(*layers).to(device), device_ids=[rank])
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
batch = torch.randn(256, 512, device=device)
nap = float(sys.argv[1]) / 1000 if rank == 1 else 0
while True:
    if nap:
        time.sleep(nap)
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
"""


def recorded(folder: Path, nap_ms: float) -> tuple[str, dict[str, Any]]:
    """Return what rank 0 prints of the job, and the report on its traces."""
    (folder / "train.py").write_text(TRAIN)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        "OMP_NUM_THREADS": "1",
        "NCCL_NVLS_ENABLE": "0",
    }
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "pinprof", "run"]
    command += ["-o", "run/", "--job-report", "train.py", str(nap_ms)]
    shown = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert shown.returncode == 0, shown.stderr
    report = subprocess.run(
        [sys.executable, "-m", "pinprof", "report", "run/", "--json", "-"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return shown.stdout, json.loads(report.stdout)


def described(folder: Path) -> list[dict[str, Any]]:
    """Return what pinprof has written into each rank's trace."""
    paths = [folder / "run" / f"pinprof-train.rank{rank}.json.gz" for rank in (0, 1)]
    return [json.loads(gzip.decompress(path.read_bytes()))["pinprof"] for path in paths]


def test_a_rank_that_sleeps_is_named_with_what_it_costs(tmp_path: Path) -> None:
    shown, report = recorded(tmp_path, NAP_MS)
    first, second = described(tmp_path)
    assert first["steps_before"] == second["steps_before"] > 10
    assert (first["plain"]["steps"], first["apart"]) == (second["plain"]["steps"], second["apart"])
    assert first["apart"] is None
    assert "rank 1  holds up the others: its host runs no op" in shown
    assert report["ranks"]["slowest_rank"] == 1
    assert report["ranks"]["skew_ms"] == pytest.approx(NAP_MS, rel=0.3)
    assert [trace["steps"]["step_source"] for trace in report["traces"]] == ["measured", "measured"]


def test_of_a_balanced_job_no_rank_is_named(tmp_path: Path) -> None:
    shown, report = recorded(tmp_path, 0.0)
    first, second = described(tmp_path)
    assert first["steps_before"] == second["steps_before"] > 10
    assert report["ranks"]["slowest_rank"] is None
    assert "no rank holds up the others" in shown or "unsure" in shown  # hosts of other work may be as unlike as that
