"""Unified diffs that `git apply` takes: of bytes, so that every encoding and every end of a line stays."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from functools import reduce
from operator import or_
from pathlib import Path

from pinprof.analysis import Analysis
from pinprof.fix.core.files import Files
from pinprof.fix.core.rewrite import Mend, NotSafe, Refusal, Refused, Rewrite, rewritten
from pinprof.rules.rule import Saving
from pinprof.rules.savings import saving_of
from pinprof.trace.sources import project_of

NO_NEWLINE = b"\n\\ No newline at end of file\n"
CONTEXT = 3


@dataclass(frozen=True)
class Patch:
    """A change for a finding as a diff, which applies behind those before it."""

    mend: Mend
    diff: bytes


@dataclass(frozen=True)
class Patches:
    """All diffs for a trace, in order, and the files as they are after all of them."""

    patches: tuple[Patch, ...]
    refused: tuple[Refused, ...]
    before: Mapping[Path, bytes]
    """The content of each file that is changed."""
    after: Mapping[Path, bytes]
    """And what becomes of it."""
    root: Path
    """The folder to which the paths in the diffs are relative, as `git apply` takes them."""
    saving: Saving | None = None
    """What the replay predicts all of them to save of a step; None where nobody can tell of one."""


def patched(mends: Iterable[Mend], refusals: Iterable[Refused], files: Files) -> Patches:
    """Return the diffs of some changes; those that would leave no program are refused."""
    patches: list[Patch] = []
    refused = list(refusals)
    kept: list[Rewrite] = []
    before: dict[Path, bytes] = {}
    after: dict[Path, bytes] = {}
    root = project_of(files.folder)
    for mend in mends:
        trial = [*kept, *mend.rewrites]
        try:
            new = {files.taken(file).path: _made(files, file, trial) for file in mend.files}
        except Refusal as reason:
            refused.append(Refused(mend.rule, mend.places[0], str(reason)))
            continue
        parts = []
        for file in mend.files:
            source = files.taken(file)
            old = after.get(source.path, before.setdefault(source.path, source.content))
            parts.append(diff_of(source.path.relative_to(root).as_posix(), old, new[source.path]))
        if not any(parts):
            refused.append(Refused(mend.rule, mend.places[0], "the source says so already"))
            continue
        kept = trial
        after |= new
        patches.append(Patch(mend, b"".join(parts)))
    return Patches(tuple(patches), tuple(refused), before, after, root)


def _made(files: Files, file: str, rewrites: Sequence[Rewrite]) -> bytes:
    """Return a file with some rewrites. Raises Refusal where that is no program."""
    source = files.taken(file)
    made = rewritten(source.module, [each for each in rewrites if each.file == file]).bytes
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the program's own, as of `"\d"`
            compile(made, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotSafe("the changed file would not be valid in this version of Python") from error
    return made


def diff_of(name: str, before: bytes, after: bytes) -> bytes:
    """Return a unified diff of a file; nothing where it stays as it is."""
    old, new = ([line.decode("latin-1") for line in _lines(content)] for content in (before, after))
    one, other = (_quoted(f"{side}/{name}") for side in "ab")
    rows = unified_diff(old, new, one, other, n=CONTEXT)
    return b"".join(_row(row) for row in rows)


def _row(row: str) -> bytes:
    encoded = row.encode("latin-1")
    return encoded if encoded.endswith(b"\n") else encoded + NO_NEWLINE


def _lines(content: bytes) -> Iterator[bytes]:
    """Yield the lines of a file with their ends, which are line feeds and nothing else."""
    parts = content.split(b"\n")
    yield from (part + b"\n" for part in parts[:-1])
    if parts[-1]:
        yield parts[-1]


def _quoted(name: str) -> str:
    """Return a path as git writes it: in quotes, if it has characters that are not plain."""
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


def joint_saving(mends: Sequence[Mend], analysis: Analysis) -> Saving | None:
    """Return what all of these changes save of a step, by one replay; None where nobody can tell of one of them."""
    edits = [mend.edits for mend in mends if mend.edits is not None]
    if not edits or len(edits) < len(mends) or not analysis.replay.runs or not analysis.replay.before.step_ns:
        return None
    return saving_of(analysis.replay, reduce(or_, edits))
