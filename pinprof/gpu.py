"""Check that torch can use a GPU here, that torch and the driver fit, and what GPU, link and CPU the machine has."""

import csv
import ctypes
import platform
import shutil
import subprocess
import warnings
from contextlib import suppress
from pathlib import Path

CUDA_MAJOR, CUDA_MINOR = 1000, 10
"""CUDA numbers its versions with these factors: 12040 is 12.4."""
SMI_FIELDS = ("driver_version", "pcie.link.gen.max", "pcie.link.width.max")
"""The fastest link that GPU and slot support: the present one is slower while the GPU is idle."""
PAGEABLE_MEMORY_ACCESS = 88
"""`CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS` of cuda.h, which torch does not have."""
CPU_INFO = Path("/proc/cpuinfo")


def why_no_gpu() -> str | None:
    """Return why torch cannot use a GPU, and the way out; None if it can."""
    try:
        import torch  # noqa: PLC0415  whether it can be imported is the question
    except ImportError:
        return "torch cannot be imported; install PyTorch with CUDA"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a driver that is too old or cannot be asked: said below
        if torch.cuda.is_available():
            return None
    return why_not(f"torch {torch.__version__}", torch.version.cuda, driver_version())


def why_not(torch: str, built_for: str | None, driver: int | None) -> str:
    """Return why a torch built for CUDA `built_for` sees no GPU; `driver` is the newest CUDA that the driver runs."""
    if built_for is None:
        here = "" if driver is None else f": the driver of this machine runs CUDA up to {spelled(driver)}"
        return f"{torch} is built without CUDA; install one with CUDA{here}"
    if driver is None:
        return f"{torch} finds no NVIDIA driver (libcuda.so.1); run it on a machine with one"
    if driver // CUDA_MAJOR < int(built_for.partition(".")[0]):
        return (
            f"{torch} is built for CUDA {built_for}, and the driver runs CUDA up to {spelled(driver)}; install a newer "
            f"driver, or a torch for CUDA {driver // CUDA_MAJOR}"
        )
    return f"{torch} sees no GPU, though the driver fits; look at nvidia-smi and CUDA_VISIBLE_DEVICES"


def driver_version() -> int | None:
    """Return the newest version of CUDA that the driver runs, as CUDA numbers it; None without a driver."""
    driver, version = _driver(), ctypes.c_int()
    return version.value if driver and driver.cuDriverGetVersion(ctypes.byref(version)) == 0 else None


def _driver() -> ctypes.CDLL | None:
    with suppress(OSError):
        return ctypes.CDLL("libcuda.so.1")
    return None


def spelled(version: int) -> str:
    """Return a version of CUDA as people write it."""
    return f"{version // CUDA_MAJOR}.{version % CUDA_MAJOR // CUDA_MINOR}"


def gpu_of_torch() -> str:
    """Return which GPUs torch uses, and whether its profiler records their kernels; torch must be able to use one."""
    import torch  # noqa: PLC0415  slow to load

    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    driver = driver_version()
    of_driver = f", driver for CUDA {spelled(driver)}" if driver else ""
    fits = f"torch {torch.__version__} for CUDA {torch.version.cuda}{of_driver}"
    recorded = "torch's profiler records kernels"
    if not _records_kernels():
        recorded = "torch's profiler records no kernels here: CUPTI may lack permission, or another profiler runs"
    return f"{', '.join(dict.fromkeys(names))} ({len(names)}); {fits}; {recorded}"


def _records_kernels() -> bool:
    import torch  # noqa: PLC0415

    from pinprof.capture.options import RecordingOptions  # noqa: PLC0415
    from pinprof.capture.window.trace_file import torch_profiler  # noqa: PLC0415

    with torch_profiler(RecordingOptions(), 0) as profiler:
        torch.ones(1, device="cuda").add_(1)
        torch.cuda.synchronize()
    return any(event.device_type.name == "CUDA" for event in profiler.events() or ())


def link_and_driver() -> tuple[str | None, int | None, int | None]:
    """Return driver, PCIe generation and PCIe width of the current GPU, as far as nvidia-smi says."""
    import torch  # noqa: PLC0415

    identity = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
    chosen = [f"--id=GPU-{identity}"] if identity else []  # an index would be wrong where some are hidden
    fields = f"--query-gpu={','.join(SMI_FIELDS)}"
    command = [shutil.which("nvidia-smi") or "", *chosen, fields, "--format=csv,noheader"]
    try:
        return parsed_link(subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None, None, None


def parsed_link(smi: str) -> tuple[str | None, int | None, int | None]:
    """Return the same out of an answer of nvidia-smi."""
    cells = [cell.strip() for cell in next(csv.reader(smi.splitlines()), [])]
    if len(cells) != len(SMI_FIELDS):
        return None, None, None
    generation, width = (int(cell) if cell.isdecimal() else None for cell in cells[1:])
    return cells[0] or None, generation, width


def name_of_cpu() -> str | None:
    """Return the processor's name, or None."""
    info = CPU_INFO.read_text(errors="replace") if CPU_INFO.exists() else ""
    names = (line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name"))
    return next(filter(None, names), platform.processor()) or None


def can_access_pageable() -> bool | None:
    """Return whether kernels of the first GPU may read pageable memory in place; None if the driver does not say."""
    driver, handle, answer = _driver(), ctypes.c_int(), ctypes.c_int()
    if driver is None:
        return None
    failed = driver.cuDeviceGet(ctypes.byref(handle), 0)
    failed = failed or driver.cuDeviceGetAttribute(ctypes.byref(answer), PAGEABLE_MEMORY_ACCESS, handle)
    return None if failed else bool(answer.value)
