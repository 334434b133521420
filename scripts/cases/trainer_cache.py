"""Trains a small GPT-2 with the Trainer of transformers, with made-up tokens: case.py LAYERS BATCH LENGTH."""

import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

layers, batch, length = map(int, sys.argv[1:4])
EMPTIES_CACHE_EVERY = 1
"""As the loop of transformers 4.41 did."""


class Tokens(torch.utils.data.Dataset):
    """Texts of one length."""

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        tokens = torch.full((length,), index % 50_000)
        return {"input_ids": tokens, "labels": tokens}


arguments = TrainingArguments(
    "out",
    per_device_train_batch_size=batch,
    bf16=torch.cuda.is_available(),
    logging_steps=100,
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
    torch_empty_cache_steps=EMPTIES_CACHE_EVERY,
)
Trainer(GPT2LMHeadModel(GPT2Config(n_layer=layers)), arguments, train_dataset=Tokens()).train()
