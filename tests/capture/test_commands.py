"""Which commands of a script pinprof records, and what it makes of them."""

import sys
from pathlib import Path

import msgspec
import pytest

from pinprof.capture.children.commands import may_train, to_follow, words_of
from pinprof.capture.children.notes import ChildConfig
from pinprof.capture.job import Rank
from pinprof.capture.options import RecordingOptions

PYTHON = sys.executable
BIN = Path(PYTHON).parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").touch()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").touch()
    return tmp_path


def followed(folder: Path, *words: str, **environment: str) -> tuple[bool, str, tuple[str, ...]] | None:
    command = to_follow(words, environment, folder)
    return command and (command.module, command.name, command.args)


def test_scripts_and_modules_of_the_user_are_followed(folder: Path) -> None:
    assert followed(folder, PYTHON, "train.py", "--lr", "1") == (False, "train.py", ("--lr", "1"))
    assert followed(folder, PYTHON, str(folder / "train.py")) == (False, str(folder / "train.py"), ())
    assert followed(folder, PYTHON, "-u", "-W", "error", "-m", "package.train", "-x") == (
        True,
        "package.train",
        ("-x",),
    )
    assert followed(folder, Path(PYTHON).name, "train.py", PATH=str(BIN)) == (False, "train.py", ())


def test_launchers_are_followed_though_they_are_installed(folder: Path) -> None:
    assert followed(folder, PYTHON, "-m", "torch.distributed.run", "train.py") is not None
    torchrun = folder / "torchrun"
    torchrun.write_text(f"#!{PYTHON}\n")
    torchrun.chmod(0o755)
    for program in (str(torchrun), "torchrun"):
        assert followed(folder, program, "train.py", PATH=str(folder)) == (False, str(torchrun), ("train.py",))


@pytest.mark.slow
def test_helpers_are_not_followed(folder: Path) -> None:
    import torch._inductor.compile_worker as worker  # noqa: PLC0415  only this test needs it

    helper = str(Path(worker.__file__).parent / "__main__.py")
    for words in (
        *((), (PYTHON,), (PYTHON, "-c", "import train"), (PYTHON, "-"), (PYTHON, "-m", "pip", "list")),
        *((PYTHON, "-m", "http.server"), (PYTHON, "-m", "no_such_module"), (PYTHON, "no_such_file.py")),
        *((PYTHON, helper, "--workers=2"), (str(BIN / "ruff"), "check"), ("ls", "train.py")),
        ("no_such_program", "train.py"),
    ):
        assert followed(folder, *words) is None, words


def test_a_process_with_a_rank_of_its_own_is_followed_wherever_its_module_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    words = (PYTHON, "-m", "http.server")
    assert followed(folder, *words, RANK="1", WORLD_SIZE="2") is not None
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert followed(folder, *words, RANK="1", WORLD_SIZE="2") is None


def test_the_followed_command_keeps_pythons_options_and_the_scripts_arguments(folder: Path) -> None:
    command = to_follow((PYTHON, "-u", "train.py", "--name", "it's"), {}, folder)
    assert command is not None
    config = ChildConfig(
        "/out.json.gz", "auto", keep_going=False, options=RecordingOptions(steps=3), notes="/n", inherited=Rank(1, 2)
    )
    python, unbuffered, option, program, *rest = command.followed(config)
    assert (python, unbuffered, option, rest) == (PYTHON, "-u", "-c", ["train.py", "--name", "it's"])
    compile(program, "program", "exec")
    assert msgspec.json.decode(msgspec.json.encode(config), type=ChildConfig) == config


def test_words_of_a_command() -> None:
    assert words_of([b"python", Path("train.py"), "-x"]) == ["python", "train.py", "-x"]
    assert words_of("python train.py") is None
    assert words_of([]) == []


def test_a_line_that_may_train() -> None:
    assert may_train("CUDA_VISIBLE_DEVICES=0 python train.py --lr 1")
    assert may_train("/usr/bin/torchrun -m package.train")
    assert not may_train("nvidia-smi -L")
    assert not may_train("")
