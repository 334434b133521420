"""Questions to git: nothing that a repository's configuration names is started for them."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import users_git

from pinprof.fix import FixError, Patches, check_patches
from pinprof.git import GitError, git

CONFIG = """
[core]
    fsmonitor = {canary} fsmonitor
    hooksPath = hooks
    pager = {canary} pager
    sshCommand = {canary} ssh
    editor = {canary} editor
    gitProxy = {canary} proxy
    attributesFile = {attributes}
[alias]
    status = !{canary} alias
    diff = !{canary} alias
[credential]
    helper = !{canary} credential
[diff]
    external = {canary} external
    submodule = diff
[diff "text"]
    textconv = {canary} textconv
    command = {canary} driver
[filter "one"]
    clean = {canary} clean
    smudge = {canary} smudge
    required = true
[filter "two"]
    process = {canary} process
[log]
    showSignature = true
[gpg]
    program = {canary} gpg
[include]
    path = more.config
"""
MORE = """
[filter "Three"]
    clean = {canary} included
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with three Python files, each changed or only touched since the commit."""
    top = tmp_path / "project"
    top.mkdir()
    users_git.git(top, "init", "-q", "-b", "main")
    for name in ("a.py", "b.py", "c.py"):
        (top / name).write_text("x = 1\n")
    users_git.git(top, "add", ".")
    users_git.git(top, "commit", "-q", "-m", "All")
    return top


@pytest.fixture
def started(folder: Path, tmp_path: Path) -> Callable[[], str]:
    """Make the repository's configuration name a program wherever it can, and return what says which were started."""
    canary, log = tmp_path / "canary.sh", tmp_path / "started"
    canary.write_text(f'#!/bin/sh\necho "$1" >> {log}\ncat\n')
    canary.chmod(0o755)
    attributes = tmp_path / "attributes"
    attributes.write_text("*.py diff=text\na.py filter=one\nb.py filter=two\nc.py filter=Three\n")
    text = CONFIG.format(canary=canary, attributes=attributes)
    config = folder / ".git" / "config"
    config.write_text(config.read_text() + text)
    (folder / ".git" / "more.config").write_text(MORE.format(canary=canary))
    (folder / "hooks").mkdir()
    for hook in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction", "fsmonitor-watchman"):
        (folder / "hooks" / hook).symlink_to(canary)
    for name in ("a.py", "b.py", "c.py"):
        (folder / name).write_text("x = 2\n")
        os.utime(folder / name, (1, 1))
    return lambda: log.read_text() if log.exists() else ""


def test_a_plain_status_would_have_started_them(folder: Path, started: Callable[[], str]) -> None:
    subprocess.run(["git", "status"], cwd=folder, check=False, capture_output=True)
    assert {"fsmonitor", "clean", "included"} <= set(started().split())


def test_before_a_file_is_written_nothing_is_started(folder: Path, started: Callable[[], str]) -> None:
    for name in ("a.py", "b.py", "c.py"):
        content = (folder / name).read_bytes()
        patches = Patches((), (), {folder / name: content}, {folder / name: b""}, folder)
        with pytest.raises(FixError, match="has changes that are not committed"):
            check_patches(patches, backup=False)
    assert not started()


def test_a_filter_that_cannot_be_switched_off_is_an_error(folder: Path, started: Callable[[], str]) -> None:
    with (folder / ".git" / "config").open("a") as config:
        config.write('[filter "a=b"]\n    clean = touch canary\n')
    with pytest.raises(GitError, match=r"a filter whose name has a =: filter\.a=b\.clean"):
        git(folder, "status", "--porcelain")
    patches = Patches((), (), {folder / "a.py": b"x = 2\n"}, {folder / "a.py": b""}, folder)
    with pytest.raises(FixError):
        check_patches(patches, backup=False)
    assert not started()


def test_what_a_partial_clone_lacks_is_not_fetched(folder: Path, tmp_path: Path) -> None:
    users_git.git(folder, "config", "uploadpack.allowFilter", "true")
    clone, canary = tmp_path / "clone", tmp_path / "canary"
    users_git.git(tmp_path, "clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{folder}", str(clone))
    users_git.git(clone, "config", "remote.origin.uploadpack", f"touch {canary}; git-upload-pack")
    users_git.git(clone, "config", "protocol.file.allow", "always")
    for url in (f"file://{folder}", str(folder)):
        users_git.git(clone, "config", "remote.origin.url", url)
        with pytest.raises(GitError):
            git(clone, "show", "HEAD:a.py")
    assert not canary.exists()
    assert git(clone, "show", "HEAD:a.py", as_the_user=True) == "x = 1"
    assert canary.exists()


def test_a_repository_that_the_environment_names_is_not_the_one_of_the_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    users_git.git(other, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    assert git(folder, "rev-parse", "--show-toplevel") == str(folder)


def test_a_git_in_the_folder_is_not_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "git").write_text("#!/bin/sh\ntouch canary\n")
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.environ['PATH']}")
    assert git(folder, "rev-parse", "--show-toplevel") == str(folder)
    assert not (folder / "canary").exists()
    monkeypatch.setenv("PATH", ".")
    with pytest.raises(GitError, match="git is not installed"):
        git(folder, "status")
