"""Fine-tunes a Llama with PEFT's script for MetaMathQA, with made-up tokens: case.py LAYERS WIDTH BATCH."""

import sys

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from stand_ins import stand_in
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

sys.path.insert(0, "method_comparison/MetaMathQA")
for name in ("bitsandbytes", "datasets", "data"):
    stand_in(name, get_train_valid_test_datasets=None)

import run  # noqa: E402

for name in ("bitsandbytes", "datasets"):  # for nobody who looks whether they are installed
    del sys.modules[name]
layers, width, batch = map(int, sys.argv[1:4])
WORDS, LONGEST = 128_256, 400
made_up = np.random.default_rng(0)


class Texts:
    """Texts of different lengths."""

    def __len__(self):
        return 100_000

    def __getitem__(self, rows):
        lengths = made_up.integers(LONGEST // 4, LONGEST, rows.stop - rows.start).tolist()
        return {
            "input_ids": [[length] * length for length in lengths],
            "attention_mask": [[1] * length for length in lengths],
            "response": lengths,
        }


run.print_verbose = lambda *_, **__: None
run.get_train_valid_test_datasets = lambda **_: (Texts(), None, None)
ends = {f"{kind}_token": "end" for kind in ("pad", "eos")}
words = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"end": 0})), **ends)
config = LlamaConfig(
    vocab_size=WORDS,
    hidden_size=width,
    intermediate_size=4 * width,
    num_hidden_layers=layers,
    num_attention_heads=width // 64,
    num_key_value_heads=width // 256,
    tie_word_embeddings=True,
)
torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
    model = LlamaForCausalLM(config)
torch.set_default_dtype(torch.float32)
run.train(
    model=get_peft_model(model, LoraConfig(r=32, lora_alpha=64, task_type="CAUSAL_LM")),
    max_steps=100_000,
    batch_size=batch,
    batch_size_eval=50,
    tokenizer=words,
    accelerator_memory_init=0,
    eval_steps=100_000,
    generation_kwargs={},
    grad_norm_clip=1.0,
    optimizer_type="AdamW",
    optimizer_kwargs={"lr": 1e-4, "weight_decay": 0.1},
    query_template="{query}",
    lr_scheduler_arg="cosine",
    use_amp=False,
    is_adalora=False,
)
