"""Unmodified scripts, run as a user runs them: in a process of their own."""

import gzip
import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from pinprof.capture.script import run_script
from pinprof.errors import CaptureError

ROOT = Path(__file__).parents[2]
WATCHED = 8  # optimizer steps that it takes to see that they mark the steps
WINDOWS = {"warmup": 2, "max_warmup": 2, "plain_steps": 3, "plain_seconds": 0.0, "steps": 2}  # 9 steps in all

DRIVER = """
import dataclasses, json, sys
from pathlib import Path
from pinprof.capture.script import run_script
options = json.loads(sys.argv[1])
ended = run_script(sys.argv[2], sys.argv[3:], **options)
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


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str
    result: dict[str, object]


def run(folder: Path, source: str, *args: str, **options: object) -> Ran:
    (folder / "train.py").write_text(source)
    given = json.dumps({"path": "out.json.gz", **WINDOWS, **options})
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", DRIVER, given, "train.py", *args],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    result = folder / "result.json"
    err = "".join(line for line in done.stderr.splitlines(keepends=True) if not line.startswith("USDT:"))  # Kineto's
    return Ran(done.returncode, done.stdout, err, json.loads(result.read_text()) if result.exists() else {})


def recorded_steps(folder: Path) -> list[str]:
    trace = json.loads(gzip.decompress((folder / "out.json.gz").read_bytes()))
    return [event["name"] for event in trace["traceEvents"] if event["name"].startswith("ProfilerStep#")]


def test_script_is_stopped_politely_after_the_last_window(tmp_path: Path) -> None:
    source = (
        TRAIN + "try:\n    train(1000)\nexcept Exception:\n    print('swallowed')\nfinally:\n    print('cleaned up')"
    )
    ran = run(tmp_path, source)
    assert (ran.status, ran.out, ran.err) == (0, "cleaned up\n", "")
    assert ran.result["stopped"]
    assert ran.result["steps_seen"] == 9
    assert ran.result["recorded_steps"] == 2
    assert recorded_steps(tmp_path) == ["ProfilerStep#2", "ProfilerStep#3"]


def test_keep_going_lets_the_script_finish(tmp_path: Path) -> None:
    ran = run(tmp_path, TRAIN + "train(24)", keep_going=True)
    assert (ran.status, ran.out) == (0, "finished\n")
    assert not ran.result["stopped"]
    assert ran.result["recorded_steps"] == 2


def test_script_sees_what_python_would_show_it(tmp_path: Path) -> None:
    seen = (
        "import os, sys\nprint(sys.argv, sys.path[0], os.getcwd(), __name__, __file__, sys.modules['__main__'].train)"
    )
    source = TRAIN + seen + "\nsys.exit(7)"
    ran = run(tmp_path, source, "--lr", "0.1")
    under_python = subprocess.run(
        [sys.executable, "train.py", "--lr", "0.1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.out.partition(" at 0x")[0] == under_python.stdout.partition(" at 0x")[0]
    assert ran.status == under_python.returncode == 7


def test_failing_script_shows_its_own_traceback_and_keeps_the_trace(tmp_path: Path) -> None:
    source = TRAIN + "def after(step):\n    if step == 16:\n        raise ValueError('boom')\n\ntrain(1000)"
    ran = run(tmp_path, source)
    under_python = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.status == 1
    assert ran.err == under_python.stderr
    assert ran.result["recorded_steps"] == 1
    assert "ProfilerStep#2" in recorded_steps(tmp_path)


def test_failure_before_any_recorded_step_is_the_scripts_own(tmp_path: Path) -> None:
    ran = run(tmp_path, TRAIN + "train(1)\nraise SystemExit('no data')")
    assert (ran.status, ran.err) == (1, "no data\n")
    assert ran.result["path"] is None
    assert not (tmp_path / "out.json.gz").exists()


def test_syntax_error_is_shown_as_python_shows_it(tmp_path: Path) -> None:
    ran = run(tmp_path, "x = = 1")
    assert ran.status == 1
    assert "train.py" in ran.err
    assert "Traceback" not in ran.err
    assert ran.err.endswith("SyntaxError: invalid syntax\n")


def test_interrupt_keeps_what_was_recorded(tmp_path: Path) -> None:
    interrupt = f"    if step == 16:\n        os.kill(os.getpid(), {int(signal.SIGINT)})\n        time.sleep(30)"
    ran = run(tmp_path, TRAIN + "import os, time\ndef after(step):\n" + interrupt + "\n\ntrain(1000)")
    assert ran.status == 130
    assert "KeyboardInterrupt" in ran.err
    assert "pinprof" not in ran.err
    assert ran.result["recorded_steps"] == 1


def test_no_optimizer_step_names_the_remedy(tmp_path: Path) -> None:
    ran = run(tmp_path, "print('hello')")
    assert "CaptureError: no steps were found" in ran.err
    assert "pinprof.step()" in ran.err
    assert "--step-marker" in ran.err


def test_too_few_steps_says_how_many_are_needed(tmp_path: Path) -> None:
    ran = run(tmp_path, TRAIN + f"train({WATCHED + 3})")
    assert f"CaptureError: the program ended after {WATCHED + 3} steps, before one was recorded" in ran.err
    assert f"{WATCHED + 9} are needed" in ran.err


def test_missing_script_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"missing\.py: there is no such script"):
        run_script(tmp_path / "missing.py", [], path=tmp_path / "out.json")


def test_nothing_of_the_run_is_left_behind(tmp_path: Path) -> None:
    from torch.optim import optimizer as torch_optimizer  # noqa: PLC0415  for its private table of hooks

    before = sys.argv, sys.path[:], sys.modules["__main__"]
    script = tmp_path / "train.py"
    script.write_text(TRAIN + "train(20)")
    ended = run_script(script, [], path=tmp_path / "out.json", warmup=1, plain_steps=0, steps=1)
    assert ended.stopped
    assert (sys.argv, sys.path, sys.modules["__main__"]) == before
    assert not torch_optimizer._global_optimizer_post_hooks
