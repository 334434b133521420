"""Outputs, one-line errors, progress and signals: what all commands do at the terminal."""

import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVar

import click

from pinprof.ground import outputs
from pinprof.ground.errors import PinprofError
from pinprof.ground.standard_streams import is_terminal, own_error, program_may_replace_streams
from pinprof.ground.urls import local_path, redacted

Command = TypeVar("Command", bound=Callable[..., Any])

UNUSABLE_STATUS = 2
PIPED_COLUMNS = 100
"""Columns of a text if standard output is not a terminal, and COLUMNS is not set."""
NARROWEST_COLUMNS, WIDEST_COLUMNS = 40, 10_000
"""The least columns for which a text is laid out, and the most that COLUMNS may say."""
ASCII_REPLACEMENTS = str.maketrans(
    {"█": "#", "▓": "=", "▒": "~", "░": ".", "─": "-", "→": "->", "·": "|", "…": "...", "µ": "u", "±": "+-", "←": "<-"}
)
OUR_ERRORS = "backslashreplace"
"""What standard output and error do with characters that they cannot encode, while pinprof writes."""
_errors_before: dict[str, tuple[Any, str]] = {}
"""The standard streams whose error handler pinprof replaced, by name, each with the handler that it had."""
ENDING_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Ended(KeyboardInterrupt):
    """A signal that asks the program to end, raised like Ctrl-C so that both clean up alike."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    raise Ended(number)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let signals that ask the program to end interrupt the block, unless they are already ignored or handled."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = {signal.SIG_DFL, signal.default_int_handler}
    before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    ours = [number for number in ENDING_SIGNALS if before[number] in usual]
    for number in ours:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])


@contextmanager
def users_program() -> Iterator[None]:
    """Let the block run the user's program: signals have Python's default effect, and the streams are lent to it."""
    with usual_signals(), _usual_errors(), program_may_replace_streams():
        yield


@contextmanager
def _usual_errors() -> Iterator[None]:
    """Give standard output and error the error handlers in the block that Python set up for them."""
    ours = [(stream, errors) for name, (stream, errors) in _errors_before.items() if stream is getattr(sys, name)]
    for stream, errors in ours:
        stream.reconfigure(errors=errors)
    try:
        yield
    finally:
        for stream, _ in ours:
            with suppress(ValueError):  # the program closed it
                stream.reconfigure(errors=OUR_ERRORS)


@contextmanager
def usual_signals() -> Iterator[None]:
    """Give signals Python's default effect in the block."""
    ours = [number for number in ENDING_SIGNALS if signal.getsignal(number) is _end]
    for number in ours:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, _end)


def make_writable() -> None:
    """Make standard output and error accept every text, whatever their encoding, even if they are closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  open until we exit
        elif hasattr(stream, "reconfigure"):
            if stream.errors != OUR_ERRORS:
                _errors_before[name] = stream, stream.errors
            stream.reconfigure(errors=OUR_ERRORS)


def give_up_output() -> None:
    """Discard standard output and what its buffer holds: otherwise Python would complain about that at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str, status: int = UNUSABLE_STATUS) -> NoReturn:
    """Print the error in one line, without the secrets of a URL, and exit."""
    say(f"Error: {message}")
    sys.exit(status)


def on_one_line(message: str) -> str:
    """Return a message as one line without control characters, whatever file names it contains."""
    return "".join(character if character.isprintable() else " " for character in message)


def json_option(what: str) -> Callable[[Command], Command]:
    """Return the option that writes `what` as JSON; without a file its value is `-`, standard output."""
    return click.option(
        "--json",
        "json_file",
        metavar="[FILE]",
        is_flag=False,
        flag_value="-",
        help=f"Also write {what} as JSON; without FILE, or with -, print only the JSON.",
    )


force_option = click.option("--force", is_flag=True, help="Overwrite output files that exist.")


def check_outputs(
    paths: Iterable[str | None],
    *,
    force: bool,
    reads: Iterable[str | None] = (),
    way: str = "overwrite it with --force",
    replaces_own: bool = False,
) -> None:
    """Refuse outputs that cannot be written, or that the command reads: files, URLs, folders or patterns."""
    files = [path for path in paths if path is not None]
    inputs = _local_files(read for read in reads if read is not None)
    outputs.check_outputs(files, inputs, force=force, way=way, replaces_own=replaces_own)


