"""`pinprof ab` and `pinprof bisect`: compare versions of a program by measurement."""

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pinprof.cli.terminal import Command, check_outputs, fail, force_option, json_option, print_result, say
from pinprof.standard_streams import is_terminal
from pinprof.temporary import temporary_folder
from pinprof.units import counted

if TYPE_CHECKING:
    from pinprof.ab import Judgement, Measurement, PairsProgress, ProgramVersion, RecordedChanges, Wishes
    from pinprof.ab.bisection import Attempt
    from pinprof.ab.checkout import Repository

NOT_SLOWER, SLOWER, CANNOT_TELL = 0, 1, 2
"""Exit status."""
WORKING_TREE = "working tree"
OVERTIME = 1.0
"""The share of --minutes by which a comparison goes on if all pairs agree but are too few to be certain."""
TELL_EVERY_S = 30.0
"""How often to tell the progress where no terminal shows it."""
MOST_LISTED = 4
"""Untracked files that a remark names."""


def positive_option(name: str, default: float, text: str) -> Callable[[Command], Command]:
    """Return an option whose value is above 0."""
    above_zero = click.FloatRange(min=0, min_open=True)
    return click.option(name, default=default, show_default=True, type=above_zero, help=text)


def seconds_option(default: float) -> Callable[[Command], Command]:
    """Return the option for the time that each process is measured."""
    return positive_option(
        "--seconds",
        default,
        "Seconds of steps to time in each process. Starting a process takes longer than that, so more seconds cost "
        "little; with DataLoader workers they allow more turns.",
    )


step_marker_option = click.option("--step-marker", metavar="MARKER", help="What marks a step, as for pinprof run.")


def measuring_options(command: Command) -> Command:
    """Add the options that say how versions are measured."""
    for option in reversed(
        (
            positive_option(
                "--limit-percent",
                2.0,
                "The smallest difference that matters, in percent of the step: pinprof measures until it can tell such "
                "a difference.",
            ),
            positive_option("--minutes", 10.0, "Minutes to measure at most, after a first run of each version."),
            click.option(
                "--turns",
                type=click.Choice(["auto", "steps", "runs"]),
                default="auto",
                show_default=True,
                help="steps: both versions are in memory and take turns every few steps, which shows much smaller "
                "differences on a busy machine. runs: one process runs after the other. auto: steps, unless the "
                "program has ranks, fills most of the GPU's memory, or has DataLoader workers and no room for several "
                "pairs at once.",
            ),
            seconds_option(3.0),
            step_marker_option,
            json_option("the result"),
            force_option,
        )
    ):
        command = option(command)
    return command


@click.command(short_help="Tell whether a program became slower: two versions in turns.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--base", metavar="REV", help="Compare with this git revision [HEAD].")
@click.option(
    "--patch", metavar="DIFF", help="Compare a revision (--base, else HEAD) without and with this unified diff."
)
@click.option("--against", metavar="COMMAND", help="Compare with this other command, in quotes; needs no git.")
@click.option("--no-trace", is_flag=True, help="Do not record a run of each version at the end to say what changed.")
@click.option("--traces", metavar="FOLDER", help="Keep the two recorded traces in this folder.")
@measuring_options
def ab(
    command: tuple[str, ...],
    *,
    base: str | None,
    patch: str | None,
    against: str | None,
    no_trace: bool,
    traces: str | None,
    json_file: str | None,
    force: bool,
    **options: Any,
) -> int:
    """Measure two versions of a program against each other, and say whether the new one is slower.

    COMMAND is `python train.py ...`, `train.py ...`, `-m module ...` or `torchrun ... train.py`. By default pinprof
    compares the working tree with the revision --base in a folder of its own, removed afterwards. Ignored files (data,
    for one) are linked there from the working tree, submodules copied; files that git does not know are missing.

    After a first run of each version, pinprof measures pairs of fresh processes, never under a profiler. The two take
    turns of some steps, or one runs after the other; which is first in a pair is random. pinprof stops when it can tell
    the difference from noise, when the difference can only be less than --limit-percent, or when the time is over. Of
    200 comparisons of a program with itself, on average at most one says faster or slower, whatever the noise. pinprof
    compares the usual step: the median, without steps that evaluate, save or compile.

    At the end pinprof records a run of each version with the profiler, and says what changed, the likely cause first.
    After Ctrl-C it prints what it knows so far.

    Exit status: 0 if the new version is not slower, or slower by less than the limit; 1 if it is certainly slower, and
    probably by more than the limit; 2 if pinprof cannot tell, or cannot measure it.

    \b
    Examples:
      pinprof ab -- python train.py --epochs 1
      pinprof ab --base origin/main --limit-percent 3 -- python train.py
      pinprof ab --patch pin.diff -- torchrun --nproc-per-node 2 train.py
      pinprof ab --against "train.py --workers 0" -- train.py --workers 4
    """  # noqa: D301  click looks for the backspace itself
    if against is not None and (base is not None or patch is not None):
        fail("--against compares two commands; --base and --patch compare two versions of one")
    check_outputs((json_file,), force=force, reads=(patch,))
    traces_folder = _traces_folder(traces, force=force, no_trace=no_trace) if traces is not None else None
    wishes = _wishes(options)
    with ExitStack() as stack:
        remarks: list[str] = []
        before, after = stack.enter_context(_versions(command, base, patch, against, remarks))
        for remark in remarks:
            say(remark)
        measurement = _measured((before, after), wishes)
        recorded = None
        if not no_trace and not measurement.test.interrupted:
            folder = traces_folder or stack.enter_context(temporary_folder("ab"))
            recorded = _record_versions(measurement, wishes, folder)
        from pinprof.report.ab.json import ab_to_json
        from pinprof.report.ab.text import ab_to_text

        result = measurement, recorded, remarks
        print_result(partial(ab_to_text, *result), partial(ab_to_json, *result), json_file)
    if traces_folder and recorded and len(recorded.traces) > 1:
        say(f"Next: pinprof compare {shlex.join(map(str, recorded.traces))}")
    return _exit_status(measurement.test.judgement)


