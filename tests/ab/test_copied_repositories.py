"""Programs that change their repository: in a copy they change that of the copy alone, which looks as theirs."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from users_git import IDENTITY, commit_all, git

from pinprof.ab.checkout import Repository
from pinprof.ab.copies import copied

Version = Callable[[Path], AbstractContextManager[Path]]
CHANGES = (
    "add -A",
    "commit -q --allow-empty -m From-the-copy",
    "commit -q --amend --allow-empty -m Again",
    "tag v9",
    "tag -d v1",
    "branch other",
    "branch -D kept",
    "config user.name somebody",
    "config core.hooksPath hooks",
    "remote add new /nowhere",
    "notes add -m note",
    "update-ref refs/heads/main HEAD~1",
    "checkout -q -f -B side",
    "fetch -q origin",
    "reset -q --hard HEAD~1",
    "clean -q -fdx",
    "reflog expire --expire=now --all",
    "gc -q --prune=now",
    "pack-refs --all",
    "worktree add -q inner",
    "stash drop -q",
)
QUESTIONS = (
    "rev-parse HEAD",
    "rev-parse --abbrev-ref HEAD",
    "symbolic-ref HEAD",
    "describe --tags --always --dirty",
    "status --porcelain",
    "diff",
    "diff --cached",
    "diff-index HEAD",
    "log --format=%H%d%s --all",
    "tag",
    "branch -a",
    "stash list",
    "reflog",
    "remote get-url origin",
    "config user.name",
    "ls-files --stage",
    "for-each-ref",
    "rev-list --count HEAD",
)


def commit(folder: Path, text: str) -> None:
    (folder / "train.py").write_text(text)
    commit_all(folder, text)


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A bare repository with two branches and a tag."""
    first = tmp_path / "first"
    first.mkdir()
    git(first, "init", "-q", "-b", "main")
    for text in ("one", "two"):
        commit(first, text)
    git(first, "tag", "-m", "v1", "v1")
    git(first, "branch", "kept")
    git(tmp_path, "clone", "-q", "--bare", str(first), "origin.git")
    return tmp_path / "origin.git"


@pytest.fixture
def clone(origin: Path, tmp_path: Path) -> Path:
    """A clone with a change that is staged, one that is not, one put away, and a file that git does not know."""
    top = tmp_path / "project"
    git(tmp_path, "clone", "-q", str(origin), str(top))
    git(top, "branch", "kept")
    git(top, "config", "user.name", "me")
    git(top, "config", "user.email", "me@example.org")
    (top / "train.py").write_text("put away")
    git(top, "stash", "-q")
    commit(top, "three")
    (top / "train.py").write_text("staged")
    git(top, "add", ".")
    (top / "train.py").write_text("changed")
    (top / "notes.txt").write_text("notes")
    return top


def state(*folders: Path) -> dict[str, bytes]:
    """Return the content of all files, objects included."""
    return {str(path): path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}


@contextmanager
def as_it_is(top: Path) -> Iterator[Path]:
    with copied(top, [], {}) as place:
        yield place


@contextmanager
def at_head(top: Path) -> Iterator[Path]:
    repository = Repository.around(top)
    with repository.checkout(repository.commit("HEAD")) as place:
        yield place


VERSIONS = pytest.mark.parametrize("version", [as_it_is, at_head])


IN_WORKTREE = pytest.mark.parametrize("in_worktree", [False, True], ids=["repository", "worktree"])


def worktree(clone: Path) -> Path:
    """Add a worktree to a clone, and return its folder."""
    git(clone, "worktree", "add", "-q", "-b", "topic", str(clone.parent / "tree"))
    return clone.parent / "tree"


@VERSIONS
@IN_WORKTREE
def test_what_git_changes_in_a_copy_stays_there(clone: Path, origin: Path, version: Version, in_worktree: bool) -> None:
    top = worktree(clone) if in_worktree else clone
    before = state(clone, origin, top)
    with version(top) as place:
        assert (place / ".git").is_dir()
        for change in CHANGES:
            subprocess.run(["git", *change.split()], cwd=place, check=True, capture_output=True)
        assert state(clone, origin, top) == before
        assert git(place, "rev-parse", "--abbrev-ref", "HEAD") == "side"
    assert state(clone, origin, top) == before


