"""How fast CPU and GPU run, and how busy the machine is, while a version runs."""

import os
import shutil
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

EVERY_S = 0.5
GPU_EVERY_S = 2.0
"""How often to ask nvidia-smi, which takes some 50 ms."""
WITHIN_S = 10.0


@dataclass(frozen=True)
class Clocks:
    """Medians over a run; None where the machine does not tell."""

    cpu_mhz: float | None
    gpu_mhz: float | None
    load: float | None
    """How many threads ran or wanted to run: the load average of the last minute."""
    cores: int


class Watch:
    """Looks at the clocks every `every_s`."""

    every_s = EVERY_S

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._cpu: list[float] = []
        self._gpu: list[float] = []
        self._load: list[float] = []
        self._asked = 0.0
        self._smi = shutil.which("nvidia-smi")

    @property
    def seconds(self) -> float:
        """How long it has watched."""
        return time.monotonic() - self._start

    def look(self) -> None:
        """Note the clocks now."""
        with suppress(OSError, ValueError):
            self._load.append(float(Path("/proc/loadavg").read_text().split()[0]))
        with suppress(OSError, ValueError):
            rows = Path("/proc/cpuinfo").read_text().splitlines()
            self._cpu.append(median(float(row.partition(":")[2]) for row in rows if row.startswith("cpu MHz")))
        if self._smi and time.monotonic() - self._asked >= GPU_EVERY_S:
            self._asked = time.monotonic()
            self._gpu += _gpu_mhz(self._smi)

    def clocks(self) -> Clocks:
        """Return what it has seen; of a GPU the fastest, which it is while it works."""
        fastest = max(self._gpu, default=None)
        return Clocks(_median(self._cpu), fastest, _median(self._load), os.cpu_count() or 1)


def _median(values: list[float]) -> float | None:
    return median(values) if values else None


def _gpu_mhz(smi: str) -> list[float]:
    command = [smi, "--query-gpu=clocks.sm", "--format=csv,noheader,nounits"]
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        told = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=True)  # noqa: S603
        return [max(float(row) for row in told.stdout.split())]
    return []