def _exit_status(judgement: "Judgement") -> int:
    if judgement.is_too_slow:
        return SLOWER
    return CANNOT_TELL if judgement.verdict == "cannot_tell" else NOT_SLOWER


def _traces_folder(folder: str, *, force: bool, no_trace: bool) -> Path:
    """Return the absolute path of the folder for the traces. Fails before the measurement if it cannot be written."""
    if no_trace:
        fail("--traces keeps what --no-trace does not record; choose one")
    path = Path(folder).absolute()
    nearest = next(parent for parent in (path, *path.parents) if os.path.lexists(parent))
    if not folder or not nearest.is_dir():
        fail(f"{folder}: {nearest} is a file; name a folder" if folder else "--traces: name a folder")
    if not os.access(nearest, os.W_OK):
        fail(f"{folder}: you may not write into the folder {nearest}; name another one")
    existing = next((file for name in ("before", "after") for file in (path / name).glob("*.json.gz")), None)
    if existing and not force:
        fail(f"{existing}: exists already; name another folder, or overwrite it with --force")
    return path


def _wishes(options: dict[str, Any]) -> "Wishes":
    from pinprof.ab import Bounds, Wishes
    from pinprof.ab.worker import AUTO, StepOptions

    bounds = Bounds(options["limit_percent"] / 100, options["minutes"] * 60, overtime=OVERTIME)
    step_options = StepOptions(options["step_marker"] or AUTO.step_marker)
    return Wishes(bounds, options["seconds"], options["turns"], step_options)


@contextmanager
def _versions(
    command: Sequence[str], base: str | None, patch: str | None, against: str | None, remarks: list[str]
) -> Iterator[tuple["ProgramVersion", "ProgramVersion"]]:
    """Give the block the two versions, and note what the user should know about them."""
    from pinprof.ab.checkout import Repository
    from pinprof.ab.worker import ProgramVersion

    folder = Path.cwd()
    if against is not None:
        other = _words(against)
        yield (
            ProgramVersion(shlex.join(other), tuple(other), folder),
            ProgramVersion(shlex.join(command), tuple(command), folder),
        )
        return
    if patch is not None and not Path(patch).is_file():
        fail(f"{patch}: no such patch")
    repository = Repository.around(folder)
    commit = repository.commit(base or "HEAD")
    name = f"{base or 'HEAD'} ({repository.short(commit)})"
    with repository.checkout(commit) as base_folder:
        if patch is not None:
            with repository.checkout(commit, Path(patch)) as patched:
                yield (
                    repository.version(name, base_folder, command, [repository.top, patched]),
                    repository.version(f"{name} with {patch}", patched, command, [repository.top, base_folder]),
                )
            return
        if not repository.changed(commit):
            fail(f"the working tree is the same as {name}; name another with --base, or two commands with --against")
        untracked = repository.untracked()
        if untracked:
            remarks.append(f"not in {base or 'HEAD'}, because git does not know them: {_listed(untracked)}")
        state = repository.state()
        yield (
            repository.version(name, base_folder, command, [repository.top]),
            repository.version(WORKING_TREE, repository.top, command, [base_folder]),
        )
        if repository.state() != state:
            say("Note: the working tree was changed while it was measured")


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        fail(f"--against {command!r}: {error}")


