"""The callback in trainings of PyTorch Lightning itself."""

import csv
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset
from trace_steps import steps_of

import pinprof

pytestmark = [pytest.mark.slow]  # Lightning takes seconds to import
pytestmark += [
    pytest.mark.filterwarnings(f"ignore:{message}")
    for message in (
        r"`isinstance\(treespec, LeafSpec\)` is deprecated:FutureWarning",
        "The '(train|val)_dataloader' does not have many workers",
        "GPU available but not used",
    )
]

SHORT: dict[str, Any] = {"warmup": 1, "plain_steps": 2, "plain_seconds": 0.0, "plain_precision": 1, "steps": 2}
NEEDED = 7  # with the two of the profiler's warm-up


def batches(count: int) -> Any:
    return DataLoader(TensorDataset(torch.ones(count, 4)))


@pytest.fixture(scope="module")
def models() -> Any:
    """Return the module of what needs Lightning, whose import takes seconds: only where one of these tests runs."""
    pytest.importorskip("pytorch_lightning", reason="PyTorch Lightning is not installed")
    return import_module("lightning_models")


@pytest.fixture
def fit(models: Any, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that trains a model with a callback and returns the trainer."""

    def fit(model: Any, callback: Any, *, count: int, validate: int = 0, **options: Any) -> Any:
        trainer = models.Trainer(
            **{"max_epochs": 1, "logger": False, **options},
            accelerator="cpu",
            callbacks=[callback],
            default_root_dir=tmp_path,
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=False,
            log_every_n_steps=1,
        )
        trainer.fit(model, batches(count), batches(validate) if validate else None)
        return trainer

    return fit


Fit = Callable[..., Any]


def test_stop_ends_the_training_once_the_steps_are_recorded(fit: Fit, models: Any, tmp_path: Path) -> None:
    model = models.Model()
    fit(model, models.PinprofCallback(tmp_path / "out.json", stop=True, **SHORT), count=30, max_epochs=5)
    assert model.batches == NEEDED + 1  # the batch is drawn already when the step before it ends


def test_a_step_holds_the_batches_it_accumulates_and_the_fetch_of_the_next(
    fit: Fit, models: Any, tmp_path: Path
) -> None:
    fit(models.Model(), models.PinprofCallback(tmp_path / "out.json", **SHORT), count=20, accumulate_grad_batches=2)
    path = tmp_path / "out.json"
    assert list(steps_of(path, "batch").values()) == [2, 2]
    assert list(steps_of(path, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__").values()) == [2, 2]


def test_the_remainder_of_an_epoch_is_a_step(fit: Fit, models: Any, tmp_path: Path) -> None:
    options = {**SHORT, "steps": 4}
    fit(
        models.Model(),
        models.PinprofCallback(tmp_path / "out.json", **options),
        count=3,
        accumulate_grad_batches=2,
        max_epochs=5,
    )
    assert list(steps_of(tmp_path / "out.json", "batch").values()) == [1, 2, 1, 2]


def test_several_optimizers_of_a_batch_make_one_step(fit: Fit, models: Any, tmp_path: Path) -> None:
    fit(models.TwoOptimizers(), models.PinprofCallback(tmp_path / "out.json", **SHORT), count=10)
    assert list(steps_of(tmp_path / "out.json", "batch").values()) == [2, 2]


def test_a_failing_training_keeps_what_was_recorded(fit: Fit, models: Any, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        fit(models.Model(fail_at=NEEDED - 1), models.PinprofCallback(tmp_path / "out.json", **SHORT), count=20)
    assert steps_of(tmp_path / "out.json", "batch")["ProfilerStep#2"] == 1


def test_the_loggers_of_the_training_get_the_figures(fit: Fit, models: Any, tmp_path: Path) -> None:
    loggers = [models.CSVLogger(save_dir=str(tmp_path), name=name) for name in ("one", "other")]
    path = tmp_path / "out.json"
    fit(models.Model(), models.PinprofCallback(path, **SHORT), count=NEEDED + 2, logger=loggers)
    figures = pinprof.load(path).scalars()
    assert "pinprof/steps/step_ms" in figures
    assert "pinprof/steps/busy_ms" not in figures, "there is no GPU"
    for logger in loggers:
        with (Path(logger.log_dir) / "metrics.csv").open() as file:
            (row,) = csv.DictReader(file)
        assert int(row.pop("step")) == NEEDED
        assert {name: float(value) for name, value in row.items()} == pytest.approx(figures)
