"""Copies of other people's repositories with faults in them: two commits each, the second with the faults."""

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scripts.examination.made_up import make
from scripts.examination.planting import PlaceError, Variant, edited
from scripts.examination.processes import Place
from scripts.examination.program import Program
from scripts.examination.programs import program

AS = ("-c", "user.name=exam", "-c", "user.email=exam@localhost", "-c", "gc.auto=0", "-c", "core.autocrlf=false")


@dataclass(frozen=True)
class Planted:
    """A variant of a program below the folder of an exam."""

    variant: Variant
    out: Path

    @property
    def name(self) -> str:
        """Return the variant's name."""
        return self.variant.name

    @property
    def program(self) -> Program:
        """Return the program, under the variant's name."""
        return replace(program(self.variant.program), name=self.variant.name)

    @property
    def place(self) -> Place:
        """Return where the program lies."""
        return Place(self.program, self.out / "work" / self.name / self.program.repository)

    @property
    def truth_file(self) -> Path:
        """Return the file with what was planted, written when all is."""
        return self.out / "work" / self.name / "truth.json"

    @property
    def truth(self) -> dict[str, Any]:
        """Return what was planted, with the lines where it stands."""
        read: dict[str, Any] = json.loads(self.truth_file.read_text())
        return read


def plant(variant: Variant, clones: Path, out: Path, *, data: bool) -> Planted:
    """Copy a program's repository, commit it, plant the faults, commit them, and make its data."""
    planted = Planted(variant, out)
    place = planted.place
    if not planted.truth_file.exists():
        _copy(clones / planted.program.repository, place.repository)
        _repair(planted.program, place.folder)
        _commit(place.repository, "As it stands in its repository", first=True)
        texts, faults = planted_texts(variant, place.folder, planted.program.command[0])
        for path, text in texts.items():
            if text != path.read_text():  # else its line ends stay
                path.write_text(text)
        _commit(place.repository, "Plant the faults")
        facts = {"program": variant.program, "repository": planted.program.repository, "folder": planted.program.folder}
        planted.truth_file.write_text(json.dumps({**facts, "sound": variant.sound, "faults": faults}, indent=1) + "\n")
    if data:
        for name in planted.program.data:
            make(name, place.repository, place.folder)
    return planted


def planted_texts(variant: Variant, folder: Path, script: str) -> tuple[dict[Path, str], list[dict[str, Any]]]:
    """Return the files with their faults, and each fault with the line of its first edit.

    Raises PlaceError where a place is not there exactly once, and SyntaxError where the text is not Python.
    """
    lines: dict[Path, list[str]] = {}
    rows: list[dict[str, Any]] = []
    for fault in variant.faults:
        first: dict[str, Any] | None = None
        for edit in fault.edits:
            path = (folder / (edit.file or script)).resolve()
            old = lines[path] if path in lines else path.read_text().split("\n")
            try:
                new, index = edited(old, edit)
            except PlaceError as problem:
                raise PlaceError(f"{variant.name}: {path}: {problem}") from problem
            lines[path] = new
            for row in [*rows, *([first] if first else [])]:
                row["line"] += (len(new) - len(old)) * (row["file"] == str(path) and row["line"] > index)
            added = max(len(new) - len(old), 1)
            first = first or {"file": str(path), "line": index + 1, "lines": added}
        if first:
            fields = {"kind": fault.kind, "rule": fault.rule, "outcome": fault.outcome, "why": fault.why}
            rows.append({**fields, **first})
            first = rows[-1]
    texts = {path: "\n".join(kept) for path, kept in lines.items()}
    for path, text in texts.items():
        compile(text, str(path), "exec")
    return texts, [
        {**row, "file": row["file"].removeprefix(f"{folder.resolve()}/"), "code": _code(lines, row)} for row in rows
    ]


def _code(lines: dict[Path, list[str]], row: dict[str, Any]) -> str:
    return lines[Path(row["file"])][row["line"] - 1].strip()


@contextmanager
def patched_in_place(planted: Planted, patch: Path) -> Iterator[None]:
    """Let the block run with a patch in the planted program, and take it back."""
    _git(planted.place.repository, "apply", str(patch))
    try:
        yield
    finally:
        _git(planted.place.repository, "apply", "--reverse", str(patch))


def _copy(clone: Path, repository: Path) -> None:
    if repository.exists():
        shutil.rmtree(repository)
    shutil.copytree(clone, repository, ignore=shutil.ignore_patterns(".git", "__pycache__"), symlinks=True)


def _repair(program: Program, folder: Path) -> None:
    """Let a program run with the libraries of today, on a small machine."""
    for repair in program.repairs:
        path = folder / (repair.file or program.command[0])
        lines, _ = edited(path.read_text().split("\n"), repair)
        path.write_text("\n".join(lines))


def _commit(repository: Path, message: str, *, first: bool = False) -> None:
    """Commit all, where git is installed: without it programs can be recorded, and nothing proved."""
    if shutil.which("git") is None:
        return
    if first:
        _git(repository, "init", "--quiet")
    _git(repository, "add", "--all")
    _git(repository, *AS, "commit", "--quiet", "--allow-empty", "--message", message)


def _git(repository: Path, *arguments: str) -> None:
    command: Sequence[str] = ("git", "-C", str(repository), *arguments)
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise PlaceError(f"{' '.join(command)}: {result.stderr.strip()}")
