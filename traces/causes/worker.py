"""Sounds are resampled by scipy before they become spectrograms; Lightning."""
import os

import numpy as np
import pytorch_lightning as pl
import scipy.signal
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SMALL = "SMALL" in os.environ
STEPS = int(os.environ.get("STEPS", 5 if SMALL else 10**8))


class Sounds(Dataset):
    def __init__(self):
        self.sounds = np.random.default_rng(0).standard_normal((32, 22_050)).astype(np.float32)

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        sound = self.sounds[index % 32]
        sound = scipy.signal.resample_poly(sound, 160, 441, window=("kaiser", 12.0))  # planted
        spectrum = np.abs(np.fft.rfft(sound[:7936].reshape(-1, 256) * np.hanning(256).astype(np.float32)))
        return torch.from_numpy(spectrum.astype(np.float32)), index % 12


class Classifier(pl.LightningModule):
    def __init__(self, width):
        super().__init__()
        self.inp = nn.Linear(129, width)
        self.body = nn.ModuleList(nn.Sequential(nn.Conv1d(width, width, 3, padding=1), nn.BatchNorm1d(width), nn.ReLU()) for _ in range(6))
        self.out = nn.Linear(width, 12)

    def training_step(self, batch, batch_idx):
        x, y = batch
        x = self.inp(x.log1p()).transpose(1, 2)
        for one in self.body:
            x = x + one(x)
        return nn.functional.cross_entropy(self.out(x.mean(-1)), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


loader = DataLoader(Sounds(), batch_size=4 if SMALL else 64, shuffle=True, num_workers=2 if SMALL else 3, persistent_workers=True)
trainer = pl.Trainer(
    max_steps=STEPS, max_epochs=-1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False, devices=1,
)  # fmt: skip
trainer.fit(Classifier(32 if SMALL else 256), loader)
print("steps", trainer.global_step)
