"""Options that several commands share: the page of a report with the user's own code, and the bench of this machine."""

import os
import shlex
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from pinprof.cli.terminal import fail, say

if TYPE_CHECKING:
    from pinprof.bench.rates import Pinning
    from pinprof.report.source import Code
    from pinprof.trace.tables import Info

# Imports of what computes stand in the functions: `pinprof --help` needs none of it.
# ruff: noqa: PLC0415

EDITOR_VARIABLE, MACHINE_VARIABLE = "PINPROF_EDITOR", "PINPROF_MACHINE"
HTML = click.option(
    "--html", "html_file", metavar="FILE", help="Also write a page with charts and an interactive timeline."
)
NO_SOURCE = click.option(
    "--no-source", is_flag=True, help="Quote no lines of your code, so that you can share the report."
)
EDITOR = click.option(
    "--editor",
    metavar="NAME",
    help="Link places in the page to an editor: vscode, cursor, zed, pycharm, ..., or a template such as "
    f"vscode://file/{{path}}:{{line}}  [env var: {EDITOR_VARIABLE}; default: no links].",
)


class HtmlPage(NamedTuple):
    """The page to write, if one is wanted, and how it shows the user's code."""

    file: str | None
    code: "Code"


def html_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options about the page to a command, which gets them as `html`."""

    @wraps(command)
    def with_html(*args: Any, html_file: str | None, no_source: bool, editor: str | None, **options: Any) -> None:
        command(*args, html=HtmlPage(html_file, code_of(editor, quotes=not no_source)), **options)

    return HTML(NO_SOURCE(EDITOR(with_html)))


def code_of(editor: str | None = None, *, quotes: bool = True) -> "Code":
    """Return how pages show code: with the editor of this name, else with that of the environment, if any.

    Raises PinprofError if there is no such editor.
    """
    from pinprof.report.source import Code, editor_of

    return Code(quotes, editor_of(os.environ.get(EDITOR_VARIABLE, "") if editor is None else editor))


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
        fail(f"{MACHINE_VARIABLE}: {error}" if is_default else str(error))


machine_option = click.option(
    "--machine",
    metavar="BENCH.json",
    envvar=MACHINE_VARIABLE,
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
