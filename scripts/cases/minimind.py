"""Fine-tunes MiniMind with made-up tokens: case.py and the words of trainer/train_full_sft.py."""

import os
import runpy
import sys
from pathlib import Path

import torch
from stand_ins import stand_in

sys.path.insert(0, str(Path.cwd()))


class SFTDataset(torch.utils.data.Dataset):
    """Conversations of the longest length."""

    def __init__(self, _path, _tokenizer, max_length):
        self.length = max_length

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        tokens = torch.full((self.length,), index % 6000)
        return tokens, tokens


stand_in("datasets")
stand_in("dataset.lm_dataset", SFTDataset=SFTDataset)
os.chdir("trainer")
sys.argv[0] = "train_full_sft.py"
runpy.run_path("train_full_sft.py", run_name="__main__")
