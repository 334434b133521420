"""A git directory of its own for a copy of a repository: what a program commits, tags or pushes there ends with it.

It reads the objects of the original (`objects/info/alternates`), and has all else for itself: HEAD, branches, tags, the
stash, the index, and the configuration, without hooks.
"""

import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pinprof.git import REPOSITORY, GitError, git

FOLDERS = ("info", "logs", "refs", "reftable", "rebase-apply", "rebase-merge", "sequencer")
"""What git has in folders beside objects; others are of hooks, of submodules, and of tools such as LFS."""
OF_WORKTREE = {"commondir", "gitdir"}
"""Files by which the git directory of a worktree finds that of its repository, and is found."""
ALTERNATES = Path("objects", "info", "alternates")
PUSHED = "pushed"
HOOKS = "hooks"
BEFORE_A_PUSH = """#!/bin/sh
case "$2" in
{pushed}/*) exit 0 ;;
esac
echo "this copy of a repository pushes nothing to $2" >&2
exit 1
"""
"""Global settings may give a remote further places, or rewrite where a push goes: git asks this hook about each."""
REPLACED = (
    r"^(core\.(bare|worktree|fsmonitor|hookspath|trustctime|checkstat)|gc\.auto|maintenance\.auto"
    r"|remote\..*\.pushurl|url\..*\.pushinsteadof)$"
)
"""Settings that a copy does not take over."""
OUTSIDE = Path("/")
"""Where git edits a file of settings: in a copy whose `core.worktree` is that of the original it does nothing."""
SETTINGS = """
[core]
	fsmonitor = false
	trustctime = false
	checkStat = minimal
[gc]
	auto = 0
[maintenance]
	auto = false
"""
"""A copied file has the size and the time of the original, so that git need not read it to see that it has not changed.
No hook of the user and no process in the background runs for a folder that goes away again."""
PLACE = """
[core]
	bare = false
	worktree = ..
	hooksPath = {hooks}
"""
"""A file that the settings include may name the folder of the original; that of worktrees may be bare."""


def git_directory(entry: Path) -> Path | None:
    """Return the git directory that a `.git` is or names; None if it does neither."""
    folder = entry
    with suppress(OSError, ValueError):
        if entry.is_file():
            folder = entry.parent / entry.read_text().removeprefix("gitdir: ").rstrip("\n")
        if os.path.lexists(folder / "HEAD"):
            return folder.resolve()
    return None


def copy_git(entry: Path, target: Path) -> None:
    """Make a git directory for a copy of the repository in which the `.git` at `entry` stands. Raises OSError."""
    own = git_directory(entry)
    assert own is not None, "a repository"
    common = own
    with suppress(FileNotFoundError):
        common = (own / (own / "commondir").read_text().rstrip("\n")).resolve()
    target.mkdir()
    for folder in dict.fromkeys((common, own)):  # a worktree has its own HEAD and index
        _copy_state(folder, target)
    _share_objects(common, target)
    _configure(entry.parent, target)


def exclude(repository: Path, paths: Iterable[Path]) -> None:
    """Let git not see what stands in a copy as a link, and is a folder in the original. Raises OSError."""
    excluded = repository / REPOSITORY / "info" / "exclude"
    if git_directory(repository / REPOSITORY):
        excluded.parent.mkdir(exist_ok=True)
        with excluded.open("a") as file:
            file.writelines("\n/" + re.sub(r"([\\*?\[ ])", r"\\\1", path.as_posix()) + "\n" for path in paths)


def _copy_state(folder: Path, target: Path) -> None:
    for entry in os.scandir(folder):
        if entry.name in FOLDERS and entry.is_dir():
            shutil.copytree(
                entry.path,
                target / entry.name,
                ignore=shutil.ignore_patterns("*.lock"),
                copy_function=_copy,
                dirs_exist_ok=True,
            )
        elif entry.is_file() and entry.name not in OF_WORKTREE and not entry.name.endswith(".lock"):
            _copy(entry.path, target / entry.name)


def _copy(source: str, target: str | Path) -> None:
    with suppress(FileNotFoundError):  # git has packed or removed it meanwhile
        shutil.copy2(source, target)


