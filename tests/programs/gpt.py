"""A small GPT on random tokens: micro-batches taken by hand, four per update, clipped gradients."""

import torch
from torch import nn
from torch.nn import functional as F

BLOCK, VOCABULARY, WIDTH, ACCUMULATED = 128, 512, 256, 4


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(*x.shape[:2], 4, -1).transpose(1, 2) for part in self.qkv(self.norm_1(x)).chunk(3, dim=-1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norm_2(x))


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(4)))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.size(1), device=tokens.device)
        return self.head(self.blocks(self.tokens(tokens) + self.positions(places)))


def get_batch(data: torch.Tensor, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    starts = torch.randint(len(data) - BLOCK - 1, (16,)).tolist()
    x = torch.stack([data[start : start + BLOCK] for start in starts])
    y = torch.stack([data[start + 1 : start + 1 + BLOCK] for start in starts])
    return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)


def main() -> None:
    device = torch.device("cuda")
    data = torch.randint(VOCABULARY, (100_000,))
    model = Gpt().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    x, y = get_batch(data, device)
    for step in range(10_000):
        for _ in range(ACCUMULATED):
            with torch.autocast("cuda", torch.bfloat16):
                logits = model(x)
                loss = F.cross_entropy(logits.view(-1, VOCABULARY), y.view(-1)) / ACCUMULATED
            x, y = get_batch(data, device)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step}: loss {loss.item() * ACCUMULATED:.4f}")


if __name__ == "__main__":
    main()
