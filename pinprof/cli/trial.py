"""`pinprof try`: fixes a program in a copy, measures it, and proves the patch."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pinprof.cli.ab import positive_option, seconds_option, so_far, status_line, step_marker_option
from pinprof.cli.fix import as_places, git_apply, known_rules, notes_on_choice, propose_option
from pinprof.cli.terminal import check_outputs, fail, force_option, json_option, say, show, write
from pinprof.standard_streams import is_terminal

if TYPE_CHECKING:
    from pinprof.ab import PairsProgress
    from pinprof.fix import Patches
    from pinprof.trial.certificate import Certificate
    from pinprof.trial.trial import TrialOptions

EXITS = {"take_it": 0, "nothing_to_change": 0, "leave_it": 1, "cannot_tell": 2}


@click.command(
    "try",
    short_help="Fix a program in a copy, measure it, and prove the patch.",
    context_settings={"allow_interspersed_args": False},
)
@click.argument("command", metavar="SCRIPT [ARGS]...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("-m", "--module", is_flag=True, help="SCRIPT is the name of a module, as with python -m.")
@click.option("--trace", metavar="FILE", help="Take this recording of the program, made by pinprof run.")
@click.option("--rule", "rules", metavar="ID", multiple=True, help="Only fixes for this rule (may be repeated).")
@click.option(
    "--only",
    "places",
    metavar="FILE:LINE",
    multiple=True,
    help="Only fixes for or at this place (may be repeated); the end of a path is enough.",
)
@click.option(
    "--changes-numbers", is_flag=True, help="Also try fixes after which the program computes different numbers."
)
@propose_option("try")
@positive_option(
    "--minutes",
    5.0,
    "Minutes to measure at most; again if a fix is left out, and for each proposal. Runs that record or check come on "
    "top.",
)
@seconds_option(2.0)
@positive_option("--limit-percent", 2.0, "The smallest difference that matters, in percent of the step.")
@step_marker_option
@click.option("--warmup", type=click.IntRange(min=1), help="Skip at least this many steps, as for pinprof run.")
@click.option(
    "--compare-steps",
    default=10,
    show_default=True,
    type=click.IntRange(min=1),
    help="Steps whose numbers are compared.",
)
@click.option("--no-verify", is_flag=True, help="Do not record the changed program to compare it with the prediction.")
@click.option("--patch", metavar="FILE", help="Also write the patch to this file, proven or not.")
@click.option("--write", "writes", is_flag=True, help="Apply the patch to the program if it is proven.")
@click.option("--backup", is_flag=True, help="With --write: keep each file as FILE.orig, instead of asking git.")
@json_option("the certificate")
@force_option
def trial(
    command: tuple[str, ...],
    *,
    writes: bool,
    backup: bool,
    patch: str | None,
    json_file: str | None,
    force: bool,
    **options: Any,
) -> int:
    """Fix SCRIPT in a copy, measure the copy against the original, and print the patch with a certificate.

    pinprof records the program, plans the changes as pinprof fix does, and copies its folder: the git repository or,
    without one, the working directory. The copies have uncommitted changes, and links to large files and folders of
    data. Only --write changes the program itself.

    \b
    Then pinprof checks, each time in fresh processes:
      speed     as pinprof ab does; it leaves out fixes that bring nothing
      numbers   losses and parameters of the first steps of both, with the same seed
      races     the first steps of the changed program, under the guard
      accuracy  the prediction, against a recording of the changed program

    With --propose it also tries changes that match the form of a fix but are not certain, as pinprof fix --propose
    shows them. It takes a proposal only if it is proven: with it the program computes the same numbers, has no new
    race, and is faster than without it. pinprof checks all proposals together, by halves if that fails, and then
    measures each.

    The whole output is a patch for git apply. If the patch is not proven, its diffs stand behind a #. A program of
    several ranks (-- torchrun ...) is measured, but its numbers and races are not checked.

    Exit status: 0 if the patch is proven, or if there is nothing to change; 1 if it should be left: not faster, other
    numbers, or a new race; 2 if pinprof cannot tell, or the program does not run.

    \b
    Examples:
      pinprof try train.py --epochs 1
      pinprof try train.py --epochs 1 | git apply
      pinprof try --minutes 2 --write train.py
      pinprof try --rule PIN201 --json try.json train.py
      pinprof try --propose train.py --epochs 1
      pinprof try --trace train.json.gz train.py
      pinprof try -m my_package.train
      pinprof try -- torchrun --nproc-per-node 2 train.py
    """  # noqa: D301  click looks for the backspace itself
    if backup and not writes:
        fail("--backup is about files that are written; add --write")
    check_outputs((json_file, patch), force=force, reads=(options["trace"],))
    wanted = _wanted(command, options)
    certificate = _certified(wanted, backup=backup if writes else None)
    if json_file != "-":
        from pinprof.report.trial.text import trial_to_text

        show(trial_to_text(certificate))
    for note in notes_on_choice(wanted.chosen, certificate.patches, certificate.analysis):
        say(f"Note: {note}")
    if patch and certificate.patches.patches:
        _write_patch(patch, certificate)
    _write(certificate, json_file, writes=writes, backup=backup)
    return EXITS[certificate.verdict]


def _wanted(command: tuple[str, ...], options: dict[str, Any]) -> "TrialOptions":
    from pinprof.ab.worker import AUTO, StepOptions
    from pinprof.fix import Chosen
    from pinprof.trace.sources import project_of
    from pinprof.trial.trial import TrialOptions, wishes_for
    from pinprof.trial.versions import Command

    folder = Path.cwd().resolve()
    words = ("-m", *command) if options["module"] else command
    if not options["module"] and words[0].endswith(".py") and not Path(words[0]).is_file():
        fail(f"{words[0]}: no such script")
    finding = StepOptions(options["step_marker"] or AUTO.step_marker, options["warmup"] or AUTO.warmup)
    return TrialOptions(
        Command(words, folder, project_of(folder)),
        wishes_for(options["minutes"], options["seconds"], options["limit_percent"] / 100, finding),
        Chosen(
            known_rules(options["rules"]), as_places(options["places"]), options["changes_numbers"], options["proposes"]
        ),
        options["trace"],
        options["compare_steps"],
        verifies=not options["no_verify"],
    )


def _certified(wanted: "TrialOptions", *, backup: bool | None) -> "Certificate":
    """Make the trial; `backup` is None if the program is not to be changed."""
    from pinprof.fix.core.patch import check_patches
    from pinprof.trial.trial import Trial

    def check(patches: "Patches") -> None:
        if backup is not None:
            check_patches(patches, backup=backup)

    with status_line() as tell:

        def tell_pair(progress: "PairsProgress") -> None:
            tell(so_far(progress))

        def say_below(text: str) -> None:
            if is_terminal(sys.stderr):
                tell("")  # what is on the line was about the last pair
            say(text)

        return Trial(wanted, say_below, tell_pair, check).run()


def _write(certificate: "Certificate", json_file: str | None, *, writes: bool, backup: bool) -> None:
    """Apply the patch if that is wanted, write the JSON file, and say which files were written."""
    written, backups, failure = _apply(certificate, backup=backup) if writes else ([], [], "")
    if json_file:
        from pinprof.report.trial.json import trial_to_json

        write(json_file, trial_to_json(certificate, written, backups))
    for path in written:
        say(f"Wrote {path}")
    for path in backups:
        say(f"Kept {path}")
    if failure:
        fail(failure)


def _apply(certificate: "Certificate", *, backup: bool) -> tuple[list[Path], list[Path], str]:
    """Apply a proven patch, and return the files, their backups, and why it failed; say why another is not applied."""
    from pinprof.fix import FixError, write_patches
    from pinprof.report.trial.text import sentence

    if not certificate.patches.patches:
        return [], [], ""
    if certificate.verdict != "take_it":
        say(f"Nothing was written: {sentence(certificate)}")
        return [], [], ""
    try:
        return list(certificate.patches.after), write_patches(certificate.patches, backup=backup), ""
    except FixError as error:
        return [], [], str(error)


def _write_patch(path: str, certificate: "Certificate") -> None:
    from pinprof.outputs import opened
    from pinprof.report.trial.text import to_patch

    with opened(Path(path)) as file:
        file.write(to_patch(certificate))
    words = git_apply(certificate.patches)
    say(f"Wrote {path}; apply it: {shlex.join([*words, str(Path(path).absolute()) if '-C' in words else path])}")
