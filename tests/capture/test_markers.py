import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from pinprof.capture.markers import LOADER, OPTIMIZER, Event, Marker, choose_marker
from pinprof.capture.script import run_script
from pinprof.errors import CaptureError

ROOT = Path(__file__).parents[2]
QUICK = {"warmup": 1, "max_warmup": 1, "plain_steps": 0, "steps": 2}

NAMES = {
    "L": (LOADER, 1, "DataLoader"),
    "V": (LOADER, 2, "DataLoader"),
    "D": (OPTIMIZER, 3, "Adam"),
    "G": (OPTIMIZER, 4, "SGD"),
}


def events(text: str) -> list[Event]:
    return [Event(*NAMES[letter]) for letter in text]


@pytest.mark.parametrize(
    ("text", "marker"),
    [
        ("LD" * 9, Marker(LOADER, 1, "batch drawn from a DataLoader")),
        ("D" * 9, Marker(OPTIMIZER, 3, "optimizer step (Adam)")),
        ("LDG" * 9, Marker(LOADER, 1, "batch drawn from a DataLoader")),  # a GAN
        ("DG" * 9, Marker(OPTIMIZER, 3, "optimizer step (Adam)")),
        (("LD" * 5 + "G") * 9, Marker(OPTIMIZER, 4, "optimizer step (SGD), every 5 batches")),  # a critic
        ("LLLLD" * 9, Marker(OPTIMIZER, 3, "optimizer step (Adam), every 4 batches")),  # accumulation
        ("LVD" * 9, Marker(LOADER, 1, "batch drawn from a DataLoader")),  # two loaders side by side
        ("LDLDLDLDLDVVVVVLDLDLDLDLD", Marker(LOADER, 1, "batch drawn from a DataLoader")),  # validation in between
        ("G" + "LD" * 60, Marker(LOADER, 1, "batch drawn from a DataLoader")),  # an optimizer used once
        ("L" * 60, Marker(LOADER, 1, "batch drawn from a DataLoader")),  # no optimizer
    ],
)
def test_what_recurs_least_marks_the_step(text: str, marker: Marker) -> None:
    chosen = next(choice for end in range(len(text) + 1) if (choice := choose_marker(events(text[:end]))))
    assert chosen == marker


@pytest.mark.parametrize("text", ["", "L", "LD" * 7, "LLLLDLLLLD", "LD" * 5 + "G" + "LD" * 5, "L" * 49])
def test_nothing_is_chosen_before_it_is_clear(text: str) -> None:
    assert choose_marker(events(text)) is None


def test_a_wish_is_granted() -> None:
    assert choose_marker(events("LLLLD" * 9), LOADER) == Marker(LOADER, 1, "batch drawn from a DataLoader")
    assert choose_marker(events("LD" * 9), OPTIMIZER) == Marker(OPTIMIZER, 3, "optimizer step (Adam)")


PREAMBLE = """
import torch
from torch.utils.data import DataLoader

def net():
    return torch.nn.Linear(4, 4)

def update(optimizer, model, batch):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()

model = net()
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(torch.ones(800, 4), batch_size=4)
"""

GAN = """
critic = net()
other = torch.optim.SGD(critic.parameters(), lr=0.1)
for batch in loader:
    update(other, critic, batch)
    update(optimizer, model, batch)
"""
ACCUMULATION = """
for number, batch in enumerate(loader, start=1):
    model(batch).sum().backward()
    if number % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""
EPOCHS = """
valid = DataLoader(torch.ones(8, 4), batch_size=4)
short = DataLoader(torch.ones(24, 4), batch_size=4)
for epoch in range(20):
    for batch in short:
        update(optimizer, model, batch)
    for batch in valid:
        model(batch)
"""
BY_HAND = """
import pinprof
for batch in loader:
    update(optimizer, model, batch)
    update(optimizer, model, batch)
    pinprof.step()
"""
FUNCTION = """
class Task:
    def train_one(self, batch):
        update(optimizer, model, batch)

for batch in loader:
    Task().train_one(batch)
"""
LBFGS = """
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
def closure():
    optimizer.zero_grad()
    loss = model(torch.ones(2, 4)).square().sum()
    loss.backward()
    return loss
for _ in range(100):
    optimizer.step(closure)
"""
WORKERS = """
if __name__ == "__main__":
    loader = DataLoader(torch.ones(400, 4), batch_size=4, num_workers=2, multiprocessing_context="spawn")
    for batch in loader:
        update(optimizer, model, batch)
