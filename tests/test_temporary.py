"""Temporary folders: gone afterwards, also those of a run that was killed, and never those of one that lives."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pinprof import temporary
from pinprof.errors import PinprofError
from pinprof.temporary import LOCK, temporary_folder

MAKER = """
import sys, time
from pinprof.temporary import temporary_folder
with temporary_folder("repeat") as folder:
    (folder / "copy").mkdir()
    (folder / "copy" / "data").symlink_to(sys.argv[1])
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, which is looked through anew."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    temporary._remove_dead.cache_clear()
    return tmp_path


def made_by_another(target: Path) -> tuple["subprocess.Popen[str]", Path]:
    maker = subprocess.Popen([sys.executable, "-c", MAKER, str(target)], stdout=subprocess.PIPE, text=True)
    assert maker.stdout
    return maker, Path(maker.stdout.readline().strip())


def test_a_folder_is_gone_afterwards(folder: Path) -> None:
    with temporary_folder("repeat") as place:
        assert place.parent == folder
        assert place.name.startswith("pinprof-repeat-")
    with pytest.raises(KeyboardInterrupt), temporary_folder("repeat"):
        raise KeyboardInterrupt
    assert not list(folder.iterdir())


def test_the_next_run_removes_what_a_killed_one_left_and_nothing_else(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = tmp_path_factory.mktemp("data")
    (data / "set.bin").touch()
    users = folder / "pinprof-repeat-mine"
    users.mkdir()
    dead, left = made_by_another(data)
    alive, kept = made_by_another(data)
    try:
        assert left.is_dir(), "the second one removes nothing of the first"
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        assert left.is_dir()
        with temporary_folder("workers"):
            assert not left.exists()
            assert (kept / LOCK).exists()
            assert users.is_dir(), "it has no lock, so nobody knows whose it is"
    finally:
        for maker in (dead, alive):
            maker.kill()
            maker.communicate()
    assert (data / "set.bin").exists()


def test_a_folder_without_locks_is_a_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_lock(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_lock)
    with temporary_folder("repeat") as place:
        assert not (place / LOCK).exists()
    assert not list(folder.iterdir())


def test_the_lock_goes_last(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = []
    remove = shutil.rmtree
    with temporary_folder("repeat") as place:
        (place / "copy").mkdir()

        def noted(path: Path, *, ignore_errors: bool) -> None:
            order.append((path.name, (place / LOCK).exists()))
            remove(path, ignore_errors=ignore_errors)

        monkeypatch.setattr(shutil, "rmtree", noted)
    assert order == [("copy", True), (place.name, True)]


def test_without_a_place_for_it_there_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with (
        pytest.raises(PinprofError, match=r"no temporary folder can be made \(No such file"),
        temporary_folder("repeat"),
    ):
        pass
