"""`pinprof fix`: make the changes of the program that are mechanical and certain."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pinprof.cli.options import MachineFile, jobs_option, machine_option
from pinprof.cli.terminal import check_outputs, fail, force_option, json_option, progress, say, show, write
from pinprof.cli.traces import analysing, one_trace, read

if TYPE_CHECKING:
    from pinprof.analysis import Analysis
    from pinprof.fix import Chosen, Patches


@click.command(short_help="Change the program where that is mechanical and certain.")
@click.argument("trace", type=click.Path())
@click.argument("scripts", metavar="[SCRIPT]...", nargs=-1, type=click.Path(exists=True, dir_okay=False))
@click.option("--write", "writes", is_flag=True, help="Apply the changes: all files or none.")
@click.option("--backup", is_flag=True, help="With --write: keep each file as FILE.orig, instead of asking git.")
@click.option("--rule", "rules", metavar="ID", multiple=True, help="Only changes for this rule (may be repeated).")
@click.option(
    "--only",
    "places",
    metavar="FILE:LINE",
    multiple=True,
    help="Only changes for or at this place (may be repeated); the end of a path is enough.",
)
@click.option(
    "--changes-numbers",
    is_flag=True,
    help=(
        "Also make changes after which the program computes different numbers: TF32, workers that persist, gradients "
        "set to None instead of zero."
    ),
)
@click.option(
    "--propose",
    "proposes",
    is_flag=True,
    help="Also show changes that match the form of a fix and are not certain, each with the reason.",
)
@json_option("the changes")
@machine_option
@jobs_option
@force_option
def fix(  # noqa: PLR0913  options of one command
    trace: str,
    scripts: tuple[str, ...],
    *,
    writes: bool,
    backup: bool,
    rules: tuple[str, ...],
    places: tuple[str, ...],
    changes_numbers: bool,
    proposes: bool,
    json_file: str | None,
    machine: MachineFile | None,
    force: bool,
) -> None:
    """Print diffs for the findings of a TRACE whose change is mechanical and certain, and say why not for the others.

    pinprof edits the syntax tree, so comments and layout stay. Above each diff it names the rule, the predicted saving,
    whether the program still computes the same numbers, and when the change is safe. The whole output is a patch: pipe
    it to git apply, or let --write apply it.

    TRACE must be a recording of pinprof run: only that has the lines of the waits, and where DataLoaders and optimizers
    are made. SCRIPT names files that are not where the trace says. pinprof leaves alone the files of libraries, files
    outside of the git repository (without one: of the working directory), and files changed since the recording.

    With --propose it also shows changes that match the form of a fix but are not certain, with the reason: a clock,
    memory that other code may write to, or a number whose type the source does not show. Proposals stand behind a #,
    and --write leaves them out.

    The guide says what pinprof fix changes: pinprof explain fix.

    \b
    Examples:
      pinprof run train.py
      pinprof fix train.json.gz
      pinprof fix train.json.gz | git apply
      pinprof fix train.json.gz --rule PIN201 --write
      pinprof fix train.json.gz --only train.py:42 --write --backup
      pinprof fix train.json.gz ~/project/train.py
      pinprof fix train.json.gz --propose
      pinprof fix train.json.gz --json | jq '.refused[].why'
    """  # noqa: D301  click looks for the backspace itself
    from pinprof.fix import Chosen
    from pinprof.fix import fix as fixed

    if backup and not writes:
        fail("--backup is about files that are written; add --write")
    check_outputs((json_file,), force=force, reads=(trace, *scripts, machine and machine.path))
    chosen = Chosen(known_rules(rules), as_places(places), changes_numbers, proposes)
    analysis = read(one_trace(trace), analysing(machine))
    with progress("changing the program"):
        patches = fixed(analysis, scripts, chosen)
    _tell(patches, analysis, json_file, writes=writes, backup=backup)
    if patches.patches and not writes and "-C" in (words := git_apply(patches)):
        say(f"Note: some files are above the working directory; apply the diffs by {shlex.join(words)}")
    for note in notes_on_choice(chosen, patches, analysis, scripts):
        say(f"Note: {note}")
    arguments = _again(trace, scripts, chosen) + (machine.words if machine and not machine.is_default else "")
    say(f"Next: {_next(trace, arguments, patches, by_pinprof=analysis.trace.info.by_pinprof, writes=writes)}")


def _again(trace: str, scripts: Sequence[str], chosen: "Chosen") -> str:
    """Return the arguments of pinprof fix for the same changes."""
    words = [shlex.quote(word) for word in (trace, *scripts)]
    words += [f"--rule {rule}" for rule in sorted(chosen.rules)]
    words += [f"--only {shlex.quote(place)}" for place in chosen.places]
    words += ["--changes-numbers"] * chosen.changes_numbers + ["--propose"] * chosen.proposes
    return " ".join(words)


def _tell(patches: "Patches", analysis: "Analysis", json_file: str | None, *, writes: bool, backup: bool) -> None:
    """Write the changed files, if that is wanted, and show what was changed."""
    from pinprof.fix import write_patches
    from pinprof.report.fix import fix_to_json, fix_to_text

    backups = write_patches(patches, backup=backup) if writes and patches.patches else []
    written = list(patches.after) if writes else []
    if json_file != "-":
        show(fix_to_text(patches, analysis.profile))
    if json_file:
        write(json_file, fix_to_json(patches, analysis.profile, written, backups))
    for path in written:
        say(f"Wrote {path}")
    for path in backups:
        say(f"Kept {path}")


def git_apply(patches: "Patches") -> list[str]:
    """Return the command that applies diffs: git leaves out, without a word, what is above the working directory."""
    below = all(path.is_relative_to(Path.cwd()) for path in patches.after)
    return ["git", "apply"] if below else ["git", "-C", str(patches.root), "apply"]


def known_rules(names: tuple[str, ...]) -> frozenset[str]:
    """Return the rules of these names. Refuses one that does not exist."""
    from pinprof.rules import RULES

    ids = frozenset(name.upper() for name in names)
    unknown = ids - {rule.id for rule in RULES}
    if unknown:
        fail(f"{min(unknown)}: unknown rule; for a list of all rules: pinprof explain")
    return ids


def as_places(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the places. Refuses what is not a place."""
    for name in names:
        file, _, line = name.rpartition(":")
        if not file or not line.isdigit():
            fail(f"{name}: name a place as FILE:LINE")
    return names