"""


def optimizer_steps_per_step(path: Path) -> list[int]:
    trace = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    marks = sorted((e["ts"], e["ts"] + e["dur"]) for e in trace if e["name"].startswith("ProfilerStep#"))
    steps = [e["ts"] for e in trace if e["name"].startswith("Optimizer.step#")]
    return [sum(start <= at < end for at in steps) for start, end in marks]


def marker_and_steps(folder: Path, source: str, **options: object) -> tuple[str, list[int]]:
    (folder / "train.py").write_text(PREAMBLE + source)
    driver = (
        "import json, sys\nfrom pinprof.capture.script import run_script\n"
        "ended = run_script('train.py', [], path='out.json.gz', **json.loads(sys.argv[1]))\n"
        "print(json.dumps([ended.marker, ended.stopped, ended.recorded_steps]))"
    )
    command = [sys.executable, "-c", driver, json.dumps({**QUICK, **options})]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    marker, stopped, recorded = json.loads(done.stdout.splitlines()[-1])
    assert stopped
    assert recorded == 2
    return marker, optimizer_steps_per_step(folder / "out.json.gz")


@pytest.mark.parametrize(
    ("source", "options", "marker", "steps"),
    [
        (GAN, {}, "batch drawn from a DataLoader", [2, 2]),
        (ACCUMULATION, {}, "optimizer step (Adam), every 4 batches", [1, 1]),
        (EPOCHS, {}, "batch drawn from a DataLoader", [1, 1]),
        (BY_HAND, {}, "pinprof.step()", [2, 2]),
        (FUNCTION, {"step_marker": "Task.train_one"}, "Task.train_one()", [1, 1]),
        (FUNCTION, {"step_marker": "torch.optim:Adam.zero_grad"}, "Optimizer.zero_grad()", [1, 1]),
        (FUNCTION, {"step_marker": "optimizer"}, "optimizer step (Adam)", [1, 1]),
        (LBFGS, {}, "optimizer step (LBFGS)", [1, 1]),
        (WORKERS, {}, "batch drawn from a DataLoader", [1, 1]),
    ],
)
def test_a_program_is_recorded_step_by_step(
    tmp_path: Path, source: str, options: dict[str, str], marker: str, steps: Iterable[int]
) -> None:
    found, counts = marker_and_steps(tmp_path, source, **options)
    assert found == marker
    assert counts == steps


def test_a_function_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("x = 1")
    with pytest.raises(CaptureError, match="defines no such function"):
        run_script(script, [], path=tmp_path / "out.json", step_marker="train")
    with pytest.raises(CaptureError, match="there is no such function"):
        run_script(script, [], path=tmp_path / "out.json", step_marker="torch.nowhere:f")


def run_pinprof(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=180
    )


def test_a_module_and_a_package_run_as_under_python(tmp_path: Path) -> None:
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    tail = "\nfor batch in loader:\n    update(optimizer, model, batch)\n"
    shown = "\nimport sys\nprint('SEEN', __name__, __package__, __spec__.name, sys.argv[1:], flush=True)\n"
    (package / "__main__.py").write_text(PREAMBLE + shown + tail)
    (package / "train.py").write_text(PREAMBLE + shown + tail)
    for name in ("mine", "mine.train"):
        plain = run_pinprof(tmp_path, "-m", name, "--lr", "1")
        done = run_pinprof(tmp_path, "-m", "pinprof", "run", "--windows", "lean", "-m", name, "--lr", "1")
        assert done.returncode == 0, done.stderr
        seen = [line for line in done.stdout.splitlines() if line.startswith("SEEN")]
        assert seen == [line for line in plain.stdout.splitlines() if line.startswith("SEEN")]
    assert {"pinprof-mine.json.gz", "pinprof-train.json.gz"} <= {path.name for path in tmp_path.iterdir()}


def test_each_rank_of_torchrun_writes_its_own_trace(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\nimport torch.distributed as dist\n"
        "from torch.nn.parallel import DistributedDataParallel\n"
        "dist.init_process_group('gloo')\n"
        "model = DistributedDataParallel(torch.nn.Linear(8, 8))\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(100000):\n"
        "    optimizer.zero_grad()\n    model(torch.ones(2, 8)).sum().backward()\n    optimizer.step()\n"
    )
    words = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29533", "-m", "pinprof", "run")
    done = run_pinprof(tmp_path, *words, "--steps", "2", "--warmup", "2", "--windows", "lean", "train.py")
    assert done.returncode == 0, done.stderr[-2000:]
    ranks = {}
    for rank in (0, 1):
        text = gzip.decompress((tmp_path / f"pinprof-train.rank{rank}.json.gz").read_bytes())
        ranks[rank] = json.loads(text)["pinprof"]
    assert [(entry["rank"], entry["world_size"]) for entry in ranks.values()] == [(0, 2), (1, 2)]
    assert done.stdout.count("complete step") == 1
    assert not (tmp_path / "pinprof-train.rank1.html").exists()
