"""What a program does that pinprof runs, and pinprof's own failures: none of them changes how the program ends."""

import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from script_runs import TRAIN, recorded_steps, run

import pinprof
from pinprof.program.user_program import join_threads

pytestmark = pytest.mark.slow  # each test is a process of its own

FAILS = """
def fails(*_args, **_more):
    raise KeyError("of ours")

"""
PATCHES = {
    "what finds the steps": "import pinprof.capture.steps.finder as m; m.StepFinder.see = fails",
    "the recording": "import pinprof.capture.window.recording as m; m.Recording.step = fails",
    "the profiler": "import pinprof.capture.window.lean as m; m.write_trace = fails",
    "the journal": "import pinprof.capture.observe.journal as m; m.Journal.end_step = fails",
    "a sample": "import pinprof.capture.observe.sampler as m; m.HostSampler._take = fails",
    "the watchdog": "import pinprof.capture.steps.watchdog as m; m.Watchdog._is_due = fails",
    "the end of the recording": "import pinprof.capture.window.recording as m; m.Recording.end = fails",
    "what follows processes": "import pinprof.capture.children.child as m; m._follow = fails",
    "what was evaluated": "import pinprof.capture.steps.finder as m; m.StepFinder.evaluated = fails",
}
PROGRAM = """
import subprocess, sys, time
after = lambda step: time.sleep(0.004)  # so that all windows find their steps
model.eval()
subprocess.run([sys.executable, "-c", "print('of a child')"], check=True)
train(60)
time.sleep(0.6)
sys.exit(7)
"""


@pytest.mark.parametrize("patch", PATCHES.values(), ids=PATCHES.keys())
def test_a_failure_of_ours_is_one_line_and_the_program_runs_on(tmp_path: Path, patch: str) -> None:
    ran = run(tmp_path, TRAIN + FAILS + patch + PROGRAM, keep_going=True, plain_seconds=0.1)
    assert (ran.status, ran.out) == (7, "of a child\nfinished\n")
    then = "" if patch == PATCHES["the end of the recording"] else ". The program runs on"
    assert ran.err == f"{FAILED}{then}\n"


FAILED = "pinprof itself failed (KeyError: 'of ours'); please report this with the output under PINPROF_TRACEBACK=1"


UNCOUNTED = TRAIN.replace("range(1, steps + 1)", "list(range(1, steps + 1))")
"""Nobody knows when its loop ends: a window may still be open then."""


def test_a_program_that_ends_while_it_is_sampled_keeps_its_exit_status(tmp_path: Path) -> None:
    ran = run(tmp_path, UNCOUNTED + FAILS + PATCHES["the end of the recording"] + PROGRAM, plain_seconds=60.0)
    assert (ran.status, ran.out) == (7, "of a child\nfinished\n")
    assert ran.err.startswith("pinprof itself failed (KeyError: 'of ours')")


def test_what_fails_as_the_recording_ends_neither_costs_the_trace_nor_is_it_said_to_be_lost(tmp_path: Path) -> None:
    patch = "import pinprof.capture.observe.workers as m; m.WorkerSamples.longest = fails\n"
    ran = run(tmp_path, TRAIN + FAILS + patch + "train(60)")
    assert (ran.status, ran.result["path"], ran.result["remarks"]) == (0, str(tmp_path / "out.json.gz"), [])
    assert len(recorded_steps(tmp_path)) == 2


@pytest.mark.parametrize("most", [256, 4096])
def test_a_program_may_close_all_descriptors(tmp_path: Path, most: int) -> None:
    ran = run(tmp_path, f"import os\nos.closerange(3, {most})\n{TRAIN}train(60)")
    assert (ran.status, ran.out, ran.err, ran.result["remarks"]) == (0, "", "", [])
    assert len(recorded_steps(tmp_path)) == 2


def test_a_program_may_replace_the_process_and_threads(tmp_path: Path) -> None:
    source = (
        "import os, threading\nos.getpid = lambda: 1\n"
        "def refuse(*_a, **_k):\n    raise KeyError('of the program')\n"
        "threading.Thread = refuse\ntrain(60)\nprint(os.getpid())"
    )
    ran = run(tmp_path, TRAIN + source, keep_going=True)
    assert (ran.status, ran.out, ran.err) == (0, "finished\n1\n", "")
    assert len(recorded_steps(tmp_path)) == 2


def test_what_a_program_replaced_is_there_at_its_exit_and_not_in_what_pinprof_does(tmp_path: Path) -> None:
    source = (
        "import atexit, builtins, io, json, sys\n"
        "def refuse(*_a, **_k):\n    raise KeyError('of the program')\n"
        "builtins.open = io.open = json.dumps = refuse\ntrain(60)\nbuiltins.sorted = None\n"
        "sys.setprofile(lambda *_: None)\n"
        "atexit.register(lambda: print(sorted, open is json.dumps, sys.getprofile() is not None))"
    )
    ran = run(tmp_path, TRAIN + source, keep_going=True)
    assert (ran.status, ran.out, ran.err) == (0, "finished\nNone True True\n", "")
    assert len(recorded_steps(tmp_path)) == 2


def test_an_open_pool_of_threads_ends_with_its_work_as_at_pythons_exit(tmp_path: Path) -> None:
    source = (
        "import time\nfrom concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\ntrain(60)\n"
        "for number in range(2): pool.submit(lambda number: (time.sleep(0.1), print(number)), number)\n"
    )
    ran = run(tmp_path, TRAIN + source, keep_going=True)
    assert (ran.status, ran.out) == (0, "finished\n0\n1\n")


