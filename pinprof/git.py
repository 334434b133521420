"""Runs git for all of pinprof, in such a way that it starts no program that the repository's configuration names."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from pinprof.errors import PinprofError

OF_REPOSITORY = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)
"""Variables that name a repository (`git rev-parse --local-env-vars`): git would change it, not a copy."""
SETTINGS = (
    "advice.detachedHead=false",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "gc.auto=0",
    "log.showSignature=false",  # it starts gpg.program
    "maintenance.auto=false",
    "submodule.recurse=false",
)
"""Settings of a repository that are always overridden: they start programs, also in the background."""
SAFE_OPTIONS = {
    "diff": ("--no-ext-diff", "--no-textconv", "--submodule=short", "--ignore-submodules=dirty"),
    "show": ("--no-ext-diff", "--no-textconv"),
    "status": ("--ignore-submodules=dirty",),  # git would ask a submodule, whose configuration may name other filters
}
"""Options with which git's commands start no programs."""
CONVERTING = {"diff", "status"}
"""Commands that pass files through the repository's filters."""
FILTERS = r"^filter\..*\.(clean|smudge|process|required)$"
NO_FETCHING = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
"""Without these, git fetches objects that a partial clone lacks, by the ssh or the helper that the repository names."""


class GitError(PinprofError):
    """Git failed; the text is the first line of its answer."""


def git(folder: Path, *words: str, as_the_user: bool = False) -> str:
    """Return what a git command prints in a folder. Raises GitError if it fails.

    With `as_the_user`, filters run and missing objects are fetched: for the files of a program that is to be run.
    """
    settings = SETTINGS if as_the_user else (*SETTINGS, *_no_filters(folder, words[0]))
    options = SAFE_OPTIONS.get(words[0], ())
    overridden = [word for setting in settings for word in ("-c", setting)]
    return _run_git(folder, (*overridden, words[0], *options, *words[1:]), {} if as_the_user else NO_FETCHING)


def environment_of_folders() -> dict[str, str]:
    """Return this process's environment without variables that name a repository: git then finds that of its folder."""
    return {name: value for name, value in os.environ.items() if name not in OF_REPOSITORY}


def _no_filters(folder: Path, command: str) -> Iterator[str]:
    if command not in CONVERTING:
        return
    try:
        names = _run_git(folder, ("config", "--null", "--name-only", "--get-regexp", FILTERS), NO_FETCHING)
    except GitError:  # there is none
        return
    for name in sorted(set(names.split("\0")) - {""}):
        if "=" in name:
            raise GitError(f"the repository has a filter whose name has a =: {name}")
        yield f"{name}={'false' if name.endswith('.required') else ''}"


def _run_git(folder: Path, words: tuple[str, ...], variables: Mapping[str, str]) -> str:
    try:
        result = subprocess.run(  # noqa: S603  git, with words of our own
            [_program(), "--no-pager", "--no-optional-locks", *words],
            cwd=folder,
            env={**environment_of_folders(), **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise GitError(f"git cannot be run ({error.strerror})") from error
    if result.returncode:
        lines = [line for line in result.stderr.decode(errors="replace").splitlines() if line.strip()]
        first_line = lines[0] if lines else f"git {words[0]} failed"
        raise GitError(first_line.removeprefix("fatal: ").removeprefix("error: "))
    return result.stdout.decode(errors="surrogateescape").strip("\n")


def _program() -> str:
    """Return the path of git; relative entries of PATH are left out, as they lead into the folder of the repository."""
    absolute = filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep))
    git = shutil.which("git", path=os.pathsep.join(absolute))
    if git is None:
        raise GitError("git is not installed")
    return git
