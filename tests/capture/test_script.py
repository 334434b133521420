"""Unmodified scripts, run as a user runs them: in a process of their own."""

import gzip
import json
import py_compile
import re
import signal
import subprocess
import sys
import zipapp
from pathlib import Path

import pytest
from script_runs import STEPS, TRAIN, recorded_steps, run

from pinprof.capture.options import RecordingOptions
from pinprof.capture.script import run_script
from pinprof.ground.errors import CaptureError

pytestmark = pytest.mark.slow  # each test is a process of its own


def under_python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_script_is_stopped_politely_after_the_last_window(tmp_path: Path) -> None:
    source = (
        TRAIN + "try:\n    train(1000)\nexcept Exception:\n    print('swallowed')\nfinally:\n    print('cleaned up')"
    )
    ran = run(tmp_path, source)
    assert (ran.status, ran.out, ran.err) == (0, "cleaned up\n", "")
    assert ran.result["stopped"]
    assert recorded_steps(tmp_path) == ["ProfilerStep#2", "ProfilerStep#3"]


def test_script_sees_what_python_would_show_it(tmp_path: Path) -> None:
    show = "print(sys.argv, sys.path[0], os.getcwd(), __name__, __file__, sys.modules['__main__'].train)"
    source = f"import os, sys\ndef train(): pass\n{show}\nsys.exit(7)"
    ran = run(tmp_path, source, "--lr", "0.1")
    python = under_python(tmp_path, "train.py", "--lr", "0.1")
    assert ran.out.partition(" at 0x")[0] == python.stdout.partition(" at 0x")[0]
    assert ran.status == python.returncode == 7


def test_failing_script_shows_its_own_traceback_and_keeps_the_trace(tmp_path: Path) -> None:
    fail = "def after(step):\n    if step == 8:\n        raise ValueError('boom')\n\n"
    loop = "for step in range(20):\n    steps.make()\n    after(step)\n"
    ran = run(tmp_path, f"import steps\n{fail}{loop}", step_marker=STEPS)
    assert ran.status == 1
    assert ran.err == under_python(tmp_path, "train.py").stderr
    assert "ProfilerStep#2" in recorded_steps(tmp_path)


def test_syntax_error_is_shown_as_python_shows_it(tmp_path: Path) -> None:
    ran = run(tmp_path, "x = = 1")
    assert ran.status == 1
    assert "train.py" in ran.err
    assert "Traceback" not in ran.err
    assert ran.err.endswith("SyntaxError: invalid syntax\n")


def test_interrupt_keeps_what_was_recorded(tmp_path: Path) -> None:
    interrupt = f"    if step == 11:\n        os.kill(os.getpid(), {int(signal.SIGINT)})\n        time.sleep(30)"
    ran = run(tmp_path, TRAIN + "import os, time\ndef after(step):\n" + interrupt + "\n\ntrain(1000)")
    assert ran.status == 130
    assert "KeyboardInterrupt" in ran.err
    assert "pinprof" not in ran.err
    assert "ProfilerStep#2" in recorded_steps(tmp_path)


@pytest.mark.parametrize(
    ("source", "sentences"),
    [
        (
            "print('hello')",
            ["drew no batch from a DataLoader and made no optimizer step", "pinprof.step()", "--step-marker"],
        ),
        (TRAIN + "train(3)", ["the program ended after 3 optimizer steps, 3 calls of backward and 0 batches, too few"]),
        (TRAIN + "train(7)", ["the program ended after 4 steps, before one was recorded; 9 are needed"]),
    ],
    ids=["no steps", "too few to understand", "too few to record"],
)
def test_a_program_without_a_recorded_step_is_an_error_with_the_way_out(
    tmp_path: Path, source: str, sentences: list[str]
) -> None:
    ran = run(tmp_path, source)
    assert "TooFewSteps: the program " in ran.err
    for sentence in sentences:
        assert sentence in ran.err


