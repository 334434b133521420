"""Outputs: whole or not at all, through what is not a file, and never over what is read."""

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from recordings import TRACES
from trace_builder import TraceBuilder

from pinprof import load
from pinprof.ground.errors import PinprofError
from pinprof.ground.outputs import check_outputs, hidden_folder, is_own, is_stream, unfinished, write_whole


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def group_may_read() -> Iterator[None]:
    """Set a umask that neither a file for one user nor one for all has."""
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.usefixtures("group_may_read")
def test_a_new_file_has_the_mode_of_new_files(tmp_path: Path) -> None:
    write_whole(tmp_path / "out", "text")
    assert mode(tmp_path / "out") == 0o640


@pytest.mark.usefixtures("group_may_read")
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("old")
    out.chmod(0o604)
    write_whole(out, "new")
    assert (out.read_text(), mode(out)) == ("new", 0o604)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_file_that_is_replaced_keeps_its_owner(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("old")
    os.chown(out, 1234, 2345)
    write_whole(out, "new")
    assert (out.stat().st_uid, out.stat().st_gid) == (1234, 2345)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_stays_and_its_target_is_written(tmp_path: Path, *, is_there: bool) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    if is_there:
        (folder / "target").write_text("old")
    (tmp_path / "link").symlink_to("elsewhere/target")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (folder / "target").read_text() == "new"
    assert [path.name for path in folder.iterdir()] == ["target"]


def test_a_pipe_gets_the_text_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    check_outputs([str(pipe)], force=False)
    write_whole(pipe, "text")
    reader.join()
    assert got == ["text"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_stays_one(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(os.devnull)
    before = Path(os.devnull).stat()
    for name in (Path(os.devnull), link):
        check_outputs([str(name)], force=False)
        write_whole(name, "text")
    assert (Path(os.devnull).stat().st_mode, Path(os.devnull).stat().st_rdev) == (before.st_mode, before.st_rdev)
    with pytest.raises(OSError, match="not a regular file"), unfinished(link):
        pass


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"])
def test_what_an_open_descriptor_leads_to_is_written_on_from_where_it_is(tmp_path: Path, folder: str) -> None:
    log = tmp_path / "log"
    with log.open("w") as file:
        file.write("before ")
        file.flush()
        link = tmp_path / "link"
        link.symlink_to(f"{folder}/{file.fileno()}")
        for name in (Path(folder) / str(file.fileno()), link):
            assert is_stream(name)
            write_whole(name, "text ")
        file.write("after")
    assert log.read_text() == "before text text after"


def test_what_fails_half_way_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old")

    def write_half() -> None:
        with unfinished(tmp_path / "out") as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert (tmp_path / "out").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_signal_while_all_is_removed_leaves_nothing_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remove = Path.rmdir
    interrupted: list[Path] = []

    def rmdir(folder: Path) -> None:
        if not interrupted:
            interrupted.append(folder)
            raise KeyboardInterrupt
        remove(folder)

    monkeypatch.setattr(Path, "rmdir", rmdir)
    with pytest.raises(KeyboardInterrupt), hidden_folder(tmp_path) as folder:
        assert folder.name.startswith(f".pinprof-{os.getpid()}-")
    assert not list(tmp_path.iterdir())


def test_one_file_is_not_two_outputs_nor_an_input_by_any_name(tmp_path: Path) -> None:
    one, hard, link = tmp_path / "one", tmp_path / "hard", tmp_path / "link"
    one.write_text("precious")
    hard.hardlink_to(one)
    link.symlink_to("one")
    (tmp_path / "folder").symlink_to(".")
    for other in (hard, link, tmp_path / "folder" / "one"):
        with pytest.raises(PinprofError, match="names two outputs"):
            check_outputs([str(one), str(other)], force=True)
        with pytest.raises(PinprofError, match="is also an input"):
            check_outputs([str(other)], [str(one)], force=True)
    with pytest.raises(PinprofError, match="names two outputs"):  # neither is there yet
        check_outputs([str(tmp_path / "new"), str(tmp_path / "folder" / "new")], force=True)
    check_outputs([str(one), str(tmp_path / "new")], [str(tmp_path / "read")], force=True)


def test_a_link_to_a_folder_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("none/out")
    with pytest.raises(PinprofError, match="there is no folder"):
        check_outputs([str(tmp_path / "link")], force=True)


@pytest.mark.slow
def test_what_pinprof_made_is_known_by_its_content(tmp_path: Path) -> None:
    page, of_ranks, empty, packed = (tmp_path / name for name in ("a.html", "b.html", "c.json", "d.json.gz"))
    load(TRACES / "clean.json.gz").save(page)
    load(sorted(TRACES.glob("ranks/sleeping_rank.rank?.before.json.gz"))).save(of_ranks)
    empty.write_text("")
    packed.write_text("not packed")
    others = [TraceBuilder().write(tmp_path / "torch.json"), empty, packed, tmp_path / "missing.json", tmp_path]
    assert all(is_own(path) for path in (page, of_ranks, TRACES / "clean.json.gz"))
    assert not any(is_own(path) for path in others)
