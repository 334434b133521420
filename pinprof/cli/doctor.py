"""`pinprof doctor`: say what is installed here, what is missing, and whether torch and the driver fit."""

import platform

import click

from pinprof.cli.terminal import show
from pinprof.packages import PACKAGES, Package
from pinprof.version import VERSION

PACKAGE_NAME_COLUMNS = 22
"""Columns for the name of a package."""


@click.command(short_help="Say what is installed here, what is missing, and what each is for.")
def doctor() -> None:
    """Say which packages are installed, what each missing one is for, and whether torch and the GPU's driver fit.

    On a machine with a GPU it records one small kernel, which shows whether torch's profiler works there. Reading and
    reporting need neither torch nor HTA: `pip install --no-deps pinprof`, with pinprof/reading.txt for the rest.

    \b
    Examples:
      pinprof doctor
    """  # noqa: D301  click looks for the backspace itself
    show(f"pinprof {VERSION} on Python {platform.python_version()}, {platform.system()} {platform.machine()}\n")
    packages = [package for package in PACKAGES if package.is_needed]
    show("\nWith pinprof\n" + "".join(_package_line(package) for package in packages if not package.extra))
    show("\nBy its extras\n" + "".join(_package_line(package) for package in packages if package.extra))
    show(f"\nGPU\n  {_gpu()}\n")


def _package_line(package: Package) -> str:
    state = package.version or f"missing, for {package.use.replace('`', '')}: {package.install}"
    return f"  {package.name:{PACKAGE_NAME_COLUMNS}} {state}\n"


def _gpu() -> str:
    from pinprof.gpu import gpu_of_torch, why_no_gpu

    return why_no_gpu() or gpu_of_torch()
