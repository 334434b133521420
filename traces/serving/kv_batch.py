"""A hand-written decoder with a key-value cache: batches of 8 prompts, a prefill and then token by token."""
import os
import time

import torch
import torch.nn.functional as F
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = device == "cpu" and os.environ.get("PLANT_SMALL") == "1"
SECONDS = float(os.environ.get("PLANT_SECONDS", 15))
BATCH, PROMPT, NEW, WIDTH, LAYERS, HEADS = (2, 24, 8, 64, 2, 2) if SMALL else (8, 320, 48, 1024, 12, 16)
VOCABULARY = 10_000


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, cache, start):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        keys, values = cache
        keys[:, :, start : start + t] = k
        values[:, :, start : start + t] = v
        y = F.scaled_dot_product_attention(
            q, keys[:, :, : start + t], values[:, :, : start + t], is_causal=t > 1
        )
        return self.out(y.transpose(1, 2).reshape(b, t, -1))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.attention = Attention()
        self.gate, self.up = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)

    def forward(self, x, cache, start):
        x = x + self.attention(self.norm1(x), cache, start)
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def empty_cache(self):
        shape = (BATCH, HEADS, PROMPT + NEW, WIDTH // HEADS)
        like = self.head.weight
        return [(like.new_zeros(shape), like.new_zeros(shape)) for _ in self.layers]

    def forward(self, tokens, cache, start):
        x = self.embed(tokens)
        for layer, kv in zip(self.layers, cache):
            x = layer(x, kv, start)
        return self.head(self.norm(x[:, -1:]))


@torch.inference_mode()
def complete(model, prompt, cache):
    token = model(prompt, cache, 0).argmax(-1)
    tokens = [token]
    for position in range(PROMPT, PROMPT + NEW):
        token = model(token, cache, position).argmax(-1)
        tokens.append(token)
    return torch.cat(tokens, dim=1)


def main():
    torch.manual_seed(0)
    model = Decoder().to(device, torch.bfloat16 if device == "cuda" else torch.float32).eval()
    with torch.inference_mode():
        cache = model.empty_cache()
    prompts = torch.randint(0, VOCABULARY, (16, BATCH, PROMPT))
    prompts = prompts.pin_memory() if device == "cuda" else prompts
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        prompt = prompts[done % len(prompts)].to(device, non_blocking=True)
        answer = complete(model, prompt, cache).tolist()  # to the client
        done += 1
    seconds = time.perf_counter() - start
    print(f"{done} batches, {done * BATCH * len(answer[0]) / seconds:.0f} tokens/s")


if __name__ == "__main__":
    main()