@VERSIONS
def test_a_submodule_stays_as_it_is(clone: Path, origin: Path, version: Version) -> None:
    git(clone, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(origin), "library")
    git(clone, "commit", "-q", "-am", "Use it")
    before = state(clone, origin)
    with version(clone) as place:
        assert git(place, "submodule", "status") == git(clone, "submodule", "status")
        for change in ("commit -q --allow-empty -m From-the-copy", "checkout -q -f HEAD~1"):
            git(place / "library", *change.split())
        assert fails(place / "library", "push", "origin", "HEAD:refs/heads/new")
        assert (place / "library" / "train.py").read_text() == "two"
        assert state(clone, origin) == before


@IN_WORKTREE
def test_a_copy_looks_as_the_original(clone: Path, in_worktree: bool) -> None:
    top = worktree(clone) if in_worktree else clone
    with copied(top, [], {}) as place:
        for question in QUESTIONS:
            asked = (git(folder, *question.split()).replace("+ ", "  ") for folder in (place, top))
            assert next(asked) == next(asked), question


def test_what_is_a_link_in_a_copy_is_not_new_to_git(clone: Path) -> None:
    (clone / ".venv #1?").mkdir()
    (clone / ".venv #1?" / "pyvenv.cfg").touch()
    (clone / ".gitignore").write_text(".venv*/\ndata/\n")
    (clone / "data").mkdir()
    (clone / "data" / "a.bin").touch()
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "All")
    for version in (as_it_is, at_head):
        with version(clone) as place:
            assert (place / ".venv #1?").is_symlink()
            assert not git(place, "status", "--porcelain")


def test_a_changed_file_of_a_copy_is_a_change_to_git(clone: Path) -> None:
    git(clone, "commit", "-q", "-am", "All")
    with copied(clone, [], {clone / "train.py": b"patched"}) as place:
        assert git(place, "status", "--porcelain", "--untracked-files=no") == "M train.py"


def test_hooks_do_not_run_and_no_process_watches_a_copy(clone: Path, tmp_path: Path) -> None:
    hook = clone / ".git" / "hooks" / "post-commit"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    git(clone, "config", "core.fsmonitor", f"touch {tmp_path}/watched; false")
    git(clone, "config", "core.hooksPath", str(hook.parent))
    with copied(clone, [], {}) as place:
        subprocess.run(["git", "commit", "-qam", "All"], cwd=place, check=True, capture_output=True)
    assert not (tmp_path / "hooked").exists()
    assert not (tmp_path / "watched").exists()


def fails(folder: Path, *words: str) -> bool:
    return bool(subprocess.run(["git", *IDENTITY, *words], cwd=folder, check=False, capture_output=True).returncode)


PUSHES = (
    "push -q --all origin",
    "push -q origin HEAD:refs/heads/pushed --force",
    "push -q origin --delete kept",
    "push -q --no-verify --tags origin",
    "push -q {origin} HEAD:new",
)


@VERSIONS
@pytest.mark.parametrize("pushurl", [False, True])
def test_a_push_fails(clone: Path, origin: Path, version: Version, pushurl: bool) -> None:
    if pushurl:
        git(clone, "config", "remote.origin.pushurl", str(origin))
    before = state(clone, origin)
    with version(clone) as place:
        git(place, "commit", "-q", "--allow-empty", "-m", "From the copy")
        for push in PUSHES:
            assert fails(place, *push.format(origin=origin).split()), push
        assert state(clone, origin) == before


def test_borrowed_objects_are_found(clone: Path, tmp_path: Path) -> None:
    borrower = tmp_path / "borrower"
    git(tmp_path, "clone", "-q", "--shared", str(clone), str(borrower))
    (borrower / ".git" / "objects" / "info" / "alternates").write_text("../../../project/.git/objects\n")
    with copied(borrower, [], {}) as place:
        git(place, "fsck")
        assert git(place, "log", "-1", "--format=%s") == "three"


def test_a_repository_within_the_program_has_its_own_too(clone: Path) -> None:
    inner = clone / "vendor" / "library"
    git(clone.parent, "clone", "-q", str(clone), str(inner))
    head = git(inner, "rev-parse", "HEAD")
    with copied(clone, [], {}) as place:
        git(place / "vendor" / "library", "commit", "-q", "--allow-empty", "-m", "From the copy")
    assert git(inner, "rev-parse", "HEAD") == head


