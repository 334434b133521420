"""Names of Python functions in a trace: read, and told apart by whose code they are."""

import sysconfig
from pathlib import Path

import pytest

from pinprof.trace.frames import Frame, _is_installed, frame, is_user_code, tensor_method


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train.py(348): train", Frame("train.py", 348, "train")),
        ("/home/me/my job (2)/train.py(12): <lambda>", Frame("/home/me/my job (2)/train.py", 12, "<lambda>")),
        ("<string>(1): <module>", Frame("<string>", 1, "<module>")),
        ("<frozen runpy>(88): _run_code", Frame("<frozen runpy>", 88, "_run_code")),
        ("model.py(7): a(3): b", Frame("model.py(7): a", 3, "b")),
    ],
)
def test_a_frame_is_file_line_and_function(name: str, expected: Frame) -> None:
    assert frame(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        *("<built-in method item of Tensor object at 0x7f00>", "nn.Module: Linear_0", "train.py: train"),
        *("train.py(x): train", "(3): train", "train.py(3):train", "train.py(3): "),
        *("train.py(" + "1" * 5_000 + "): train", ""),
    ],
)
def test_builtins_and_modules_are_no_frames(name: str) -> None:
    assert frame(name) is None
    assert not is_user_code(name)


@pytest.mark.parametrize(
    "file",
    [
        *("train.py", "/home/me/train.py", "/home/me/project/models/bert.py", "models/bert.py", "./train.py"),
        *("/tmp/torch_experiments/train.py", "torchtitan/train.py", "torch_train.py", "mytorch/data.py"),
        *("pinprof/workloads/copies.py", "mypackage/train.py", "mypackage/transformers/trainer.py"),
        *("my_transformers/trainer.py", "transformers_finetune.py", "src/train.py", "my-package/train.py"),
        *("../train.py", "données/train.py"),
    ],
)
def test_code_in_the_users_own_files_is_theirs(file: str) -> None:
    assert is_user_code(f"{file}(10): train")


@pytest.mark.parametrize(
    "file",
    [
        "torch/nn/modules/module.py",
        "torch/_tensor.py",
        "/usr/lib/python3.11/threading.py",
        "/usr/lib/python3/dist-packages/numpy/core.py",
        "/home/me/.venv/lib/python3.12/site-packages/transformers/trainer.py",
        "/opt/conda/lib/python3.10/site-packages/torch/nn/modules/module.py",
        "site-packages/lightning/trainer.py",
        "threading.py",
        "multiprocessing/process.py",
        "contextlib.py",
        "<string>",
        "<frozen runpy>",
        "<frozen importlib._bootstrap>",
        "pinprof/capture/script.py",
        "pinprof/cli/run.py",
        "pinprof/__main__.py",
        "transformers/trainer.py",
        "torchvision/ops/boxes.py",
        "accelerate/utils/other.py",
        "lightning/pytorch/loops/fit_loop.py",
        "pytorch_lightning/trainer/trainer.py",
        "timm/models/resnet.py",
        "deepspeed/runtime/engine.py",
        "PIL/Image.py",
        "triton/runtime/jit.py",
        "torch.py",
        ".venv/lib/python3.12/site-packages/unknown/loop.py",
        "/usr/lib/python3.11/site-packages/unknown.py",
    ],
)
def test_code_of_torch_python_installed_packages_and_the_recorder_is_not(file: str) -> None:
    assert not is_user_code(f"{file}(10): run")


def test_a_package_that_is_installed_beside_pinprof_is_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "installed").mkdir()
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    _is_installed.cache_clear()
    try:
        assert not is_user_code("installed/loop.py(10): run")
        assert is_user_code("missing/loop.py(10): run")
        assert is_user_code("installed.py(10): run")  # a file of that name is the user's
    finally:
        _is_installed.cache_clear()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("<built-in method item of Tensor object at 0x7f00>", "item"),
        ("<built-in method tolist of Parameter object at 0x7f00>", "tolist"),
        ("<built-in method tolist of numpy.ndarray object at 0x7f00>", None),
        ("<built-in method tensor of type object at 0x7f00>", None),
        ("<built-in function item>", None),
        ("torch/_tensor.py(570): backward", None),
        ("", None),
    ],
)
def test_a_method_of_a_tensor_is_told_from_other_builtins(name: str, expected: str | None) -> None:
    assert tensor_method(name) == expected