def _local_files(reads: Iterable[str]) -> Iterator[str]:
    from pinprof.trace.files import trace_files

    for read in reads:
        if local_path(read) is None:
            continue
        try:
            files = trace_files(read)
        except PinprofError:  # reported when the command reads it
            files = [read]
        yield from filter(None, map(local_path, files))


def write(path: str, text: str, *, is_said: bool = True) -> None:
    """Write a text whole or not at all, and say where if `is_said`; `-` is standard output."""
    if path == outputs.STANDARD:
        show(text)
        return
    outputs.write_whole(Path(path), text)
    if is_said:
        say_written([path])


def print_result(to_text: Callable[..., str], to_json: Callable[[], str], json_file: str | None) -> None:
    """Print the text, as wide as the terminal, and write the JSON to its file; with `-`, print only the JSON."""
    if json_file != outputs.STANDARD:
        show_text(to_text)
    if json_file:
        write(json_file, to_json())


def say_written(paths: Sequence[str]) -> None:
    """Name the files that were written."""
    files = [path for path in paths if path != outputs.STANDARD]
    if files:
        say(f"Wrote {', '.join(files)}")


def show(text: str | bytes) -> None:
    """Write to standard output, unless its reader has closed it. Raises PinprofError if it is full."""
    try:
        click.echo(_encodable(text) if isinstance(text, str) else text, nl=False, color=True)
    except BrokenPipeError:
        give_up_output()
    except OSError as error:
        give_up_output()
        raise PinprofError(f"standard output: cannot be written ({error.strerror or error})") from error


def show_text(to_text: Callable[..., str], *args: Any, end: str = "", **options: Any) -> None:
    """Write what a function returns for standard output, of this width and with or without colours."""
    width, color = page_options()
    show(to_text(*args, width=width, color=color, **options) + end)


def _encodable(text: str) -> str:
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return text.translate(ASCII_REPLACEMENTS)
    return text


def page_options() -> tuple[int, bool]:
    """Return the width of standard output in columns, and whether it shows colours, as the environment asks."""
    columns = shutil.get_terminal_size((PIPED_COLUMNS, 24)).columns  # COLUMNS, the terminal's, or those of a pipe
    return min(max(columns, NARROWEST_COLUMNS), WIDEST_COLUMNS), _has_colors(on_terminal=is_terminal(sys.stdout))


def _has_colors(*, on_terminal: bool) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "0") not in {"", "0"} for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return on_terminal and os.environ.get("TERM") != "dumb"


def say(text: str) -> None:
    """Print a line to standard error, without the secrets of a URL."""
    with suppress(OSError, ValueError):  # there is nowhere left to report it
        click.echo(on_one_line(redacted(text)), file=own_error())


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """Show what pinprof is doing, on a terminal only; the block gets a function that changes the text."""
    if not is_terminal(sys.stderr):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(on_one_line(text))) as status:  # rich parses a str as its markup
        yield lambda text: status.update(Text(on_one_line(text)))


WINDOW_NAMES = {
    "warm-up": "warming up",
    "ranks": "waiting for the other ranks",
    "plain": "timing without profiler",
    "regular": "waiting for regular steps",
    "profiler warm-up": "starting the profiler",
    "recorded": "recording",
    "lines": "learning source lines",
    "watch": "looking for waits that come now and then",
    "optimizer": "waiting for an optimizer step",
    "end": "waiting for the script to end",
}

WHY_A_WINDOW_GOES_ON = {"warm-up": ", until their time is steady", "plain": ", until their mean is precise"}


@contextmanager
def step_counter() -> Iterator[Callable[[str, int, int], None]]:
    """Give a callback that shows on one line of the terminal what each step is used for; clear it at the end."""

    def write(text: str) -> None:
        stream = own_error()
        if is_terminal(stream):
            stream.write(f"\r\x1b[K{text}")
            stream.flush()

    def show(window: str, step: int, of: int) -> None:
        if window == "between":  # the line is the script's for hours
            if step == 1:
                write("")
            return
        number = f" of {of}" if step <= of else WHY_A_WINDOW_GOES_ON.get(window, "")
        write(f"pinprof: {WINDOW_NAMES.get(window, window)}" + (f", step {step}{number}" if step else ""))

    try:
        yield show
    finally:
        write("")
