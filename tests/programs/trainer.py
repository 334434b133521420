"""A tiny GPT-2 trained by transformers' Trainer on random tokens."""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Tokens(Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = torch.randint(512, (64,))
        return {"input_ids": tokens, "labels": tokens}


def main() -> None:
    config = GPT2Config(vocab_size=512, n_positions=64, n_embd=128, n_layer=4, n_head=4)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=16, max_steps=10_000, logging_steps=10, report_to=[], save_strategy="no"
        )
        Trainer(GPT2LMHeadModel(config), arguments, train_dataset=Tokens()).train()


if __name__ == "__main__":
    main()
