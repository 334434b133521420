"""Options that several commands share: quoted code, and the bench of the machine."""

import os
import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import click
from click.core import ParameterSource

from pinprof.cli.terminal import fail, say

if TYPE_CHECKING:
    from pinprof.prediction.pinning import Pinning
    from pinprof.report.source import Code
    from pinprof.trace.metadata.info import Info

EDITOR_VARIABLE, MACHINE_VARIABLE = "PINPROF_EDITOR", "PINPROF_MACHINE"


NO_SOURCE = click.option(
    "--no-source", is_flag=True, help="Quote no lines of your code, so that you can share the report."
)


def code_of(*, quotes: bool = True) -> "Code":
    """Return how pages show code, with the editor of the environment. Raises PinprofError if that is unknown."""
    from pinprof.report.source import Code, editor_of

    return Code(quotes, editor_of(os.environ.get(EDITOR_VARIABLE, "")))


class MachineFile(NamedTuple):
    """A file of `pinprof bench --json`, and what it says about pinned memory."""

    path: str
    pinning: "Pinning"
    is_default: bool
    """Whether the environment names it: then it applies only where it matters."""

    @property
    def words(self) -> str:
        """The option that names it, to append to a command."""
        return f" --machine {shlex.quote(self.path)}"


def _read_machine(context: click.Context, option: click.Parameter, path: str | None) -> MachineFile | None:
    if path is None:
        return None
    from pinprof.bench.advice import read_machine
    from pinprof.bench.results import BenchError

    is_default = context.get_parameter_source(option.name or "") is ParameterSource.ENVIRONMENT
    try:
        return MachineFile(path, read_machine(path), is_default)
    except BenchError as error:
        fail(f"{MACHINE_VARIABLE}: {error}" if is_default else str(error))


machine_option = click.option(
    "--machine",
    metavar="BENCH.json",
    envvar=MACHINE_VARIABLE,
    show_envvar=True,
    type=click.Path(),
    callback=_read_machine,
    help="A file of pinprof bench --json: how fast copies that become pinned are, and whether pinning pays.",
)


def say_if_of_other_gpu(machine: MachineFile | None, traces: "Iterable[Info]") -> None:
    """Warn if the bench was measured on another GPU than the traces."""
    names = sorted({device.name for info in traces for device in info.devices if device.name})
    if machine and names and (gpu := machine.pinning.rates.gpu) not in names:
        say(f"Note: {machine.path} was measured on {gpu}, the trace is of {' and '.join(names)}")