def notes_on_choice(
    chosen: "Chosen", patches: "Patches", analysis: "Analysis", scripts: Sequence[str] = ()
) -> Iterator[str]:
    """Yield a note for each chosen rule, place and script that has no finding, with those that have one."""
    from pinprof.fix import Chosen

    places_of_rules = {
        (finding.rule.id, site.evidence.place) for finding in analysis.findings for site in finding.sites
    }
    places_of_rules |= {(refused.rule.id, refused.place) for refused in patches.refused}
    changes = (*patches.patches, *patches.proposals)
    places_of_rules |= {(patch.change.rule.id, place) for patch in changes for place in patch.change.places}
    rules = sorted({rule for rule, _ in places_of_rules})
    for rule in sorted(chosen.rules.difference(rules)):
        yield f"{rule} has no finding; rules with findings: {', '.join(rules) or 'none'}"
    places = sorted({str(place) for rule, place in places_of_rules if place.line and rule in (chosen.rules or rules)})
    for named in chosen.places:
        if not any(
            Chosen(places=(named,)).has(place) for rule, place in places_of_rules if rule in (chosen.rules or rules)
        ):
            yield f"nothing to change was found at {named}; findings are at {', '.join(places) or 'no known line'}"
    files = sorted({place.file for _, place in places_of_rules if place.file})
    names = {Path(file).name for file in files}
    for script in scripts:
        if Path(script).name not in names:
            others = ", ".join(files) or "no known file"
            yield f"{script}: no finding is in a file of this name; findings are in {others}"


def _next(trace: str, arguments: str, patches: "Patches", *, by_pinprof: bool, writes: bool) -> str:
    """Return what to do next; `arguments` are the arguments for the same changes."""
    from pinprof.fix import UNRECORDED, FixError, check_patches
    from pinprof.fix.core.files import RECORD_AGAIN

    named = shlex.quote(trace)
    if writes and patches.patches:
        return f"record the program again, and run: pinprof verify {named} AFTER"
    if patches.patches:
        try:
            check_patches(patches, backup=False)
        except FixError:  # git could not give the file back
            return f"pinprof fix {arguments} --write --backup"
        return f"pinprof fix {arguments} --write"
    without_lines = not any(refused.place.line for refused in patches.refused)
    if not by_pinprof or (without_lines and any(refused.why in UNRECORDED for refused in patches.refused)):
        return "pinprof run SCRIPT, which records the lines that a change needs"
    if any(refused.why.endswith(RECORD_AGAIN) for refused in patches.refused):
        return "record the program again with pinprof run, for it has changed"
    return f"pinprof report {named}"
