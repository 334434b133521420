"""What the processes are asked is Python text: `eval` is a function that they know by name."""

import gc
import os
from pathlib import Path

import pytest

from pinprof.processes import in_processes, without_collections

DIES = "__import__('os')._exit(9)"
IS_OUT_OF_MEMORY = "(_ for _ in ()).throw(MemoryError)"


def evaluated(*texts: str, count: int = 2) -> dict[str, object]:
    return dict(in_processes(eval, texts, count))


def test_each_thing_is_given_back_with_its_result() -> None:
    assert evaluated("1 + 1", "2 + 2", "3 + 3") == {"1 + 1": 2, "2 + 2": 4, "3 + 3": 6}


def test_nothing_needs_no_process() -> None:
    assert evaluated() == {}


def test_the_work_is_not_done_here_nor_all_in_one_process() -> None:
    pids = evaluated(*(f"{number} * 0 + __import__('os').getpid()" for number in range(8)))
    assert len(set(pids.values())) == 2
    assert os.getpid() not in pids.values()


@pytest.mark.parametrize("fatal", [DIES, IS_OUT_OF_MEMORY])
@pytest.mark.parametrize("count", [1, 2])
def test_a_process_that_dies_costs_no_other_result(fatal: str, count: int) -> None:
    assert evaluated("1", fatal, "2", "3", count=count) == {"1": 1, "2": 2, "3": 3, fatal: None}


def test_what_died_is_tried_once_more_alone(tmp_path: Path) -> None:
    """It dies unless it has been tried before, as where all together were too much for the memory."""
    mark = tmp_path / "tried"
    second = f"__import__('pathlib').Path({str(mark)!r}).exists() and 'done'"
    first = f"__import__('pathlib').Path({str(mark)!r}).touch() or __import__('os')._exit(9)"
    text = f"{second} or ({first})"
    assert evaluated(text, "1") == {text: "done", "1": 1}


def test_what_is_printed_does_not_get_among_the_results(capfd: pytest.CaptureFixture[str]) -> None:
    assert evaluated("print('noise') or 1") == {"print('noise') or 1": 1}
    assert capfd.readouterr().err == "noise\n"


def test_processes_end_with_the_one_who_asks() -> None:
    before = children()
    answers = in_processes(eval, ["1", "__import__('time').sleep(60)"], 2)
    next(answers)
    assert children() - before
    answers.close()
    assert children() == before


def children() -> set[int]:
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


def test_collections_are_left_off_only_meanwhile() -> None:
    with without_collections():
        assert not gc.isenabled()
        with without_collections():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
