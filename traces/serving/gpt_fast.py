"""gpt-fast's own main with random weights: a checkpoint is made, the tokenizer is a stub."""
import sys, torch, types
from pathlib import Path
out, compile_ = sys.argv[1], sys.argv[2] == "compile"
import model as m
m.transformer_configs["tiny-lab"] = dict(n_layer=8, n_head=16, dim=1024, vocab_size=32000)
ck = Path("/tmp/tiny-lab/model.pth"); ck.parent.mkdir(exist_ok=True)
if not ck.exists():
    torch.manual_seed(0); torch.save(m.Transformer.from_name("tiny-lab").state_dict(), ck)
(ck.parent/"tokenizer.model").touch()
fake = types.ModuleType("tokenizer")
class Tok:
    def encode(self, s): return [ord(c) % 1000 for c in s]
    def bos_id(self): return 1
    def eos_id(self): return 2
    def decode(self, t): return str(len(t))
fake.get_tokenizer = lambda *a: Tok()
sys.modules["tokenizer"] = fake
tp = types.ModuleType("tp"); tp.maybe_init_dist = lambda: None; sys.modules["tp"] = tp
import generate
print(m.__file__)
torch.backends.cuda.sdp_kernel = torch.backends.cuda.sdp_kernel
generate.main(prompt=256, num_samples=3, max_new_tokens=24, batch_size=int(sys.argv[3]), checkpoint_path=ck, compile=compile_, profile=Path(out))
