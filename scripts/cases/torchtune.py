"""Fine-tunes a small Llama with LoRA by torchtune's recipe, with made-up tokens: case.py LAYERS BATCH LENGTH."""

import sys
import types
from functools import partial

import torch
from stand_ins import stand_in

stand_in("datasets", load_dataset=None)
stand_in("sentencepiece", SentencePieceProcessor=None)
sys.path[:0] = [".", "recipes"]
import lora_finetune_single_device as recipe  # noqa: E402
from torchtune.models import llama2  # noqa: E402

layers, batch, length = map(int, sys.argv[1:4])


class Tokens(torch.utils.data.Dataset):
    """Texts of one length."""

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        return [index % 32_000] * length, [index % 32_000] * length


class Training(recipe.LoRAFinetuneRecipeSingleDevice):
    """The recipe without a checkpoint."""

    def __init__(self):
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._log_every_n_steps = 10
        self.epochs_run, self.total_epochs = 0, 100
        self.max_steps_per_epoch = None
        self.total_training_steps = 0
        self._metric_logger = types.SimpleNamespace(log_dict=lambda *_, **__: None, close=lambda: None)
        with recipe.utils.set_default_dtype(torch.bfloat16), self._device:
            self._model = llama2.lora_llama2(
                ["q_proj", "v_proj"],
                vocab_size=32_000,
                num_layers=layers,
                num_heads=32,
                num_kv_heads=32,
                embed_dim=4096,
                max_seq_len=4096,
                norm_eps=1e-5,
                lora_rank=8,
                lora_alpha=16,
            )
        self.adapter_params = recipe.get_adapter_params(self._model)
        recipe.set_trainable_params(self._model, self.adapter_params)
        trained = [weight for weight in self._model.parameters() if weight.requires_grad]
        self._optimizer = torch.optim.AdamW(trained, lr=3e-4, weight_decay=0.01)
        self._lr_scheduler = torch.optim.lr_scheduler.LambdaLR(self._optimizer, lambda _: 1.0)
        self._loss_fn = torch.nn.CrossEntropyLoss()
        tokens = Tokens()
        self._sampler = torch.utils.data.DistributedSampler(tokens, num_replicas=1, rank=0)
        collate = partial(recipe.utils.padded_collate, padding_idx=0, ignore_idx=-100)
        self._dataloader = torch.utils.data.DataLoader(tokens, batch, sampler=self._sampler, collate_fn=collate)


Training().train()
