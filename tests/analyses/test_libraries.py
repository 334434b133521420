"""Waits in libraries: each function of a library that one line of the user calls is a site of its own."""

from collections import Counter

from detector import FOLDER, LOSS, NMS, STEPS, WAITS, detector, in_detector
from trace_builder import TraceBuilder

from pinprof.analyses.syncs.sites import Site, measure_syncs
from pinprof.trace.lines import Place


def sites_of(builder: TraceBuilder) -> tuple[Site, ...]:
    return measure_syncs(builder.read()).sites


def test_each_library_function_that_a_line_calls_is_a_site() -> None:
    sites = sites_of(detector())
    assert Counter((site.line, str(site.library) if site.library else None, site.cause) for site in sites) == Counter(
        [
            *((30, f"{FOLDER}/transform.py:245", "item"), (30, f"{FOLDER}/_utils.py:60", "nonzero")),
            *((30, "torchvision/ops/boxes.py:83", "nonzero"), (30, f"{FOLDER}/roi_heads.py:32", "nonzero")),
            *((30, f"{FOLDER}/roi_heads.py:32", "mask_index"), (30, f"{FOLDER}/roi_heads.py:40", "nonzero")),
            *((32, None, "item"), (60, "torchvision/ops/boxes.py:83", "nonzero")),
        ]
    )
    assert {site.total.count for site in sites} == {STEPS}


def test_one_library_line_that_is_reached_in_two_ways_is_one_site() -> None:
    ways = [in_detector("aten::nonzero", "nonzero", NMS, f"{FOLDER}/{file}") for file in ("rpn.py:1:f", "ssd.py:2:g")]
    (site,) = sites_of(detector(ways))
    assert site.total.count == 2 * STEPS
    assert site.path[-1] == NMS


def test_a_line_that_moved_is_the_same_wait_and_another_function_is_not() -> None:
    moved = in_detector("aten::nonzero", "nonzero", LOSS.replace(":32:", ":99:"), line=31)
    other = in_detector("aten::nonzero", "nonzero", LOSS.replace("fastrcnn", "maskrcnn"))
    same, again, unlike = (sites_of(detector([wait]))[0].identity for wait in (WAITS[3], moved, other))
    assert same == again
    assert same != unlike


def with_functions(call: str = "cudaStreamSynchronize") -> TraceBuilder:
    """In each step two functions of a library, which the user's function calls, wait as long as each other."""
    builder = TraceBuilder()
    for start in builder.steps(3):
        builder.function("train.py(3): train", start + 5, 900)
        for position, name in enumerate(("nms", "clip")):
            at = start + 100 + 300 * position
            builder.function(f"torchvision/ops/boxes.py({position + 1}): {name}", at, 200)
            builder.function("torch/functional.py(9): where", at + 5, 150)
            builder.kernel(at + 20, 60, launch=at + 10)
            builder.op("aten::nonzero", at + 30, 60)
            builder.call(call, at + 40, 45)
        builder.kernel(start + 800, 50, launch=start + 790)
    return builder


def test_without_recorded_lines_the_functions_of_a_trace_tell_the_library_without_a_line() -> None:
    sites = sites_of(with_functions())
    assert {(site.place, site.library) for site in sites} == {
        (Place("train.py", None, "train"), Place("torchvision/ops/boxes.py", None, name)) for name in ("nms", "clip")
    }
    assert {site.path for site in sites} == {
        ("train.py:3:train", f"torchvision/ops/boxes.py:{line}:{name}") for line, name in ((1, "nms"), (2, "clip"))
    }


def test_launches_that_are_held_up_are_not_told_apart_by_library() -> None:
    builder = with_functions("cudaLaunchKernel")
    for start in range(0, 3000, 1000):
        for at in (100, 400):
            builder.overhead("Command Buffer Full", start + at + 42, 40)
    (site,) = sites_of(builder)
    assert (site.cause, site.total.count, site.library, site.path) == ("queue_full", 6, None, ())
