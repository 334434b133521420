"""The callback in trainings of PyTorch Lightning itself."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from trace_steps import steps_of

if TYPE_CHECKING:
    LightningModule: Any
    Trainer: Any
else:
    lightning = pytest.importorskip("pytorch_lightning", reason="PyTorch Lightning is not installed")
    LightningModule, Trainer = lightning.LightningModule, lightning.Trainer

from pinprof.capture.lightning import PinprofCallback
from pinprof.errors import CaptureError

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{message}")
    for message in (
        r"`isinstance\(treespec, LeafSpec\)` is deprecated:FutureWarning",
        "The '(train|val)_dataloader' does not have many workers",
        "GPU available but not used",
    )
]

SHORT: dict[str, Any] = {"warmup": 1, "plain_steps": 2, "plain_seconds": 0.0, "steps": 2}
NEEDED = 7  # with the two of the profiler's warm-up


class Model(LightningModule):  # type: ignore[misc]  # untyped: the library is not installed everywhere
    """One layer; fails at the batch `fail_at`, counted from 0 over all epochs."""

    def __init__(self, fail_at: int = -1) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.fail_at = fail_at
        self.batches = 0

    def training_step(self, batch: list[torch.Tensor], _batch_idx: int) -> torch.Tensor | None:
        if self.batches == self.fail_at:
            raise ZeroDivisionError
        self.batches += 1
        with torch.profiler.record_function("batch"):
            return self.layer(batch[0]).sum()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.01)


class Validated(Model):
    """Has a validation, too."""

    def validation_step(self, batch: list[torch.Tensor], _batch_idx: int) -> None:
        self.layer(batch[0])


class TwoOptimizers(Model):
    """Steps two optimizers per batch, by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: list[torch.Tensor], _batch_idx: int) -> None:
        for optimizer in self.optimizers():
            loss = super().training_step(batch, 0)
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(self.parameters(), 0.01) for _ in range(2)]


def batches(count: int) -> Any:
    return DataLoader(TensorDataset(torch.ones(count, 4)))


@pytest.fixture
def fit(tmp_path: Path) -> Callable[..., Any]:
    """Return a function that trains a model with a callback and returns the trainer."""

    def fit(model: Model, callback: PinprofCallback, *, count: int, validate: int = 0, **options: Any) -> Any:
        trainer = Trainer(
            **{"max_epochs": 1, **options},
            accelerator="cpu",
            callbacks=[callback],
            default_root_dir=tmp_path,
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=False,
            logger=False,
        )
        trainer.fit(model, batches(count), batches(validate) if validate else None)
        return trainer

    return fit


Fit = Callable[..., Any]


def test_steps_are_recorded_and_the_training_goes_on(fit: Fit, tmp_path: Path) -> None:
    model = Model()
    fit(model, PinprofCallback(tmp_path / "out.json", **SHORT), count=12)
    assert model.batches == 12
    assert steps_of(tmp_path / "out.json", "batch") == {"ProfilerStep#2": 1, "ProfilerStep#3": 1}


def test_stop_ends_the_training_once_the_steps_are_recorded(fit: Fit, tmp_path: Path) -> None:
    model = Model()
    fit(model, PinprofCallback(tmp_path / "out.json", stop=True, **SHORT), count=30, max_epochs=5)
    assert model.batches == NEEDED + 1  # the batch is drawn already when the step before it ends


def test_a_step_holds_the_batches_it_accumulates_and_the_fetch_of_the_next(fit: Fit, tmp_path: Path) -> None:
    fit(Model(), PinprofCallback(tmp_path / "out.json", **SHORT), count=20, accumulate_grad_batches=2)
    path = tmp_path / "out.json"
    assert list(steps_of(path, "batch").values()) == [2, 2]
    assert list(steps_of(path, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__").values()) == [2, 2]


def test_the_remainder_of_an_epoch_is_a_step(fit: Fit, tmp_path: Path) -> None:
    options = {**SHORT, "steps": 4}
    fit(Model(), PinprofCallback(tmp_path / "out.json", **options), count=3, accumulate_grad_batches=2, max_epochs=5)
    assert list(steps_of(tmp_path / "out.json", "batch").values()) == [1, 2, 1, 2]


def test_several_optimizers_of_a_batch_make_one_step(fit: Fit, tmp_path: Path) -> None:
    fit(TwoOptimizers(), PinprofCallback(tmp_path / "out.json", **SHORT), count=10)
    assert list(steps_of(tmp_path / "out.json", "batch").values()) == [2, 2]


def test_batches_of_validation_are_no_steps(fit: Fit, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit(Validated(), PinprofCallback(tmp_path / "out.json", **SHORT), count=4, validate=30, max_epochs=3)
    assert list(steps_of(tmp_path / "out.json", "batch").values()) == [1, 1]
    assert "validation ran between timed or recorded steps" in capsys.readouterr().err


def test_validation_before_the_first_step_is_not_in_it(
    fit: Fit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(Validated(), PinprofCallback(tmp_path / "out.json", **SHORT), count=NEEDED + 1, validate=3)
    assert "validation ran" not in capsys.readouterr().err


def test_too_short_a_training_is_said_and_does_not_fail(
    fit: Fit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(Model(), PinprofCallback(tmp_path / "out.json", **SHORT), count=4)
    assert "ended after 3 steps, before one was recorded; 7 are needed" in capsys.readouterr().err
    assert list(tmp_path.glob("*.json")) == []


def test_a_failing_training_keeps_what_was_recorded(fit: Fit, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        fit(Model(fail_at=NEEDED - 1), PinprofCallback(tmp_path / "out.json", **SHORT), count=20)
    assert steps_of(tmp_path / "out.json", "batch")["ProfilerStep#2"] == 1


def test_an_existing_trace_is_refused_before_the_first_batch(fit: Fit, tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text("precious")
    model = Model()
    with pytest.raises(CaptureError, match="exists already"):
        fit(model, PinprofCallback(tmp_path / "out.json"), count=20)
    assert model.batches == 0


def test_the_callback_is_of_the_package_in_use() -> None:
    used = next(name for name in ("lightning.pytorch", "pytorch_lightning") if name in sys.modules)
    assert issubclass(PinprofCallback, sys.modules[used].Callback)
