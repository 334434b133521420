import sys, torch
from torch import nn
from torch.profiler import profile, schedule
class Block(nn.Module):
    def __init__(s, d, h):
        super().__init__(); s.h = h; s.qkv = nn.Linear(d, 3*d); s.o = nn.Linear(d, d); s.up = nn.Linear(d, 4*d); s.down = nn.Linear(4*d, d); s.n1 = nn.LayerNorm(d); s.n2 = nn.LayerNorm(d)
    def forward(s, x, past):
        b, t, d = x.shape
        q, k, v = s.qkv(s.n1(x)).view(b, t, 3, s.h, d//s.h).permute(2, 0, 3, 1, 4)
        if past is not None: k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        x = x + s.o(a.transpose(1, 2).reshape(b, t, d))
        return x + s.down(nn.functional.gelu(s.up(s.n2(x)))), (k, v)
class LM(nn.Module):
    def __init__(s, v=16000, d=768, n=6):
        super().__init__(); s.tok = nn.Embedding(v, d); s.pos = nn.Embedding(2048, d); s.blocks = nn.ModuleList(Block(d, 12) for _ in range(n)); s.head = nn.Linear(d, v)
    def forward(s, ids, cache=None):
        start = cache[0][0].shape[2] if cache else 0
        x = s.tok(ids) + s.pos(torch.arange(start, start + ids.shape[1], device=ids.device))
        new = []
        for n, b in enumerate(s.blocks):
            x, kv = b(x, cache[n] if cache else None); new.append(kv)
        return s.head(x[:, -1]), new
@torch.inference_mode()
def answer(model, ids, n):
    logits, cache = model(ids)
    out = []
    for _ in range(n):
        nxt = logits.argmax(-1, keepdim=True); out.append(nxt)
        if (nxt == 0).all(): break
        logits, cache = model(nxt, cache)
    return torch.cat(out, 1)
model = LM().cuda().half().eval()
ids = torch.randint(1, 16000, (8, 300), device="cuda")
if len(sys.argv) > 1:
    for _ in range(3): answer(model, ids, 16)
    with profile(record_shapes=sys.argv[2] == "shapes", with_stack=sys.argv[2] == "stack") as p:
        for _ in range(2): answer(model, ids, 16)
    p.export_chrome_trace(sys.argv[1])
else:
    for _ in range(60): answer(model, ids, 48)
