"""Pretrains litgpt's TinyLlama with made-up tokens on one GPU: case.py MICRO-BATCHES LAYERS.

Not compiled, and a step has few micro-batches.
"""

import sys
from pathlib import Path

import lightning as L
import torch

sys.path.insert(0, ".")
sys.path.insert(0, "pretrain")
import tinyllama

micro_batches, layers = int(sys.argv[1]), int(sys.argv[2])


class Tokens(torch.utils.data.Dataset):
    """Texts of the longest length."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        return torch.full((self.length + 1,), index % 32_000)


def made_up(batch_size, block_size):
    """Return what loads for the training and for the validation."""
    return [
        torch.utils.data.DataLoader(Tokens(block_size), batch_size, pin_memory=True, num_workers=4) for _ in range(2)
    ]


def config_of(name):
    """Return the named configuration with fewer layers."""
    return named(name, n_layer=layers)


named = tinyllama.Config.from_name
tinyllama.Config.from_name = config_of
tinyllama.create_dataloaders = made_up
tinyllama.gradient_accumulation_steps = tinyllama.log_iter_interval = micro_batches
tinyllama.measure_flops = lambda *_: 0
tinyllama.torch.compile = lambda model: model
tinyllama.out_dir = Path("out")
fabric = L.Fabric(devices=1, precision="bf16-true")
fabric.launch()
torch.set_float32_matmul_precision("high")
tinyllama.main(fabric, False)