def test_what_is_no_repository_is_copied_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    (tmp_path / "project" / "sub").mkdir()
    (tmp_path / "project" / "sub" / ".git").write_text("gitdir: /nowhere\n")
    with copied(tmp_path / "project", [], {}) as place:
        assert list((place / ".git").iterdir()) == []
        assert (place / "sub" / ".git").read_text() == "gitdir: /nowhere\n"


@VERSIONS
def test_no_setting_leads_a_push_or_a_file_of_a_copy_to_the_original(
    clone: Path, origin: Path, monkeypatch: pytest.MonkeyPatch, version: Version
) -> None:
    (clone.parent / "all").write_text(
        f'[user]\n\tname = n\n\temail = n@example.org\n[remote "origin"]\n\tpushurl = {origin}\n'
        f'[url "{origin.parent}/"]\n\tpushInsteadOf = short:\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(clone.parent / "all"))
    (clone / ".git" / "more").write_text(f"[core]\n\tworktree = {clone}\n")
    git(clone, "config", "include.path", "more")
    before = state(clone, origin)
    with version(clone) as place:
        assert git(place, "rev-parse", "--show-toplevel") == str(place)
        for words in ("push origin HEAD:new", "push short:origin.git HEAD:new", "push --no-verify origin HEAD:new"):
            assert fails(place, *words.split()), words
        assert fails(place, "push", "--no-verify", "short:origin.git", "HEAD:new")
        git(place, "reset", "--hard", "HEAD~1")
        assert state(clone, origin) == before


@VERSIONS
def test_a_commit_in_a_copy_is_by_whom_the_place_of_the_original_says(
    clone: Path, origin: Path, monkeypatch: pytest.MonkeyPatch, version: Version
) -> None:
    everywhere, here = clone.parent / "all", clone.parent / "here"
    everywhere.write_text(f'[user]\n\tuseConfigOnly = true\n[includeIf "gitdir:{clone}/"]\n\tpath = {here}\n')
    here.write_text(
        f'[user]\n\tname = "A \\"B\\" ; C"\n\temail = a@example.org\n[remote "origin"]\n\tpushurl = {origin}\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(everywhere))
    for name in ("name", "email"):
        git(clone, "config", "--unset", f"user.{name}")
    before = state(clone, origin)
    with version(clone) as place:
        subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "From the copy"], cwd=place, check=True)
        assert git(place, "log", "-1", "--format=%an <%ae>") == 'A "B" ; C <a@example.org>'
        for push in (*PUSHES, "push -q --no-verify origin HEAD:new"):
            assert fails(place, *push.format(origin=origin).split()), push
        assert state(clone, origin) == before


def test_git_works_in_a_copy_of_a_worktree_of_a_bare_repository(origin: Path, tmp_path: Path) -> None:
    git(origin, "worktree", "add", "-q", str(tmp_path / "tree"), "kept")
    with copied(tmp_path / "tree", [], {}) as place:
        assert not git(place, "status", "--porcelain")


@VERSIONS
def test_a_repository_among_data_has_its_own_too(
    clone: Path, monkeypatch: pytest.MonkeyPatch, version: Version
) -> None:
    monkeypatch.setattr("pinprof.ab.copies.MOST_FILES", 1)
    (clone / ".gitignore").write_text("out/\n")
    git(clone, "init", "-q", str(clone / "out"))
    for name in "ab":
        (clone / "out" / name).touch()
    before = state(clone)
    with version(clone) as place:
        if (place / "out").exists():
            subprocess.run(["git", "add", "-A"], cwd=place / "out", check=True)
        assert state(clone) == before


def test_links_within_a_program_lead_to_the_copy(clone: Path) -> None:
    (clone / "source").mkdir()
    (clone / "source" / "model.py").touch()
    for name, target in (("code", "source"), ("main.py", "train.py"), ("none", "nowhere"), ("loop", "loop")):
        (clone / name).symlink_to(target)
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "Links")
    with copied(clone, [], {clone / "source" / "model.py": b"changed"}) as place:
        assert git(place, "status", "--porcelain") == "M source/model.py"
        assert (place / "code" / "model.py").read_text() == "changed"
