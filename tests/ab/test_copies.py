"""Copies of a program: what is real, what is a link, and that the program itself stays as it is."""

from pathlib import Path

import pytest

from pinprof.ab import copies
from pinprof.ab.copies import copied


def state(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with code, data, a checkpoint and caches."""
    monkeypatch.setattr(copies, "MOST_FILES", 20)
    top = tmp_path / "project"
    for name in ("pkg/__pycache__", "data/images", ".git", ".venv/lib"):
        (top / name).mkdir(parents=True)
    for name in ("train.py", "pkg/model.py", "pkg/__pycache__/model.pyc", "notes.txt", ".git/HEAD", ".venv/lib/a.py"):
        (top / name).write_text(name)
    for number in range(copies.MOST_FILES + 1):
        (top / "data" / "images" / str(number)).touch()
    with (top / "weights.pt").open("wb") as file:
        file.truncate(copies.LARGEST_FILE + 1)
    (tmp_path / "shared.py").write_text("shared")
    (top / "linked.py").symlink_to(tmp_path / "shared.py")
    return top


def test_code_is_real_and_data_is_linked(program: Path) -> None:
    before = state(program)
    with copied(program, [program / "train.py"], {program / "pkg" / "model.py": b"changed"}) as place:
        links = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_symlink()}
        assert links == {".venv", "data", "weights.pt"}
        assert (place / "pkg" / "model.py").read_text() == "changed"
        assert (place / "linked.py").read_text() == "shared"
        assert not (place / "pkg" / "__pycache__").exists()
        (place / "train.py").write_text("spoilt")
        (place / "pkg" / "out.txt").write_text("a result")
        assert place.name == program.name
    assert not place.parent.exists()
    assert state(program) == before


def test_a_needed_file_among_data_is_real(program: Path) -> None:
    script = program / "data" / "images" / "main"
    script.write_text("code")
    with copied(program, [script], {}) as place:
        assert not (place / "data" / "images").is_symlink()
        assert not (place / "data" / "images" / "main").is_symlink()


def test_nothing_is_left_where_the_block_fails(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(program))  # even within the folder that is copied
    with pytest.raises(KeyboardInterrupt), copied(program, [], {}):
        raise KeyboardInterrupt
    assert not list(program.glob("pinprof-try-*"))
