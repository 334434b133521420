"""Runs scripts under `run_script`, each in a process of its own."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

from forked_driver import forked

WINDOWS = {
    "warmup": 2,
    "max_warmup": 2,
    "plain_steps": 3,
    "plain_seconds": 0.0,
    "plain_precision": 1,
    "steps": 2,
}  # 9 steps in all, after 3 unmarked

DRIVER = """
import dataclasses, json, sys
from pathlib import Path
from pinprof.capture.options import RecordingOptions
from pinprof.capture.script import run_script
given = json.loads(sys.argv[1])
own = RecordingOptions(**{name: given.pop(name) for name in RecordingOptions.__struct_fields__ if name in given})
ended = run_script(sys.argv[2], sys.argv[3:], options=own, **given)
Path("result.json").write_text(json.dumps(dataclasses.asdict(ended), default=str))
sys.exit(ended.exit_status)
"""

TRAIN = """
import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(steps):
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        after(step)
    print("finished")


def after(step):
    pass

"""


STEPS = "steps:make"
"""A function whose calls mark steps: a script that is also run by python then needs no torch, which loads slowly."""


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str
    result: dict[str, object]


def run(folder: Path, source: str, *args: str, name: str = "train.py", **options: object) -> Ran:
    (folder / "train.py").write_text(source)
    (folder / "steps.py").write_text("def make():\n    pass\n")
    windows = json.dumps({"path": "out.json.gz", **WINDOWS, **options})
    done = forked(DRIVER, [windows, name, *args], folder, timeout=180)
    result = folder / "result.json"
    return Ran(done.returncode, done.stdout, done.stderr, json.loads(result.read_text()) if result.exists() else {})


def recorded_steps(folder: Path) -> list[str]:
    trace = json.loads(gzip.decompress((folder / "out.json.gz").read_bytes()))
    return [event["name"] for event in trace["traceEvents"] if event["name"].startswith("ProfilerStep#")]
