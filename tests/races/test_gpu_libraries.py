"""Libraries that copy asynchronously, and rightly, under the guard: nothing is to be reported of them."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from pinprof.races.guard import Guard

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]  # those of the libraries are theirs

Library = Callable[[Path], object]


def model() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(768, 64), nn.ReLU(), nn.Linear(64, 10))


def loader(dtype: torch.dtype = torch.float32) -> DataLoader[Any]:
    images = TensorDataset(torch.zeros(64, 3, 16, 16, dtype=dtype), torch.arange(64) % 10)
    return DataLoader(images, batch_size=8, pin_memory=True, num_workers=1)


def timm(_: Path) -> None:
    of_timm = pytest.importorskip("timm.data.loader")
    network = model().cuda()
    for images, labels in of_timm.PrefetchLoader(loader(torch.uint8), device=torch.device("cuda")):
        nn.functional.cross_entropy(network(images), labels).backward()  # type: ignore[no-untyped-call]


def accelerate(_: Path) -> None:
    library = pytest.importorskip("accelerate")
    settings = library.utils.DataLoaderConfiguration(non_blocking=True)
    accelerator, network = library.Accelerator(dataloader_config=settings), model()
    optimizer = torch.optim.AdamW(network.parameters())
    network, optimizer, batches = accelerator.prepare(network, optimizer, loader())
    for images, labels in batches:
        optimizer.zero_grad()
        accelerator.backward(nn.functional.cross_entropy(network(images), labels))
        optimizer.step()


def lightning(folder: Path) -> None:
    library = pytest.importorskip("pytorch_lightning")
    base: Any = library.LightningModule

    class Task(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = model()

        def training_step(self, batch: Any, _: int) -> Any:
            loss = nn.functional.cross_entropy(self.network(batch[0]), batch[1])
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters())

    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = library.Trainer(max_steps=5, devices=1, default_root_dir=folder, enable_model_summary=False, **quiet)
    trainer.fit(Task(), loader())


def transformers(folder: Path) -> None:
    library = pytest.importorskip("transformers")
    ids = torch.arange(16)
    config = library.GPT2Config(n_layer=1, n_head=2, n_embd=32, vocab_size=64, n_positions=32)
    settings = library.TrainingArguments(
        output_dir=str(folder),
        max_steps=5,
        accelerator_config={"non_blocking": True},
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    data = [{"input_ids": ids, "labels": ids}] * 64
    library.Trainer(model=library.GPT2LMHeadModel(config), args=settings, train_dataset=data).train()


@contextmanager
def job(folder: Path) -> Iterator[None]:
    for backend in ("GLOO", "NCCL"):
        os.environ.setdefault(f"{backend}_SOCKET_IFNAME", "lo")
    store: Any = vars(torch.distributed)["FileStore"]
    both = "cpu:gloo,cuda:nccl"
    torch.distributed.init_process_group(both, store=store(str(folder / "store"), 1), rank=0, world_size=1)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def offloaded_shards(folder: Path) -> None:
    fsdp: Any = pytest.importorskip("torch.distributed.fsdp")
    network, policy = model(), fsdp.CPUOffloadPolicy(pin_memory=True)
    with job(folder):
        fsdp.fully_shard(network, offload_policy=policy)
        optimizer = torch.optim.AdamW(network.parameters())
        for _ in range(3):
            network(torch.rand(8, 3, 16, 16, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()


def asynchronous_checkpoint(folder: Path) -> None:
    checkpoint: Any = pytest.importorskip("torch.distributed.checkpoint")
    staging: Any = pytest.importorskip("torch.distributed.checkpoint.staging")
    network = nn.Linear(1024, 1024, device="cuda")
    for step in range(2):
        stager = staging.DefaultStager(staging.StagingOptions(use_shared_memory=False))
        saved = checkpoint.async_save(
            dict(network.state_dict()), checkpoint_id=folder / str(step), async_stager=stager, no_dist=True
        )
        saved.staging_completion.result()
        network(torch.zeros(1, 1024, device="cuda")).sum().backward()
        saved.upload_completion.result()


@pytest.mark.parametrize(
    "library", [timm, accelerate, lightning, transformers, offloaded_shards, asynchronous_checkpoint]
)
def test_a_library_that_waits_rightly_is_left_alone(library: Library, tmp_path: Path) -> None:
    with Guard("collect") as guard:
        library(tmp_path)
    assert guard.violations == (), str(guard)
    assert guard.followed > 0, str(guard)
