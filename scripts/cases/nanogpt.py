"""Trains nanoGPT with made-up tokens: case.py and the words of train.py."""

import runpy
import sys
from pathlib import Path

import numpy as np

folder = Path("data/openwebtext")
folder.mkdir(parents=True, exist_ok=True)
for split in ("train", "val"):
    np.random.default_rng(0).integers(0, 50_257, 2_000_000, np.uint16).tofile(folder / f"{split}.bin")
sys.argv[0] = "train.py"
runpy.run_path("train.py", run_name="__main__")
