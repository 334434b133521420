"""Fine-tunes a small model with litgpt's LoRA, with made-up tokens: case.py LAYERS MICRO-BATCH LENGTH."""

import sys
from pathlib import Path

import lightning as L
import torch

sys.path.insert(0, ".")
from litgpt.args import EvalArgs, TrainArgs
from litgpt.finetune import lora

layers, batch, length = map(int, sys.argv[1:4])


class Tokens(torch.utils.data.Dataset):
    """Texts of one length."""

    def __len__(self):
        return 20_000

    def __getitem__(self, index):
        if index >= len(self):
            raise IndexError
        tokens = torch.full((length,), index % 50_000)
        return {"input_ids": tokens, "labels": tokens}


lora.Tokenizer = lambda *_: None
lora.get_longest_seq_length = lambda _: (length, 0)
fabric = L.Fabric(devices=1, precision="bf16-true")
fabric.launch()
config = lora.Config.from_name(
    "pythia-410m",
    n_layer=layers,
    lora_r=8,
    lora_alpha=16,
    lora_dropout=0.05,
    lora_query=True,
    lora_value=True,
)
with fabric.init_module():
    model = lora.GPT(config)
lora.mark_only_lora_as_trainable(model)
model = fabric.setup_module(model)
trained = [weight for weight in model.parameters() if weight.requires_grad]
optimizer = fabric.setup_optimizers(torch.optim.AdamW(trained, lr=3e-4))
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
loaders = fabric.setup_dataloaders(*[torch.utils.data.DataLoader(Tokens(), batch, num_workers=2) for _ in range(2)])
training = TrainArgs(save_interval=None, log_interval=1, global_batch_size=batch, micro_batch_size=batch, epochs=5)
evaluation = EvalArgs(interval=10**9, max_new_tokens=1, max_iters=1)
lora.fit(fabric, model, optimizer, scheduler, *loaders, 1, Path(), Path("out"), training, evaluation, None)
