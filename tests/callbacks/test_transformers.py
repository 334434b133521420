"""The callback in trainings of transformers' own Trainer, on a tiny model built from a configuration."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from trace_steps import steps_of

import pinprof
from pinprof.ground.errors import CaptureError

pytestmark = pytest.mark.slow

SHORT: dict[str, Any] = {"warmup": 1, "plain_steps": 2, "plain_seconds": 0.0, "plain_precision": 1, "steps": 2}
NEEDED = 7  # with the two of the profiler's warm-up


@pytest.fixture(scope="module")
def library() -> Any:
    """Return the module of what needs transformers, whose import takes seconds: only where one of these tests runs."""
    pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate, which transformers' Trainer needs, is not installed")
    return import_module("marked_trainer")


@pytest.fixture
def trainer(library: Any, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that makes a Trainer with a callback, with this number of batches per epoch."""

    def make(callback: Any, *, count: int, **options: Any) -> Any:
        sizes = {"vocab_size": 16, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 1}
        config = library.transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
        tokens = torch.arange(8)
        return library.MarkedTrainer(
            library.transformers.GPT2LMHeadModel(config),
            library.transformers.TrainingArguments(
                output_dir=str(tmp_path / "out"),
                **{"num_train_epochs": 1, "per_device_train_batch_size": 1, **options},
                dataloader_pin_memory=False,
                disable_tqdm=True,
                report_to="none",
                save_strategy="no",
                use_cpu=True,
            ),
            train_dataset=[{"input_ids": tokens, "labels": tokens}] * count,
            eval_dataset=[{"input_ids": tokens, "labels": tokens}] * 20,
            callbacks=[callback],
        )

    return make


Make = Callable[..., Any]


def test_the_trainer_logs_the_figures_after_the_training(trainer: Make, library: Any, tmp_path: Path) -> None:
    training = trainer(library.PinprofCallback(tmp_path / "out.json", **SHORT), count=12)
    training.train()
    assert training.batches == 12
    assert steps_of(tmp_path / "out.json", "batch") == {"ProfilerStep#2": 1, "ProfilerStep#3": 1}
    figures = pinprof.load(tmp_path / "out.json").scalars()
    training.log({**figures})
    assert figures.items() <= training.state.log_history[-1].items()


def test_a_long_training_is_looked_at_again_and_goes_on(
    trainer: Make, library: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pinprof.capture.window.lean.MAX_SHARE_OF_RECORDINGS", 1e3)  # whatever a look costs here
    training = trainer(library.PinprofCallback(tmp_path / "out.json", every=10, **SHORT), count=40)
    training.train()
    assert training.batches == 40
    assert capsys.readouterr().err.count(" per step") == 3  # after 7 steps, and after 10 and the 4 of a look twice
    with pytest.raises(CaptureError, match="leave one out"):
        trainer(library.PinprofCallback(tmp_path / "other.json", every=10, stop=True), count=10).train()


def test_batches_of_evaluation_are_no_steps(
    trainer: Make, library: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    callback = library.PinprofCallback(tmp_path / "out.json", **SHORT)
    trainer(callback, count=NEEDED + 1, eval_strategy="steps", eval_steps=3).train()
    assert list(steps_of(tmp_path / "out.json", "batch").values()) == [1, 1]
    assert "validation ran between timed or recorded steps" in capsys.readouterr().err
