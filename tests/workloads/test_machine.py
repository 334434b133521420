"""What nvidia-smi and /proc/cpuinfo say, read; None where they do not."""

import ctypes
from typing import Any

import pytest

from pinprof.workloads.machine import PAGEABLE_MEMORY_ACCESS, can_access_pageable, cpu_name, link


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


class FakeDriver:
    """Answers as libcuda does: by writing through the pointer, and with 0 for success."""

    def __init__(self, answer: int, fails: str = "") -> None:
        self.answer, self.fails = answer, fails

    def cuDeviceGet(self, handle: Any, ordinal: int) -> int:  # noqa: N802  the driver's name
        handle._obj.value = 40 + ordinal
        return int(self.fails == "device")

    def cuDeviceGetAttribute(self, answer: Any, attribute: int, handle: ctypes.c_int) -> int:  # noqa: N802
        assert (attribute, handle.value) == (PAGEABLE_MEMORY_ACCESS, 41)
        answer._obj.value = self.answer
        return int(self.fails == "attribute")


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        (FakeDriver(1), True),
        (FakeDriver(0), False),
        (FakeDriver(1, fails="device"), None),
        (FakeDriver(1, fails="attribute"), None),
    ],
)
def test_whether_the_gpu_can_access_pageable_memory_the_driver_says(
    driver: FakeDriver, expected: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: driver)
    assert can_access_pageable(1) is expected


def test_without_a_driver_it_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert can_access_pageable(0) is None
