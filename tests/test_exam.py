import json
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.exam import Exam, judged_part
from scripts.examination.processes import Ended, Hook, Place, run, run_hooked
from scripts.examination.program import Edit, PlaceError, Program, edited
from scripts.examination.programs import NAMED_PROGRAMS
from scripts.examination.verdict import median_of_runs, table, truth_of_run, verdict

MS = 1_000_000


def noted(
    steps_ms: list[float], inputs_ms: list[float] | None = None, begun: list[int] | None = None
) -> dict[str, object]:
    """Return the stamps of steps of these lengths, of which so much was input and in which passes over data began."""
    ends, waited, epochs = [0], [0], [0]
    for number, step in enumerate(steps_ms):
        ends.append(ends[-1] + round(step * MS))
        waited.append(waited[-1] + round((inputs_ms or [0.0] * len(steps_ms))[number] * MS))
        epochs.append(epochs[-1] + (begun or [0] * len(steps_ms))[number])
    return {"ends_ns": ends, "waited_ns": waited, "epochs": epochs, "synchronized_ns": ends[-1] + 2 * MS}


@pytest.mark.parametrize(
    ("stamps", "regular_ms", "median_ms", "irregular_ms"),
    [
        (noted([10.0] * 60 + [500.0] + [10.0] * 39), 10.0, 10.0, 500.0),  # an evaluation
        (noted([10.0, 10.0, 10.0, 110.0] * 25, [0.0, 0.0, 0.0, 100.0] * 25), 35.0, 10.0, 0.0),  # a wait for input
        (  # the start of workers, between epochs
            noted([10.0] * 50 + [110.0] + [10.0] * 10, [0.0] * 50 + [100.0] + [0.0] * 10, [0] * 50 + [1] + [0] * 10),
            10.0,
            10.0,
            110.0,
        ),
    ],
)
def test_a_wait_for_input_is_of_a_regular_step_but_not_an_evaluation_or_the_start_of_workers(
    stamps: dict[str, Any], regular_ms: float, median_ms: float, irregular_ms: float
) -> None:
    truth = truth_of_run(stamps)
    assert (truth["regular_ms"], truth["median_ms"], truth["irregular_ms"]) == (regular_ms, median_ms, irregular_ms)
    assert truth["queued_ms"] == 2.0


def test_a_program_without_steps_has_no_figures() -> None:
    assert truth_of_run(noted([])) == {"steps": 0}
    assert median_of_runs([{"steps": 0}]) is None


def profiled(step_ms: float, sites: list[dict[str, object]]) -> dict[str, object]:
    steps = {"step_ms": step_ms, "range_ms": [step_ms - 0.5, step_ms + 0.5], "step_source": "measured"}
    return {"steps": steps, "sites": sites, "seconds": 12.0, "ledger": [{"what": "regular", "ms": 9000.0}]}


def site(file: str, line: int, cause: str) -> dict[str, object]:
    return {"file": file, "line": line, "cause": cause}


SEEN = {
    "steps": 200,
    "lines": [
        {"user": ["/clones/nanoGPT/train.py", 40, "train"], "library": None, "count": 200},
        {"user": ["/clones/nanoGPT/train.py", 50, "train"], "library": None, "count": 20},
        {"user": None, "library": None, "count": 1},
    ],
    "later": [{"user": ["/clones/nanoGPT/train.py", 90, "evaluate"], "library": None, "count": 4}],
}


def test_a_step_is_right_within_three_percent_or_the_truth_s_own_spread() -> None:
    truth = [{"regular_ms": 9.0}, {"regular_ms": 11.0}]
    assert verdict({"truth": truth, "pinprof": [profiled(10.9, [])]})["right"]
    assert not verdict({"truth": truth, "pinprof": [profiled(10.9, []), profiled(11.2, [])]})["right"]
    assert verdict({"truth": truth[:1], "pinprof": [profiled(9.2, [])]})["right"]
    assert not verdict({"truth": truth[:1], "pinprof": []})["right"]
    judged = verdict({"truth": [], "pinprof": [profiled(10.0, [])]})
    assert (judged["ledger_s"], judged["wall_s"]) == ([9.0], [12.0])