def test_threads_that_ran_before_the_program_are_not_awaited() -> None:
    go = threading.Event()
    another = threading.Thread(target=go.wait)
    another.start()
    try:
        join_threads(before=threading.enumerate())
        assert another.is_alive()
    finally:
        go.set()
        another.join()


def test_clocks_and_the_process_are_read_as_they_were_before_the_program() -> None:
    rooms = (Path(pinprof.__file__).parent / room for room in ("capture", "program", "races", "cli"))
    sources = {path: path.read_text() for room in rooms for path in room.rglob("*.py")}
    assert len(sources) > 50
    imports = re.compile(r"^\s*(import time\b|from time )|\bos\.getpid\(", re.MULTILINE)
    assert [path for path, text in sources.items() if imports.search(text)] == []


def test_a_recording_that_cannot_begin_lets_the_program_run_to_its_end(tmp_path: Path) -> None:
    source = TRAIN + (
        "import pinprof.capture.window.lean as m\nfrom pinprof.ground.errors import CaptureError\n"
        "def refuse(*_a, **_k):\n    raise CaptureError('no disk')\nm.write_trace = refuse\ntrain(60)"
    )
    ran = run(tmp_path, source)
    assert ran.out == "finished\n"
    assert ran.err.startswith("Nothing more is recorded: no disk. The program runs on\n")


@pytest.mark.parametrize("execute", ["os.execv(sys.executable, words)", "os.execle(sys.executable, *words, {})"])
def test_the_timer_does_not_outlive_the_program_that_is_replaced(tmp_path: Path, execute: str) -> None:
    other = "import time\nend = time.time() + 1\nwhile time.time() < end: pass\nprint('other')\nraise SystemExit(9)"
    source = (
        UNCOUNTED
        + f"import os, sys\ntrain(40)\nwords = [sys.executable, '-c', {other!r}]\nsys.stdout.flush()\n{execute}"
    )
    ran = run(tmp_path, source, plain_seconds=60.0)
    assert (ran.status, ran.out) == (9, "finished\nother\n")
    assert "The program started another program in its place" in ran.err
    assert "before a step was recorded" in ran.err


def test_a_program_that_does_not_exist_leaves_the_recording_as_it_was(tmp_path: Path) -> None:
    source = TRAIN + (
        "import os\ndef after(step):\n    if step == 6:\n"
        "        try:\n            os.execvp('no-such-program', ['x'])\n"
        "        except FileNotFoundError:\n            print('none')\ntrain(100)"
    )
    ran = run(tmp_path, source)
    assert (ran.status, ran.out, ran.err) == (0, "none\n", "")
    assert len(recorded_steps(tmp_path)) == 2


def test_a_program_that_ends_by_os_exit_is_told_of(tmp_path: Path) -> None:
    ran = run(tmp_path, TRAIN + "import os\ntrain(5)\nos._exit(3)")
    assert ran.status == 3
    assert ran.err == (
        "The program ended by os._exit(3) before a step was recorded; pinprof does not see what comes after\n"
    )


ANOTHER = """
def train_another(steps):
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()


"""
"""Threads that train one model may fail by themselves: one takes the gradients away that another is about to use."""


@pytest.mark.parametrize(
    "start",
    [
        "thread = threading.Thread(target=train, args=(100000,)); thread.start(); thread.join(); print('never')",
        "threading.Thread(target=train, args=(100000,)).start()",
        "threading.Thread(target=train, args=(100000,), daemon=True).start(); time.sleep(500)",
        "with ThreadPoolExecutor(1) as pool: pool.submit(train, 100000).result()",
        "for _ in range(3): threading.Thread(target=train_another, args=(100000,)).start()",
    ],
)
def test_steps_that_a_thread_makes_are_recorded_and_the_program_is_stopped(tmp_path: Path, start: str) -> None:
    source = TRAIN + ANOTHER + f"import threading, time\nfrom concurrent.futures import ThreadPoolExecutor\n{start}\n"
    ran = run(tmp_path, source)
    assert (ran.status, ran.out) == (0, "")
    assert "Traceback" not in ran.err
    assert ran.result["stopped"]
    assert len(recorded_steps(tmp_path)) == 2


PLAINLY = {
    "its hook fails": "import sys\nsys.excepthook = lambda *_: 1 / 0\nraise ValueError('own')",
    "its hook exits": "import sys\nsys.excepthook = lambda *_: sys.exit(5)\nraise ValueError('own')",
    "without standard error": "import sys\nsys.stderr = None\nsys.exit('a text')",
    "without its words": "import sys\ndel sys.argv\nsys.exit('a text')",
    "a text": "import sys\nsys.exit('a text')",
    "a closed standard error": "import sys\nsys.stderr.close()\nsys.exit('a text')",
}


@pytest.mark.parametrize("source", PLAINLY.values(), ids=PLAINLY.keys())
def test_a_program_ends_as_under_python(tmp_path: Path, source: str) -> None:
    ran = run(tmp_path, source)
    plain = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.status, ran.out) == (plain.returncode, plain.stdout)
    assert lines_without_places(ran.err) == lines_without_places(plain.stderr)


def lines_without_places(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and "File " not in line and set(line) - set(" ^~")]