def _listed(paths: Sequence[str]) -> str:
    more = len(paths) - MOST_LISTED
    return ", ".join(paths[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _measured(programs: "tuple[ProgramVersion, ProgramVersion]", wishes: "Wishes") -> "Measurement":
    from pinprof.ab import measure_versions

    with status_line() as tell:
        return measure_versions(programs, wishes, say=tell, tell=lambda progress: tell(so_far(progress)))


def _record_versions(measurement: "Measurement", wishes: "Wishes", folder: Path) -> "RecordedChanges":
    from pinprof.ab import record

    with status_line() as tell:
        return record(measurement, wishes.options, folder, tell)


def so_far(progress: "PairsProgress") -> str:
    """Return what is known of a measurement, in a line."""
    from pinprof.report.ab.text import direction, percent, span

    judgement, time_left = progress.judgement, f"{max(progress.left_s, 0) / 60:.1f} min left"
    if judgement is None:
        return f"pair 1, {time_left}"
    if progress.certain_in_s:
        minutes = progress.certain_in_s / 60
        certain = f"certain after {judgement.fewest} pairs ({minutes:.1f} min)"
        return f"pair {progress.pairs + 1}: {direction(judgement)}, {certain}"
    return f"pair {progress.pairs + 1}: {percent(judgement.ratio)} so far ({span(judgement)}), {time_left}"


@contextmanager
def status_line() -> Iterator[Callable[[str], None]]:
    """Give a callback that shows a text on one line of the terminal; without a terminal, it prints one now and then."""
    on_terminal, last = is_terminal(sys.stderr), 0.0

    def tell(text: str) -> None:
        nonlocal last
        if on_terminal:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
        elif time.monotonic() - last >= TELL_EVERY_S:
            last = time.monotonic()
            say(text)

    try:
        yield tell
    finally:
        if on_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@click.command(short_help="Find the revision that made a program slower.")
@click.argument("good")
@click.argument("bad")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@measuring_options
def bisect(good: str, bad: str, command: tuple[str, ...], *, json_file: str | None, force: bool, **options: Any) -> int:
    """Find the first revision between GOOD and BAD that is slower than GOOD.

    COMMAND is as for pinprof ab. pinprof compares BAD with GOOD as pinprof ab does, and then always the revision in the
    middle of those that are left, along first parents. It leaves out revisions that do not run. If it cannot tell
    whether a revision is slower, it says between which revisions the search ended. --minutes is for each comparison.

    Exit status: 0 if the revision is found, else 2.

    \b
    Examples:
      pinprof bisect v1.2 HEAD -- python train.py --epochs 1
      pinprof bisect --minutes 5 v1.2 HEAD -- train.py
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.ab.bisection import bisect as search_revisions
    from pinprof.ab.checkout import Repository
    from pinprof.report.ab.json import bisection_to_json
    from pinprof.report.ab.text import bisection_to_text, sentence

    check_outputs((json_file,), force=force)
    repository, wishes = Repository.around(Path.cwd()), _wishes(options)
    first, last = repository.commit(good), repository.commit(bad)
    commits = repository.between(first, last)
    if not commits:
        fail(f"there is no revision between {good} and {bad}; the good one must be an ancestor of the bad one")
    say(f"{counted(len(commits), 'revision')}; at most {len(commits).bit_length() + 1} comparisons")
    compare = _comparing(repository, command, wishes)

    def describe(commit: str) -> str:
        return f"{repository.short(commit)} {repository.subject(commit)}"

    def tell(tried: "Attempt", suspects_left: int) -> None:
        outcome = sentence(tried.judgement) if tried.judgement else f"left out: {tried.why}"
        say(f"{describe(tried.commit)}: {outcome}; {suspects_left} left")

    search = search_revisions(first, commits, compare, tell)
    text = partial(bisection_to_text, search, describe)
    print_result(text, lambda: bisection_to_json(search, repository.subject), json_file)
    if search.found:
        say(f"Next: git show {repository.short(search.found)}")
    return 0 if search.found else CANNOT_TELL


def _comparing(repository: "Repository", command: Sequence[str], wishes: "Wishes") -> Callable[[str, str], "Judgement"]:
    """Return a function that compares two revisions.

    Its first comparison is that of the whole range. In the later ones, half of its difference is what matters.
    """
    limit: float | None = None

    def compare(good: str, commit: str) -> "Judgement":
        nonlocal limit
        bounds = wishes.bounds if limit is None else replace(wishes.bounds, limit=limit)
        with repository.checkout(good) as old, repository.checkout(commit) as new:
            programs = (
                repository.version(repository.short(good), old, command, [repository.top, new]),
                repository.version(repository.short(commit), new, command, [repository.top, old]),
            )
            measurement = _measured(programs, replace(wishes, bounds=bounds))
        if measurement.test.interrupted:
            raise KeyboardInterrupt
        if limit is None:
            limit = max(wishes.bounds.limit, (measurement.test.judgement.ratio - 1) / 2)
        return measurement.test.judgement

    return compare