def repeated(step_ms: float, low: float, high: float) -> dict[str, object]:
    """Return what `pinprof run --repeat` reports: a range for other runs, beside that of the run itself."""
    steps = {"step_ms": step_ms, "range_ms": [step_ms, step_ms], "step_source": "measured"}
    return {"steps": {**steps, "runs": {"range_ms": [low, high]}}, "seconds": 60.0, "ledger": [{"ms": 9000.0}]}


def test_the_range_of_repeated_runs_is_held_against_the_median_truth() -> None:
    truths = [{"regular_ms": 9.0}, {"regular_ms": 10.0}, {"regular_ms": 14.0}]
    judged = verdict({"truth": truths, "pinprof": [repeated(10.2, 8.5, 12.0), repeated(11.0, 10.5, 15.0)]})
    assert judged["ranges_ms"] == [(8.5, 12.0), (10.5, 15.0)]
    assert judged["holds"] == [True, False]
    assert judged["off"] == pytest.approx([0.02, 0.1])
    assert judged["ledger_s"] == []  # of one process, where the wall time is that of all


class Machine:
    """Stands for the processes that an exam starts; `took_s` is how long each takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, took_s: float) -> None:
        self.ran: list[str] = []
        self._took_s, self._now_s = took_s, 0.0
        monkeypatch.setattr("scripts.exam.run", self.run)
        monkeypatch.setattr("scripts.examination.processes.run", self.run)
        monkeypatch.setattr("scripts.exam.time.perf_counter", lambda: self._now_s)
        monkeypatch.setattr("scripts.exam.machine_of", lambda _: {"gpu": "none"})

    def run(self, _: Place, command: list[str], environment: dict[str, str], seconds: float, log: Path) -> Ended:
        """Write what a process would, unless its time is up."""
        if "report" in command:
            steps = {"step_ms": 10.0, "range_ms": [9.0, 11.0], "step_source": "measured"}
            trace = {"steps": steps, "syncs": {"sites": []}, "missing": [], "findings": []}
            Path(command[command.index("--json") + 1]).write_text(json.dumps({"traces": [trace]}))
            return Ended(0, 1.0, "")
        mode = environment.get("EXAM_MODE", "pinprof")
        if mode == "lines":
            return Ended(1, 0.0, "")
        self.ran.append(mode)
        self._now_s += min(seconds, self._took_s)
        if seconds < self._took_s:
            return Ended(None, seconds, "epoch 1")
        if environment:
            Path(f"{environment['EXAM_OUT']}.1.json").write_text(json.dumps(noted([10.0] * 40)))
        else:
            log.with_suffix(".gz").touch()
        return Ended(0, self._took_s, "")


OPTIONS = {"seconds": 1000.0, "turns": 2, "jobs": 1, "repeat": 3, "patience": 100.0}


def test_programs_are_run_in_turns_and_get_a_line_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, took_s=10.0)
    Exam(tmp_path, OPTIONS).hold([Place(Program(name, "", ("x.py",)), tmp_path) for name in ("one", "two")])
    assert machine.ran == ["truth", "pinprof", "truth", "pinprof", "truth"] * 2
    lines = [json.loads(line) for line in (tmp_path / "exam.jsonl").read_text().splitlines()]
    assert [(line["program"], line["cut"]) for line in lines] == [("one", False), ("two", False)]
    assert lines[0]["verdict"]["holds"] == [True, True]
    assert "| two | 10.00" in (tmp_path / "exam.md").read_text()


def test_the_end_of_the_time_cuts_a_program_short_and_a_second_call_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [Place(Program(name, "", ("x.py",)), tmp_path) for name in ("one", "two", "three")]
    machine = Machine(monkeypatch, took_s=10.0)
    Exam(tmp_path, {**OPTIONS, "seconds": 30.0 + 35.0}).hold(places)  # 30 s are for reports
    assert machine.ran == ["truth", "pinprof", "truth", "pinprof"]
    again = Machine(monkeypatch, took_s=10.0)
    exam = Exam(tmp_path, OPTIONS)
    assert {name: entry["cut"] for name, entry in exam.examined.items()} == {"one": True}
    exam.hold(places)
    assert again.ran == ["truth", "pinprof", "truth", "pinprof", "truth"] * 3
    assert {name: entry["cut"] for name, entry in Exam(tmp_path, OPTIONS).examined.items()} == dict.fromkeys(
        ("one", "two", "three"), False
    )


def test_lines_are_found_missing_or_wrong() -> None:
    sites = [site("train.py", 40, "item"), site("train.py", 60, "item"), site("train.py", 70, "device_synchronize")]
    sites.append(site("train.py", 90, "seen_elsewhere"))
    sites.append({**site("train.py", 95, "seen_elsewhere"), "steps": 1})
    unplaced: dict[str, object] = {"file": None, "line": None, "cause": "item"}
    judged = verdict({"truth": [], "pinprof": [profiled(10.0, [*sites, unplaced])], "lines": SEEN})
    assert judged["unplaced"] == [1]
    assert judged["lines"] == 2
    assert judged["found"] == [1]
    assert judged["missing"] == ["nanoGPT/train.py:50"]
    assert judged["wrong"] == ["train.py:60 (item)"]
    assert judged["also"] == ["train.py:70 (device_synchronize)", "train.py:95 (seen_elsewhere)"]


def test_the_table_has_a_row_for_each_program_also_for_one_that_failed() -> None:
    text = table(
        {
            "one": {
                "truth": [{"regular_ms": 10.0, "mean_ms": 12.0, "median_ms": 9.0}],
                "pinprof": [profiled(10.1, [])],
                "lines": SEEN,
            },
            "two": {
                "truth": [{"error": "No | module"}],
                "pinprof": [{"error": "no trace was written", "seconds": 3.0}],
            },
        }
    )
    assert (
        "| one | 10.00 (10.00 to 10.00) | 12.00 / 9.00 | 10.10 (9.60 to 10.60) | +1.0 % | 0 of 2 | 0 | 9.0 / 12.0 |"
        in text
    )
    assert r"truth: No \| module<br>pinprof: no trace was written" in text
    assert "1 of 2 steps right; 0 of 2 lines found, 0 wrong." in text
    assert "0 of 0 steps right" in table({})


def test_the_sums_count_ranges_and_bias_without_programs_that_were_cut_short() -> None:
    truth = [{"regular_ms": 10.0, "mean_ms": 10.0, "median_ms": 10.0}]
    runs = [repeated(10.2, 9.0, 12.0), repeated(9.6, 10.5, 12.0)], [repeated(10.3, 9.0, 12.0)]
    programs = {name: {"truth": truth, "pinprof": some} for name, some in zip(("one", "two"), runs, strict=True)}
    programs["three"] = {"truth": truth, "pinprof": [repeated(20.0, 19.0, 21.0)], "cut": True}
    words = "2 of 3 ranges hold; bias +1.0 % on average (standard error 2.0 %), median +1.0 %."
    assert words in table(programs)


def test_what_a_report_says_is_judged_without_the_profiler_s_waits() -> None:
    steps = {"step_ms": 5.0, "range_ms": [4.0, 6.0], "step_source": "measured", "host_ms": 7.0}
    waits = [
        {"file": "train.py", "line": 3, "cause": "item", "verdict": "hidden", "stack": []},
        {"verdict": "profiler"},
    ]
    trace = {"steps": steps, "syncs": {"sites": waits}, "missing": [], "findings": []}
    answer = judged_part(trace)
    assert answer["steps"] == {"step_ms": 5.0, "range_ms": [4.0, 6.0], "step_source": "measured"}
    assert [site["line"] for site in answer["sites"]] == [3]


def test_a_program_is_ended_when_its_time_is_up_with_all_that_it_started(tmp_path: Path) -> None:
    place = Place(Program("sleeper", "", ("sleeper.py",)), tmp_path)
    (tmp_path / "sleeper.py").write_text(
        "import subprocess, sys\nprint('started', flush=True)\nsubprocess.run([sys.executable, '-c', 'input()'])\n"
        "import time; time.sleep(60)"
    )
    ended = run(place, place.command(), {}, 1.0, tmp_path / "log")
    assert ended.status is None
    assert "started" in ended.tail


def test_a_program_that_asks_for_a_terminal_has_one(tmp_path: Path) -> None:
    place = Place(Program("asker", "", ("asker.py",), terminal=True), tmp_path)
    (tmp_path / "asker.py").write_text("import os\nprint(os.get_terminal_size(0))")
    assert run(place, place.command(), {}, 30.0, tmp_path / "log").last_line.endswith("columns=80, lines=24)")


WEIGHT = "import torch\nweight = torch.zeros(1, requires_grad=True)\noptimizer = torch.optim.SGD([weight])\n"


def note(folder: Path, code: str, mode: str, marker: str, calls: int = 1) -> Any:
    """Run a script of these lines until 8 steps are noted, `calls` of the marker each, and return the note."""
    place = Place(Program("script", "", ("script.py",), marker=marker, calls_per_step=calls), folder)
    (folder / "script.py").write_text(WEIGHT + code)
    ended, stamps = run_hooked(place, Hook(mode, 8, 0.0, 30.0), folder / "noted", 60.0)
    assert ended.status == 0, ended.tail
    return stamps


@pytest.mark.slow
def test_hooks_note_the_ends_of_steps_and_end_the_program(tmp_path: Path) -> None:
    code = "while True:\n    weight.sum().backward()\n    optimizer.step()\n"
    assert truth_of_run(note(tmp_path, code, "truth", "optimizer", 2))["steps"] == 6  # nine ends; two are skipped


@pytest.mark.slow
def test_a_program_that_ends_early_tells_its_steps_too(tmp_path: Path) -> None:
    code = "for _ in range(5):\n    weight.sum().backward()\n"
    assert len(note(tmp_path, code, "truth", "backward")["ends_ns"]) == 5


@pytest.mark.slow
def test_lines_are_counted_from_the_first_step_on_at_the_nearest_line_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages/library.py").write_text(
        "import warnings\ndef read():\n    warnings.warn('called a synchronizing CUDA operation')\n"
    )
    code = (
        "import sys, warnings\nsys.path.append('site-packages')\nimport library\n"
        "torch.cuda.set_sync_debug_mode = print\nlibrary.read()\nwhile True:\n    optimizer.step()\n"
        "    library.read()\n    warnings.warn('something else')\n    warnings.simplefilter('ignore')\n"
    )
    library = [str(tmp_path / "site-packages/library.py"), 3, "read"]
    assert note(tmp_path, code, "lines", "optimizer") == {
        "steps": 8,
        "lines": [{"user": [str(tmp_path / "script.py"), 11, "<module>"], "library": library, "count": 8}],
        "later": [],
    }


def test_a_program_gets_its_data_and_its_repairs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(monkeypatch, took_s=10.0)
    edits = (Edit("x.py", "batch = ", "256", "16"), Edit("x.py", "show(", "loss", "0", within="for "))
    (tmp_path / "x.py").write_text("batch = 256\nshow(loss)\nfor x in y:\n    show(loss)\n")
    place = Place(Program("one", "", ("x.py",), data=("tokens",), repairs=edits), tmp_path)
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        Exam(tmp_path / folder, OPTIONS).hold([place])
        assert (tmp_path / "x.py").read_text() == "batch = 16\nshow(loss)\nfor x in y:\n    show(0)\n"
    assert (tmp_path / "tokens.bin").exists()


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (Edit("x.py", "show(", "loss", "0"), "2 lines"),
        (Edit("x.py", "show(", "loss", "0", within="while"), "0 lines"),
        (Edit("x.py", "batch = ", "64", "16"), "not exactly once"),
    ],
)
def test_an_edit_fails_where_its_place_is_not_there_once(edit: Edit, why: str) -> None:
    with pytest.raises(PlaceError, match=why):
        edited(["batch = 256", "show(loss)", "for x in y:", "    show(loss)"], edit)


def test_pinprof_stands_between_the_launcher_and_the_script() -> None:
    place = Place(NAMED_PROGRAMS["fsdp2"], Path("/clones/examples"))
    command = place.command(profiled=["-o", "trace"])
    assert command[0] == sys.executable
    assert command[4:] == [
        "--nproc-per-node=2",
        "-m",
        "pinprof",
        "run",
        *("--warmup", "1", "--steps", "1"),
        "-o",
        "trace",
        "example.py",
    ]
    assert place.command(profiled=["--repeat", "3"])[3:] == [
        "run",
        *("--warmup", "1", "--steps", "1"),
        *("--repeat", "3", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "example.py"),
    ]
    assert place.command()[-2:] == ["--nproc-per-node=2", "example.py"]