def _share_objects(common: Path, target: Path) -> None:
    """Let git find the objects of a repository; those that it borrows itself may be named by relative paths."""
    objects = (common / "objects").resolve()
    borrowed = [objects]
    with suppress(FileNotFoundError):
        lines = (common / ALTERNATES).read_text().splitlines()
        borrowed += [objects / line for line in lines if line and not line.startswith("#")]
    alternates = target / ALTERNATES
    alternates.parent.mkdir(parents=True)
    alternates.write_text("".join(f"{folder}\n" for folder in borrowed))


def _configure(original: Path, target: Path) -> None:
    """Let git in the copy work there, be who it is in the original, and push into folders of the copy."""
    files = [path for path in (target / "config", target / "config.worktree") if path.is_file()]
    with suppress(GitError):  # without git, nobody asks for it
        for file in files:
            for key, _ in _settings(OUTSIDE, REPLACED, "--file", str(file)):
                git(OUTSIDE, "config", "--file", str(file), "--unset-all", key)
    hook = target / HOOKS / "pre-push"
    hook.parent.mkdir()
    hook.write_text(BEFORE_A_PUSH.format(pushed=shlex.quote(str(target / PUSHED))))
    hook.chmod(stat.S_IRWXU)
    place = PLACE.format(hooks=_quoted(str(hook.parent)))
    added = [SETTINGS, place, *_identity(original, target), *_pushing(original, target)]
    for file in files:
        with file.open("a") as config:
            config.writelines(added)


def _identity(original: Path, target: Path) -> Iterator[str]:
    """Yield the user's name and address: a global configuration may give them to repositories in some folders only."""
    pattern = r"^user\.(name|email)$"
    known = dict(_settings(target, pattern))
    for key, value in _settings(original, pattern):
        if known.get(key) != value:
            yield f"[user]\n\t{key.removeprefix('user.')} = {_quoted(value)}\n"


def _pushing(original: Path, target: Path) -> Iterator[str]:
    """Yield what makes a push to a remote one into a repository in the copy, which has the branches of that remote."""
    remotes = [key.removeprefix("remote.").removesuffix(".url") for key, _ in _settings(original, r"^remote\..*\.url$")]
    for number, remote in enumerate(dict.fromkeys(remotes)):
        pushed = target / PUSHED / str(number)
        _make_bare(pushed, target, _branches_of(original, remote))
        yield f"[remote {_quoted(remote)}]\n\tpushurl = {_quoted(str(pushed))}\n"
    yield f'[url {_quoted(str(target / PUSHED / "nowhere"))}]\n\tpushInsteadOf = ""\n'  # a push to a URL fails


def _make_bare(folder: Path, lender: Path, refs: Iterable[str]) -> None:
    (folder / "refs").mkdir(parents=True)
    (folder / ALTERNATES).parent.mkdir(parents=True)
    (folder / ALTERNATES).write_text(f"{lender / 'objects'}\n{(lender / ALTERNATES).read_text()}")
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text(f"[core]\n\tbare = true\n\thooksPath = /dev/null\n{SETTINGS}")
    (folder / "packed-refs").write_text("".join(f"{ref}\n" for ref in refs))


def _branches_of(repository: Path, remote: str) -> list[str]:
    """Return the branches of a remote as they were last seen, and all tags, as rows of hash and name."""
    names = f"refs/remotes/{remote}/"
    with suppress(GitError):
        rows = git(repository, "for-each-ref", "--format=%(objectname) %(refname)", names, "refs/tags").splitlines()
        return [row.replace(names, "refs/heads/") for row in rows if not row.endswith("/HEAD")]
    return []


def _settings(folder: Path, pattern: str, *options: str) -> list[tuple[str, str]]:
    """Return the settings whose names fit a pattern, each with its value, the last one counts."""
    with suppress(GitError):
        rows = git(folder, "config", *options, "--null", "--get-regexp", pattern).split("\0")
        pairs = [row.partition("\n") for row in rows if row]
        return list({key: value for key, _, value in pairs}.items())
    return []


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
