"""Lightning: before each optimizer step a callback sorts the parameters into groups by their names."""
import os
import re

import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = int(os.environ.get("STEPS", 5 if "SMALL" in os.environ else 10**8))
SMALL = "SMALL" in os.environ


class Frames(Dataset):
    def __init__(self):
        self.frames = torch.randn(128, 3, 32 if SMALL else 64, 32 if SMALL else 64)

    def __len__(self):
        return 200_000

    def __getitem__(self, index):
        return self.frames[index % 128], index % 10


class LayerwiseRates(pl.Callback):
    pattern = re.compile(r"^(?P<part>[a-z]+)\.(?P<depth>\d+)\.(?P<kind>.*?)\.?(?P<what>weight|bias)$")

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        self.rates = {}
        for factor in range(40):
            self.collect(pl_module, factor)  # planted

    def collect(self, module, factor):
        for name, parameter in module.named_parameters():  # planted
            found = self.pattern.match(name)  # planted
            if found:
                self.rates[name] = 0.9 ** (factor - int(found["depth"]))


class ConvModule(pl.LightningModule):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, 4)
        self.body = nn.ModuleList(nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.BatchNorm2d(width), nn.ReLU()) for _ in range(depth))
        self.head = nn.Linear(width, 10)

    def training_step(self, batch, batch_idx):
        x, y = batch
        x = self.stem(x)
        for one in self.body:
            x = x + one(x)
        return nn.functional.cross_entropy(self.head(x.mean((2, 3))), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)


loader = DataLoader(Frames(), batch_size=8 if SMALL else 64, num_workers=0 if SMALL else 3, pin_memory=True, persistent_workers=not SMALL)
trainer = pl.Trainer(
    max_steps=STEPS, max_epochs=-1, callbacks=[LayerwiseRates()], logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, devices=1,
)  # fmt: skip
trainer.fit(ConvModule(16 if SMALL else 96, 3 if SMALL else 12), loader)
print("steps", trainer.global_step)
