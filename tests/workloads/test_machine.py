"""What nvidia-smi and /proc/cpuinfo say, read; None where they do not."""

import pytest

from pinprof.workloads.machine import cpu_name, link


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("570.86.15, 5, 16\n", ("570.86.15", 5, 16)),
        ("570.86.15, [N/A], [Not Supported]\n", ("570.86.15", None, None)),
        ("570.86.15, 5, 16\n570.86.15, 4, 8\n", ("570.86.15", 5, 16)),
        ("", (None, None, None)),
        ("NVIDIA-SMI has failed\n", (None, None, None)),
    ],
)
def test_link_of_the_gpu(answer: str, expected: tuple[str | None, int | None, int | None]) -> None:
    assert link(answer) == expected


def test_name_of_the_processor() -> None:
    assert cpu_name("processor : 0\nmodel name\t: Xeon : 8480\nmodel name : other\n") == "Xeon : 8480"