SURROUNDINGS = """
import atexit, inspect, json, os, pickle, steps, sys
from pathlib import Path

class Config:
    lr = 0.1

def at_exit():
    pickle.loads(pickle.dumps(Config()))
    is_main = sys.modules["__main__"].Config is Config
    print("exit handler", __name__, os.path.basename(os.getcwd()), is_main, sys.argv, sys.path[0])

atexit.register(at_exit)
os.makedirs("elsewhere", exist_ok=True)
Path("here.txt").write_text("relative")
spec = globals()["__spec__"]
print(sys.argv, sys.path[0], os.getcwd(), __name__, __file__, __package__, __cached__, __doc__, __annotations__)
print(type(__builtins__).__name__, spec and spec.name, type(__loader__).__name__)
print(inspect.getsource(Config), pickle.loads(pickle.dumps(Config())).lr, sorted(vars(sys.modules["__main__"])))
os.chdir("elsewhere")
for step in range(20):
    steps.make()
"""


def test_surroundings_of_a_script_and_of_a_module_are_those_under_python(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    for name in ("__init__.py", "train.py", "__main__.py"):
        (package / name).write_text(SURROUNDINGS if name != "__init__.py" else "")
    (package / "steps.py").write_text("def make():\n    pass\n")
    zipapp.create_archive(package, tmp_path / "package.pyz")
    (tmp_path / "other.py").write_text(SURROUNDINGS)
    py_compile.compile(str(tmp_path / "other.py"), str(tmp_path / "other.pyc"))
    modules = (["-m", "package.train"], ["-m", "package"])
    for words in (["train.py"], *modules, ["package/"], ["package.pyz"], ["other.pyc"]):
        options = {"module": len(words) == 2, "step_marker": STEPS, "force": True}
        ran = run(tmp_path, SURROUNDINGS, "--lr", "0.1", name=words[-1], **options)
        python = under_python(tmp_path, *words, "--lr", "0.1")
        assert python.returncode == 0
        assert ran.err == ""
        assert ran.out == python.stdout
        assert "exit handler __main__ elsewhere True" in ran.out
        assert ran.result["stopped"]


def test_a_module_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for name in ("no_such_module", "json.no_such_module", "xml"):
        with pytest.raises(CaptureError, match=name):
            run_script(name, [], path=tmp_path / "out.json", module=True)


WORKERS = """
import multiprocessing, os, sys
import torch
from torch.utils.data import DataLoader, Dataset

class Batches(Dataset):  # has to be found by the children, in this script
    def __len__(self):
        return 40
    def __getitem__(self, index):
        assert "pinprof" not in sys.modules or METHOD == "fork"
        return torch.ones(4)

METHOD = os.environ["METHOD"]

def compute(x):
    return x + 1

if __name__ == "__main__":
    with multiprocessing.get_context(METHOD).Pool(1) as pool:
        print(pool.map(compute, [1, 2]))
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in DataLoader(Batches(), num_workers=2, multiprocessing_context=METHOD, persistent_workers=True):
        model(batch).sum().backward()
        optimizer.step()
    print("finished")
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_run_the_script_not_pinprof(tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = f'import os; os.environ["METHOD"] = "{method}"\n{WORKERS}'
    ran = run(tmp_path, source)
    assert (ran.status, ran.out) == (0, "[2, 3]\n"), ran.err
    assert ran.result["marker"] == "batch drawn from a DataLoader"
    assert recorded_steps(tmp_path) == ["ProfilerStep#2", "ProfilerStep#3"]


@pytest.mark.parametrize(
    "handler",
    [
        "except BaseException:\n            caught += 1",
        "except:\n            caught += 1\n            continue",
        "finally:\n            caught += 1\n            continue",
    ],
)
def test_a_script_that_catches_everything_is_stopped_all_the_same(tmp_path: Path, handler: str) -> None:
    loop = f"caught = 0\nwhile True:\n        try:\n            train(1)\n        {handler}\n"
    ran = run(tmp_path, TRAIN.replace('print("finished")', "pass") + loop)
    assert (ran.status, ran.err) == (0, "")
    assert ran.result["stopped"]
    assert recorded_steps(tmp_path) == ["ProfilerStep#2", "ProfilerStep#3"]


@pytest.mark.parametrize("end", ["sys.exit(3)", "raise RuntimeError('the training broke off')", "raise"])
def test_what_a_script_makes_of_its_stop_is_not_its_failure(tmp_path: Path, end: str) -> None:
    source = TRAIN + f"import sys\ntry:\n    train(1000)\nexcept BaseException:\n    print('saved')\n    {end}"
    ran = run(tmp_path, source)
    assert (ran.status, ran.out, ran.err) == (0, "saved\n", "")
    assert ran.result["stopped"]


def test_a_failing_loader_is_shown_without_a_frame_of_ours(tmp_path: Path) -> None:
    source = """
import torch

def broken():
    for number in range(40):
        if number == 15:
            raise ValueError("no such image")
        yield number

class Data(torch.utils.data.IterableDataset):
    def __iter__(self):
        return broken()

try:
    for batch in torch.utils.data.DataLoader(Data()):
        pass
except ValueError as error:
    raise RuntimeError("cannot train") from error
"""
    ran = run(tmp_path, source)
    assert ran.status == 1
    assert ran.err == under_python(tmp_path, "train.py").stderr


def test_a_thread_may_exit_and_goes_on_while_python_waits_for_it(tmp_path: Path) -> None:
    source = TRAIN + (
        "import sys, threading, time\n"
        "threading.Thread(target=sys.exit, args=(5,)).start()\n"
        "threading.Thread(target=lambda: (time.sleep(1), print('thread done'))).start()\ntrain(1000)"
    )
    ran = run(tmp_path, source)
    assert (ran.status, ran.out, ran.err) == (0, "thread done\n", "")


def test_nothing_of_the_run_is_left_behind(tmp_path: Path) -> None:
    from torch.optim import optimizer as torch_optimizer  # noqa: PLC0415  for its private table of hooks

    before = sys.argv, sys.path[:], sys.modules["__main__"]
    script = tmp_path / "train.py"
    script.write_text(TRAIN + "train(20)")
    ended = run_script(
        script, [], path=tmp_path / "out.json", options=RecordingOptions(warmup=1, plain_steps=0, steps=1)
    )
    assert ended.stopped
    assert (sys.argv, sys.path, sys.modules["__main__"]) == before
    assert not torch_optimizer._global_optimizer_post_hooks


def soon(after_s: float) -> str:
    """Return the beginning of a script in which a stretch is recorded sooner than after half a minute."""
    return (
        "from pinprof.capture.steps import watchdog\n"
        f"watchdog.STRETCH_AFTER_S, watchdog.MODULES_AFTER_S = {after_s}, {after_s / 3}\n"
    )


INFER = """
import time, torch

model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
end = time.monotonic() + 40
with torch.no_grad():
    while time.monotonic() < end:
        model(torch.ones(2, 4))
        time.sleep(0.001)
print("finished")
"""


def test_an_inference_is_marked_by_its_outermost_module_after_some_time(tmp_path: Path) -> None:
    waits = "from pinprof.capture.steps import marks\nmarks.AWAITS_OPTIMIZER_S = 1.0\n"
    ran = run(tmp_path, soon(3.0) + waits + INFER)
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    assert ran.result["marker"] == "call of Sequential; no optimizer has stepped"
    assert ran.result["stopped"]
    assert recorded_steps(tmp_path) == ["ProfilerStep#2", "ProfilerStep#3"]


def test_a_training_after_an_evaluation_is_recorded_in_its_place(tmp_path: Path) -> None:
    evaluate = "with torch.no_grad():\n    for _ in torch.utils.data.DataLoader(torch.ones(80, 4)):\n        model(_)\n"
    ran = run(tmp_path, f"{TRAIN}{evaluate}train(1000)")
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    assert ran.result["marker"] == stored(tmp_path)["marker"] == "optimizer step (SGD)"
    assert recorded_steps(tmp_path) == ["ProfilerStep#2", "ProfilerStep#3"]


WITHOUT_STEPS = """
import sys, time, torch

weight = torch.ones(8, 8) / 8
end = time.monotonic() + float(sys.argv[1])
try:
    while time.monotonic() < end:
        weight = (weight @ weight).relu()
        time.sleep(0.001)
except Exception:
    print("swallowed")
print("finished")
"""


def stored(folder: Path) -> dict[str, object]:
    trace = json.loads(gzip.decompress((folder / "out.json.gz").read_bytes()))
    facts: dict[str, object] = trace["pinprof"]
    return facts


def test_a_program_in_which_nothing_marks_a_step_is_recorded_for_a_stretch_of_time(tmp_path: Path) -> None:
    ran = run(tmp_path, soon(0.5) + WITHOUT_STEPS, "50")
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    assert ran.result["stopped"]
    stretch = re.fullmatch(r"a stretch of ([\d.]+) s; .*", str(ran.result["marker"]))
    assert stretch
    assert float(stretch[1]) >= 3
    assert stored(tmp_path)["marker"] == ran.result["marker"]
    assert recorded_steps(tmp_path) == []
