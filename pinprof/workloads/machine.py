"""Describe the machine of the experiments: the GPU, its link to the host as the driver reports it, and the host."""

import csv
import ctypes
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import torch

from pinprof.bench.results import Machine
from pinprof.processes import available_cores

QUERY = ("driver_version", "pcie.link.gen.max", "pcie.link.width.max")
"""The fastest link that GPU and slot support: the present one is slower while the GPU is idle."""
PAGEABLE_MEMORY_ACCESS = 88
"""`CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS` of cuda.h."""
CPU_INFO = Path("/proc/cpuinfo")


def describe_machine() -> Iterator[Machine]:
    """Yield the machine with its current CUDA device, once."""
    driver, generation, width = link(nvidia_smi(torch.cuda.get_device_properties(torch.cuda.current_device())))
    yield Machine(
        gpu=torch.cuda.get_device_name(),
        driver=driver,
        cuda=torch.version.cuda,
        torch=str(torch.__version__),  # torch's own class, which JSON cannot encode
        python=platform.python_version(),
        cpu=cpu_name(CPU_INFO.read_text(errors="replace") if CPU_INFO.exists() else ""),
        cores=available_cores(),
        pcie_generation=generation,
        pcie_width=width,
    )


def can_access_pageable(device: int) -> bool | None:
    """Return whether kernels may read pageable memory in place, as the driver says; None if it does not say.

    This is CUDA's device attribute pageableMemoryAccess, which torch does not have.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    handle, answer = ctypes.c_int(), ctypes.c_int()
    if driver.cuDeviceGet(ctypes.byref(handle), device):
        return None
    if driver.cuDeviceGetAttribute(ctypes.byref(answer), PAGEABLE_MEMORY_ACCESS, handle):
        return None
    return bool(answer.value)


def cpu_name(info: str) -> str | None:
    """Return the processor's name out of the text of /proc/cpuinfo, or None."""
    lines = (line.partition(":") for line in info.splitlines())
    name = next((value.strip() for key, _, value in lines if key.strip() == "model name"), platform.processor())
    return name or None


def nvidia_smi(gpu: object) -> str:
    """Return what nvidia-smi says about the GPU with these properties; empty if it cannot be run."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    identity = getattr(gpu, "uuid", None)  # an index would be wrong where CUDA_VISIBLE_DEVICES hides some
    chosen = [f"--id=GPU-{identity}"] if identity else []
    command = [program, *chosen, f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ""


def link(answer: str) -> tuple[str | None, int | None, int | None]:
    """Return driver, PCIe generation and PCIe width out of an answer of nvidia-smi; None for what it does not have."""
    cells = [cell.strip() for cell in next(csv.reader(answer.splitlines()), [])]
    if len(cells) != len(QUERY):
        return None, None, None
    driver, generation, width = cells
    return driver or None, _number(generation), _number(width)


def _number(cell: str) -> int | None:
    return int(cell) if cell.isdecimal() else None
