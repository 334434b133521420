"""Versions in git: worktrees that come and go, with patches, data and submodules."""

import os
from pathlib import Path

import pytest
from users_git import commit_all, git

from pinprof.ab.checkout import Repository, apply_patch
from pinprof.errors import MeasureError

PATCH = """--- a/train.py
+++ b/train.py
@@ -1 +1 @@
-print("second")
+print("patched")
"""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    top = tmp_path / "project"
    (top / "data").mkdir(parents=True)
    (top / "__pycache__").mkdir()
    (top / "data" / "set.bin").write_text("data")
    (top / ".gitignore").write_text("data/\n__pycache__/\n")
    git(top, "init", "-q", "-b", "main")
    for text in ("first", "second"):
        (top / "train.py").write_text(f'print("{text}")\n')
        commit_all(top, f"Print {text}")
    return Repository.around(top)


def worktrees(repository: Repository) -> int:
    return git(repository.top, "worktree", "list").count("\n") + 1


def test_a_revision_is_checked_out_and_goes_away(repository: Repository) -> None:
    with repository.checkout(repository.commit("HEAD~1")) as place:
        assert (place / "train.py").read_text() == 'print("first")\n'
        assert place.name == "project"
        assert git(place, "rev-parse", "HEAD") == repository.commit("HEAD~1")
        assert not git(place, "status", "--porcelain")
        assert worktrees(repository) == 1, "the repository does not know of it"
    assert not place.parent.exists()


def test_it_goes_away_after_an_interruption_too(repository: Repository) -> None:
    with pytest.raises(KeyboardInterrupt), repository.checkout(repository.commit("HEAD")) as place:
        raise KeyboardInterrupt
    assert not place.parent.exists()
    assert worktrees(repository) == 1


def test_ignored_data_are_linked_and_caches_are_not(repository: Repository) -> None:
    with repository.checkout(repository.commit("HEAD")) as place:
        assert (place / "data" / "set.bin").read_text() == "data"
        assert not (place / "__pycache__").exists()
    assert (repository.top / "data" / "set.bin").exists()  # the link went, not the data


def test_a_submodule_is_that_of_the_working_tree(repository: Repository, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q")
    (library / "code.py").write_text("")
    commit_all(library, "Begin")
    git(repository.top, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "library")
    git(repository.top, "commit", "-q", "-m", "Use it")
    assert repository.submodules() == ["library"]
    with repository.checkout(repository.commit("HEAD")) as place:
        assert (place / "library" / "code.py").exists()
    assert (repository.top / "library" / "code.py").exists()


def test_a_patch_is_applied_in_the_checkout_alone(repository: Repository, tmp_path: Path) -> None:
    patch = tmp_path / "change.diff"
    patch.write_text(PATCH)
    with repository.checkout(repository.commit("HEAD"), patch) as place:
        assert (place / "train.py").read_text() == 'print("patched")\n'
    assert (repository.top / "train.py").read_text() == 'print("second")\n'


def test_a_patch_that_does_not_apply_is_told_and_nothing_is_left(repository: Repository, tmp_path: Path) -> None:
    patch = tmp_path / "change.diff"
    patch.write_text(PATCH)
    with (
        pytest.raises(MeasureError, match=r"the patch does not apply \(patch failed: train.py:1"),
        repository.checkout(repository.commit("HEAD~1"), patch),
    ):
        pass
    assert worktrees(repository) == 1
    with pytest.raises(MeasureError, match="the patch does not apply"):
        apply_patch(repository.top, tmp_path / "none.diff")


def test_a_changed_tree_is_told_from_a_clean_one(repository: Repository) -> None:
    head = repository.commit("HEAD")
    assert not repository.changed(head)
    assert repository.changed(repository.commit("HEAD~1"))
    (repository.top / "new.py").write_text("")
    assert repository.untracked() == ["new.py"]
    assert repository.changed(head)
    before = repository.state()
    (repository.top / "checkpoint.pt").write_text("what the program wrote")
    assert repository.state() == before
    (repository.top / "train.py").write_text("")
    assert repository.state() != before


def test_what_git_cannot_find_is_told(repository: Repository, tmp_path: Path) -> None:
    with pytest.raises(MeasureError, match="v9: git knows no such revision"):
        repository.commit("v9")
    with pytest.raises(MeasureError, match="git knows no such revision"):
        repository.commit("--help")
    with pytest.raises(MeasureError, match="not in a git repository"):
        Repository.around(tmp_path)


def test_the_version_runs_in_the_same_folder_of_its_checkout(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository.top / "tools").mkdir()
    (repository.top / "tools" / "train.py").write_text("")
    commit_all(repository.top, "Add tools")
    monkeypatch.setenv("PYTHONPATH", f"{repository.top}/src{os.pathsep}/elsewhere")
    below = Repository.around(repository.top / "tools")
    with below.checkout(below.commit("HEAD")) as place:
        version = below.version("base", place, ["train.py"], [below.top])
        assert version.folder == place / "tools"
        assert version.environment == {
            "PYTHONPATH": f"{place}/src{os.pathsep}/elsewhere",
            "GIT_CEILING_DIRECTORIES": str(place.parent),
        }
        assert version.not_its_own == (f"{below.top}/",)
    with (
        below.checkout(below.commit("HEAD~1")) as place,
        pytest.raises(MeasureError, match="it has no folder tools"),
    ):
        below.version("base", place, ["train.py"])


def test_revisions_between_two_are_in_order(repository: Repository) -> None:
    first, last = repository.commit("HEAD~1"), repository.commit("HEAD")
    assert repository.between(first, last) == [last]
    assert repository.between(last, first) == []
    assert repository.subject(last) == "Print second"
