import sys, torch
from torch.profiler import profile, ProfilerActivity
from transformers import LlamaConfig, LlamaForCausalLM
out, how = sys.argv[1], sys.argv[2]
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16)).cuda().bfloat16().eval()
ids = torch.randint(0, 32000, (4, 256), device="cuda")
kw = dict(attention_mask=torch.ones_like(ids), max_new_tokens=12, min_new_tokens=12, do_sample=how == "sample", pad_token_id=0)
if how == "static": kw["cache_implementation"] = "static"
for _ in range(3): model.generate(ids, **kw)
torch.cuda.synchronize()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=how == "shapes", with_stack=how == "stack") as p:
    for n in range(2):
        model.generate(ids[:, : 256 - 64 * n], **(kw if n == 0 else kw | {"attention_mask": kw["attention_mask"][:, :192]}))
    torch.cuda.synchronize()
p.export_chrome_trace(out)
