"""Unified diffs for `git apply`, and writing the changed files: all of them or none."""

import os
import shutil
import stat
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from difflib import unified_diff
from functools import reduce
from operator import or_
from pathlib import Path
from secrets import token_hex

from pinprof.analysis import Analysis
from pinprof.errors import PinprofError
from pinprof.fix.core.files import Files
from pinprof.fix.core.rewrite import NotSafe, ProgramChange, Refusal, RefusedPlace, Rewrite, rewritten
from pinprof.git import GitError, git
from pinprof.rules.rule import Saving
from pinprof.rules.savings import saving_of
from pinprof.trace.sources import project_of

NO_NEWLINE = b"\n\\ No newline at end of file\n"
CONTEXT = 3


@dataclass(frozen=True)
class Patch:
    """A change as a diff, which applies after those before it."""

    change: ProgramChange
    diff: bytes


@dataclass(frozen=True)
class Patches:
    """All diffs for a trace, in order, and the files as they are after all of them."""

    patches: tuple[Patch, ...]
    refused: tuple[RefusedPlace, ...]
    before: Mapping[Path, bytes]
    """The content of each changed file before all changes."""
    after: Mapping[Path, bytes]
    """Its content after all changes."""
    root: Path
    """The folder to which the paths in the diffs are relative, as `git apply` takes them."""
    saving: Saving | None = None
    """What the replay predicts all of them to save of a step; None if that of one is unknown."""
    proposals: tuple[Patch, ...] = ()
    """Changes that are not certain: each applies by itself after all patches, and is not in `after`."""


def patched(
    changes: Iterable[ProgramChange],
    refusals: Iterable[RefusedPlace],
    files: Files,
    proposals: Iterable[ProgramChange] = (),
) -> Patches:
    """Return the diffs of some changes and proposals; refuse those that Python could not compile."""
    patches: list[Patch] = []
    proposed: list[Patch] = []
    refused = list(refusals)
    kept: list[Rewrite] = []
    before: dict[Path, bytes] = {}
    after: dict[Path, bytes] = {}
    root = project_of(files.folder)
    for change, is_certain in [*((change, True) for change in changes), *((change, False) for change in proposals)]:
        rewrites = [*kept, *change.rewrites]
        sources = [files.named(file) for file in change.files]
        try:
            new = {source.path: _rewritten_file(files, source.file, rewrites) for source in sources}
        except Refusal as reason:
            refused.append(RefusedPlace(change.rule, change.places[0], str(reason)))
            continue
        diff = b"".join(
            diff_of(source.path.relative_to(root).as_posix(), after.get(source.path, source.content), new[source.path])
            for source in sources
        )
        if not diff:
            refused.append(RefusedPlace(change.rule, change.places[0], "the source says so already"))
        elif is_certain:
            before |= {source.path: source.content for source in sources}
            kept = rewrites
            after |= new
            patches.append(Patch(change, diff))
        else:
            proposed.append(Patch(change, diff))
    return Patches(tuple(patches), tuple(refused), before, after, root, proposals=tuple(proposed))


def _rewritten_file(files: Files, file: str, rewrites: Sequence[Rewrite]) -> bytes:
    """Return the content of a file after some rewrites. Raises Refusal if Python cannot compile it."""
    source = files.named(file)
    try:
        content = rewritten(source.module, [rewrite for rewrite in rewrites if rewrite.file == file]).bytes
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the program's own, as of `"\d"`
            compile(content, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotSafe("the changed file would not be valid in this version of Python") from error
    return content


def diff_of(name: str, before: bytes, after: bytes) -> bytes:
    """Return a unified diff of a file; empty if the file stays as it is."""
    old, new = ([line.decode("latin-1") for line in _lines(content)] for content in (before, after))
    one, other = (_quoted(f"{side}/{name}") for side in "ab")
    rows = unified_diff(old, new, one, other, n=CONTEXT)
    return b"".join(_diff_row(row) for row in rows)


def _diff_row(row: str) -> bytes:
    encoded = row.encode("latin-1")
    return encoded if encoded.endswith(b"\n") else encoded + NO_NEWLINE


def _lines(content: bytes) -> Iterator[bytes]:
    """Yield the lines of a file with their ends, which are line feeds alone."""
    parts = content.split(b"\n")
    yield from (part + b"\n" for part in parts[:-1])
    if parts[-1]:
        yield parts[-1]


def _quoted(name: str) -> str:
    """Return a path as git writes it: in quotes if it has special characters."""
    encoded = name.encode()
    if all(32 < byte < 127 and byte not in b'"\\' for byte in encoded):  # noqa: PLR2004  printable ASCII
        return name
    if all(32 <= byte < 127 and byte not in b'"\\' for byte in encoded):  # noqa: PLR2004
        return f"{name}\t"  # with a space: a tab ends it
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}"  # noqa: PLR2004
        for byte in encoded
    )
    return f'"{escaped}"'


