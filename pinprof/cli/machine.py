"""The user's bench of this machine, as an option of commands."""

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import click
from click.core import ParameterSource

from pinprof.cli.terminal import fail, say

if TYPE_CHECKING:
    from pinprof.bench.rates import Pinning
    from pinprof.trace.tables import Info

VARIABLE = "PINPROF_MACHINE"

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415


class MachineFile(NamedTuple):
    """A file of `pinprof bench --json`, and what it tells."""

    path: str
    pinning: "Pinning"
    is_default: bool
    """Whether the environment names it: then it applies only where it matters."""

    @property
    def words(self) -> str:
        """The option that names it, to append to a command."""
        return f" --machine {shlex.quote(self.path)}"


def _read(context: click.Context, option: click.Parameter, path: str | None) -> MachineFile | None:
    if path is None:
        return None
    from pinprof.bench.rates import read_machine
    from pinprof.bench.results import BenchError

    is_default = context.get_parameter_source(option.name or "") is ParameterSource.ENVIRONMENT
    try:
        return MachineFile(path, read_machine(path), is_default)
    except BenchError as error:
        fail(f"{VARIABLE}: {error}" if is_default else str(error))


machine_option = click.option(
    "--machine",
    metavar="BENCH.json",
    envvar=VARIABLE,
    show_envvar=True,
    type=click.Path(),
    callback=_read,
    help="Output of pinprof bench --json: the rates of copies that become pinned, and whether pinning pays.",
)


def say_if_of_other_gpu(machine: MachineFile | None, traces: "Iterable[Info]") -> None:
    """Warn if the bench is of another GPU than the traces."""
    names = sorted({device.name for info in traces for device in info.devices if device.name})
    if machine and names and (gpu := machine.pinning.rates.gpu) not in names:
        say(f"Note: {machine.path} was measured on {gpu}, the trace is of {' and '.join(names)}")
