"""Flame graphs: what is gathered of the sampled host and of the waits, and what the page gets of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from host_builder import host_profile
from hypothesis import given
from hypothesis import strategies as st
from wait_builder import HOSTILE, waiting

from pinprof.report.charts.chart import Key
from pinprof.report.charts.flame import (
    BOXES_IN_WIDTH,
    FlameFrame,
    FlameGraph,
    boxes_of_paths,
    fragment,
    host_flame,
    waits_flame,
)
from pinprof.report.charts.flame import Path as CallPath
from pinprof.report.trace.page import to_html

OWN = Key("your code", "#ffffff")


def frame_named(name: str) -> FlameFrame:
    return FlameFrame(name, f"{name}.py:1", OWN)


ROOT = frame_named("all")


def paths_of(graph: FlameGraph | None) -> dict[str, tuple[float, ...]]:
    """Return the own values of each box that has any, by its path."""
    assert graph
    names: list[str] = []
    for box in graph.boxes:
        names.append(f"{names[box.parent]} > {box.frame.name}" if box.parent >= 0 else box.frame.name)
    return {name: tuple(box.own) for name, box in zip(names, graph.boxes, strict=True) if any(box.own)}


# the tree


def test_a_box_has_its_own_time_and_that_of_all_below_it() -> None:
    f, g = frame_named("f"), frame_named("g")
    boxes = boxes_of_paths(ROOT, [CallPath((f, g), (3.0,)), CallPath((f,), (1.0,)), CallPath((g,), (5.0,))], 1)
    rows = [(box.frame.name, box.parent, box.total, box.own) for box in boxes]
    assert rows == [("all", -1, [9.0], [0.0]), ("g", 0, [5.0], [5.0]), ("f", 0, [4.0], [1.0]), ("g", 2, [3.0], [3.0])]


def test_what_cannot_be_seen_is_left_out_but_counts_above() -> None:
    f, g = frame_named("f"), frame_named("g")
    boxes = boxes_of_paths(ROOT, [CallPath((f,), (2.0 * BOXES_IN_WIDTH, 0.0)), CallPath((f, g), (1.0, 0.0))], 2)
    assert [(box.frame.name, box.total[0]) for box in boxes] == [
        ("all", 2 * BOXES_IN_WIDTH + 1),
        ("f", 2 * BOXES_IN_WIDTH + 1),
    ]
    wide_in_other = boxes_of_paths(ROOT, [CallPath((f,), (2.0 * BOXES_IN_WIDTH, 0.0)), CallPath((f, g), (1.0, 7.0))], 2)
    assert [box.frame.name for box in wide_in_other] == ["all", "f", "g"]


@given(st.lists(st.tuples(st.lists(st.sampled_from("abc"), max_size=5), st.integers(1, 9)), min_size=1, max_size=30))
def test_the_times_add_up(stacks: list[tuple[list[str], int]]) -> None:
    boxes = boxes_of_paths(
        ROOT, [CallPath(tuple(map(frame_named, names)), (float(count),)) for names, count in stacks], 1
    )
    assert boxes[0].total == [sum(count for _, count in stacks)]
    for number, box in enumerate(boxes):
        below = sum(other.total[0] for other in boxes if other.parent == number)
        assert box.total[0] == box.own[0] + below
        assert box.parent < number


# the host and the waits


def test_samples_are_gathered_by_line(tmp_path: Path) -> None:
    samples = host_profile(
        (60, "train.py:9:<module> > model.py:4:forward > torch/nn/linear.py:5:forward"),
        (30, "train.py:9:<module> > model.py:3:forward"),
        (10, "train.py:8:<module> > torch/utils/data/dataloader.py:7:__next__"),
    )
    graph = host_flame(waiting(tmp_path, samples).profile)
    assert paths_of(graph) == {
        "the main thread > train.py > forward > forward": (60.0,),
        "the main thread > train.py > forward": (30.0,),
        "the main thread > train.py > __next__": (10.0,),
    }
    assert graph
    assert [box.frame.place for box in graph.boxes[:4]] == ["", "train.py:9", "train.py:8", "model.py:4"]
    assert [kind.label for kind in graph.kinds] == ["torch", "your code", "DataLoader"]
    assert graph.measures[0].ns is None  # the step without the profiler is only estimated


def test_waits_stand_below_the_code_that_leads_to_them(tmp_path: Path) -> None:
    analysis = waiting(tmp_path)
    paths = paths_of(waits_flame(analysis.profile))
    item = "all waits > <module> > loop > log > item > .item(): aten::item"
    sync = "all waits > <module> > loop > torch.cuda.synchronize(): cudaDeviceSynchronize"
    assert set(paths) == {item, sync}
    count = analysis.profile.steps.count
    for cause, path in (("item", item), ("device_synchronize", sync)):
        ((_, cost),) = (wait for wait in analysis.profile.waits if wait[0].cause == cause)
        assert paths[path] == (cost.stall_ns / count, cost.idle_ns / count)


def test_without_recorded_stacks_there_is_no_graph_of_waits(tmp_path: Path) -> None:
    analysis = waiting(tmp_path, stacks=False)
    assert len(analysis.profile.waits) > 1
    assert waits_flame(analysis.profile) is None
    assert host_flame(analysis.profile) is None
    assert 'class="flame"' not in to_html([analysis])


# the page


def content(text: str) -> Any:
    return json.loads(text.split('<script type="application/json">')[1].split("</script>", maxsplit=1)[0])


def test_the_page_gets_each_frame_once(tmp_path: Path) -> None:
    graph = waits_flame(waiting(tmp_path).profile)
    assert graph
    got = content(fragment(graph))
    assert len(got["frames"]) == len({box.frame for box in graph.boxes})
    assert len(got["frame"]) == len(got["parent"]) == len(got["total"][1]) == len(graph.boxes)
    assert got["total"][0][0] == pytest.approx(graph.boxes[0].total[0], rel=1e-5)
    assert [measure["label"] for measure in got["measures"]] == ["stall", "GPU idle after"]


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    samples = host_profile((5, f"a.py:1:{HOSTILE}\x1b[31m"), (4, "b.py:2:f"))
    graph = host_flame(waiting(tmp_path, samples).profile)
    assert graph
    text = fragment(graph)
    assert HOSTILE not in text
    assert any(HOSTILE in name for name, *_ in content(text)["frames"])
    assert "\x1b" not in text
    assert "\\u001b" not in text