def joint_saving(changes: Sequence[ProgramChange], analysis: Analysis) -> Saving | None:
    """Return what all of these changes save of a step, by one replay; None if the edits of one are unknown."""
    edits = [change.edits for change in changes if change.edits is not None]
    if not edits or len(edits) < len(changes) or not analysis.replay.runs or not analysis.replay.before.step_ns:
        return None
    return saving_of(analysis.replay, reduce(or_, edits))


BACKUP = ".orig"


class FixError(PinprofError):
    """The changes cannot be written."""


def write_patches(patches: Patches, *, backup: bool) -> list[Path]:
    """Write the changed files, all or none; return the backups. Raises FixError.

    With `backup`, keep each file as `FILE.orig`; without it, git must have each file as it is.
    """
    kept = _backups(patches) if backup else {}
    check_patches(patches, backup=backup)
    with ExitStack() as undo:
        old = {path: _hidden_file(path, "old", undo) for path in patches.after}
        new = {path: _hidden_file(path, "part", undo) for path in patches.after}
        try:
            for path, part in new.items():
                shutil.copy2(path, old[path])
                part.write_bytes(patches.after[path])
                shutil.copymode(path, part)
                _keep_owner(path, part)
            for path, copy in kept.items():
                shutil.copy2(path, copy)
            _replace(new, old)
        except BaseException as error:
            for copy in kept.values():
                copy.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise FixError(f"{error.filename}: cannot be written ({error.strerror}); nothing is") from error
            raise
    return list(kept.values())


def check_patches(patches: Patches, *, backup: bool) -> None:
    """Raise FixError if a change could not be undone, or a file has changed since the changes were planned."""
    for copy in _backups(patches).values() if backup else ():
        if os.path.lexists(copy):
            raise FixError(f"{copy}: exists already; move it away, it may be the only copy of a program")
    if not backup:
        _check_clean(patches.after)
    for path, before in patches.before.items():
        _check_replaceable(path)
        if path.read_bytes() != before:
            raise FixError(f"{path}: was changed meanwhile; nothing was written")


def _backups(patches: Patches) -> dict[Path, Path]:
    return {path: path.with_name(path.name + BACKUP) for path in patches.after}


def _replace(new: Mapping[Path, Path], old: Mapping[Path, Path]) -> None:
    """Replace all files by new ones, or leave all as they were."""
    replaced: list[Path] = []
    try:
        for path, part in new.items():
            replaced.append(path)
            part.replace(path)
    except BaseException:
        for path in replaced:
            with suppress(OSError):
                old[path].replace(path)
        raise


def _hidden_file(path: Path, end: str, undo: ExitStack) -> Path:
    """Return the name of a hidden file in the folder of another one; `undo` deletes it."""
    hidden = path.with_name(f".{path.name}.{token_hex(4)}.{end}")
    undo.callback(hidden.unlink, missing_ok=True)
    return hidden


def _check_replaceable(path: Path) -> None:
    """Raise FixError for a file that is read-only, or has several names."""
    status = path.stat()
    if not (status.st_mode & stat.S_IWUSR and os.access(path, os.W_OK)):
        raise FixError(f"{path}: is read-only; make it writable (chmod u+w) if it may be changed")
    if status.st_nlink > 1:
        others = f"{status.st_nlink - 1} other name" + "s" * (status.st_nlink > 2)  # noqa: PLR2004  one and another
        raise FixError(
            f"{path}: has {others} (hard links), of a file that would stay as it is; copy it to one of its own"
        )


def _keep_owner(path: Path, part: Path) -> None:
    """Give a new file the owner of the one that it replaces, if this user may (root may)."""
    old, new = path.stat(), part.stat()
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        with suppress(OSError):
            os.chown(part, old.st_uid, old.st_gid)


def _check_clean(paths: Iterable[Path]) -> None:
    """Raise FixError for a file that git does not have as it is now."""
    for path in paths:
        tracked = _git(path, "ls-files", "--error-unmatch", "--", path.name)
        if tracked is None:
            raise FixError(f"{path}: is not under git, so you could not undo the change; add --backup")
        if _is_hidden(_git(path, "ls-files", "-v", "--", path.name) or ""):
            hidden = "git ignores changes of it (skip-worktree or assume-unchanged)"
            raise FixError(f"{path}: {hidden}, so you could not undo this one; add --backup")
        if _git(path, "status", "--porcelain", "--", path.name) != "":
            raise FixError(f"{path}: has changes that are not committed; commit them, or add --backup")


def _is_hidden(listed: str) -> bool:
    """Return whether `git ls-files -v` marks a file as one whose changes git ignores: `S` or a small letter."""
    return any(line[:1] == "S" or line[:1].islower() for line in listed.splitlines())


def _git(path: Path, *words: str) -> str | None:
    """Return the output of git in the folder of a file; None if it fails."""
    try:
        return git(path.parent, *words)
    except GitError:
        return None
