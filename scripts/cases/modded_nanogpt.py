"""Trains modded-nanoGPT with made-up tokens on one GPU: case.py and the words of train_gpt2.py.

Nothing is compiled, and attention is causal: that saves a start of minutes.
"""

import os
import runpy
import socket
import sys
from pathlib import Path

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention import flex_attention as flex

BACKENDS = [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH]
TOKENS, MAGIC, VERSION = 20_000_000, 20240520, 1
folder = Path("data/fineweb10B")
folder.mkdir(parents=True, exist_ok=True)
head = np.zeros(256, np.int32)
head[:3] = MAGIC, VERSION, TOKENS
for split in ("train", "val"):
    tokens = np.random.default_rng(0).integers(0, 50_257, TOKENS, np.uint16)
    (folder / f"fineweb_{split}_000001.bin").write_bytes(head.tobytes() + tokens.tobytes())


def attention(queries, keys, values, **_):
    """Stand in for flex_attention."""
    with sdpa_kernel(BACKENDS):  # the program turns all but cuDNN's off
        return torch.nn.functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)


def uncompiled(function=None, **_):
    """Stand in for torch.compile."""
    return function or uncompiled


torch.compile, flex.flex_attention, flex.create_block_mask = uncompiled, attention, lambda *_, **__: None
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    address, port = free.getsockname()
os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR=address, MASTER_PORT=str(port))
sys.argv[0] = "train_gpt2.py"
runpy.run_path("train_gpt2.py", run_name="__main__")
