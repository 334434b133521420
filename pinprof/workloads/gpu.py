"""Check that torch can use a GPU here, and that torch and the driver fit."""

import ctypes
import warnings

MAJOR, MINOR = 1000, 10
"""CUDA numbers its versions with these factors: 12040 is 12.4."""


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
    if driver // MAJOR < int(built_for.partition(".")[0]):
        return (
            f"{torch} is built for CUDA {built_for}, and the driver runs CUDA up to {spelled(driver)}; install a newer "
            f"driver, or a torch for CUDA {driver // MAJOR}"
        )
    return f"{torch} sees no GPU, though the driver fits; look at nvidia-smi and CUDA_VISIBLE_DEVICES"


def driver_version() -> int | None:
    """Return the newest version of CUDA that the driver runs, as CUDA numbers it; None without a driver."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int()
    return version.value if library.cuDriverGetVersion(ctypes.byref(version)) == 0 else None


def spelled(version: int) -> str:
    """Return a version of CUDA as people write it."""
    return f"{version // MAJOR}.{version % MAJOR // MINOR}"


def gpu_of_torch() -> str:
    """Return which GPUs torch uses, and whether its profiler records their kernels; torch must be able to use one."""
    import torch  # noqa: PLC0415  slow to load

    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    driver = driver_version()
    fits = f"torch {torch.__version__} for CUDA {torch.version.cuda}" + (
        f", driver for CUDA {spelled(driver)}" if driver else ""
    )
    recorded = (
        "torch's profiler records kernels"
        if _records_kernels()
        else "torch's profiler records no kernels here: CUPTI may lack permission, or another profiler runs"
    )
    return f"{', '.join(dict.fromkeys(names))} ({len(names)}); {fits}; {recorded}"


def _records_kernels() -> bool:
    import torch  # noqa: PLC0415

    from pinprof.capture.options import RecordingOptions  # noqa: PLC0415
    from pinprof.capture.window.trace_file import torch_profiler  # noqa: PLC0415

    with torch_profiler(RecordingOptions(), 0) as profiler:
        torch.ones(1, device="cuda").add_(1)
        torch.cuda.synchronize()
    return any(event.device_type.name == "CUDA" for event in profiler.events() or ())
