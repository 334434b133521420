from trace_builder import SIDE, TraceBuilder

from pinprof.analyses.copies import CopyGroup, measure_copies


def groups_of(builder: TraceBuilder) -> dict[tuple[str, str], CopyGroup]:
    groups = measure_copies(builder.read())
    return {(group.direction, group.host_memory): group for group in groups}


def test_copies_are_grouped_by_direction_and_host_memory() -> None:
    builder = TraceBuilder()
    builder.copy("HtoD (Pageable -> Device)", 0, 100, launch=0, size=1_000_000)
    builder.copy("HtoD (Pinned -> Device)", 100, 100, launch=1, size=5_000_000)
    builder.copy("HtoD (Pinned -> Device)", 200, 100, launch=2, size=5_000_000)
    builder.copy("DtoH (Device -> Pinned)", 300, 10, launch=3, size=4)
    builder.copy("DtoD (Device -> Device)", 400, 10, launch=4, size=4)
    builder.copy("HtoD (Host -> Device)", 500, 10, launch=5, size=4)
    groups = groups_of(builder)
    assert {kind: group.copied.count for kind, group in groups.items()} == {
        ("HtoD", "pageable"): 1,
        ("HtoD", "pinned"): 2,
        ("DtoH", "pinned"): 1,
        ("DtoD", "none"): 1,
        ("HtoD", "unknown"): 1,
    }
    assert groups["HtoD", "pinned"].copied.bytes == 10_000_000
    assert groups["HtoD", "pinned"].copied.time_ns == 200_000
    assert groups["HtoD", "pinned"].copied.bandwidth_gbps == 50.0


def test_each_copy_is_split_by_the_kernels_of_its_own_device() -> None:
    builder = TraceBuilder()
    builder.kernel(50, 100, launch=0)
    builder.copy("HtoD (Pinned -> Device)", 0, 100, launch=1, stream=SIDE)  # 50 before the kernel, 50 under it
    builder.copy("HtoD (Pinned -> Device)", 0, 100, launch=2, stream=SIDE, device=1)  # no kernel there
    group = groups_of(builder)["HtoD", "pinned"]
    assert group.copied.time_ns == 200_000
    assert (group.hidden.overlapped_ns, group.hidden.exposed_ns) == (50_000, 150_000)


def test_a_rate_is_made_of_the_copies_whose_size_is_recorded() -> None:
    builder = TraceBuilder()
    builder.copy("HtoD (Pinned -> Device)", 0, 100, launch=0, size=1_000_000)
    builder.copy("HtoD (Pinned -> Device)", 200, 100, launch=1)
    del builder.events[-1]["args"]["bytes"]
    assert groups_of(builder)["HtoD", "pinned"].copied.bandwidth_gbps == 10.0
