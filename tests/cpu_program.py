"""The script in traces/runs as one that runs on a CPU in a second, with a recording that has the same findings."""

import gzip
import hashlib
import json
from pathlib import Path

from recordings import TRACES

RUNS = TRACES / "runs"
ON_CPU = (
    "import torch, time, torch.nn as nn; torch.Tensor.cuda = lambda self, *_, **__: self; "
    "nn.Module.cuda = lambda self: self; item = torch.Tensor.item; {slow}"
)
"""In place of the first line: without a GPU."""
SLOW_ITEM = "torch.Tensor.item = lambda self: (self.requires_grad and time.sleep(0.04), item(self))[1]"
"""Lets `.item()` of a loss wait, as for a GPU; optimizers call it, too."""


def program(first: str = SLOW_ITEM) -> str:
    """Return the script with another first line; its network and its images are small."""
    text = (RUNS / "slow.py").read_text()
    for old, new in (
        ("import torch, torch.nn as nn", ON_CPU.format(slow=first)),
        ("3, 96, 96", "3, 8, 8"),
        ("block(3, 64), block(64, 128), block(128, 256)", "block(3, 2), block(2, 4), block(4, 8)"),
        ("nn.Linear(256, 10)", "nn.Linear(8, 10)"),
        ("batch_size=128, num_workers=8", "batch_size=4, num_workers=0"),
        ("range(3)", "range(1)"),
    ):
        assert old in text
        text = text.replace(old, new)
    return text


def recorded(folder: Path, text: str) -> Path:
    """Write the script into a folder, and a recording that says it is the one that ran."""
    (folder / "slow.py").write_text(text)
    document = json.loads(gzip.decompress((RUNS / "images.before.json.gz").read_bytes()))
    document["pinprof"]["made"]["sources"] = {"slow.py": hashlib.sha256(text.encode()).hexdigest()}
    trace = folder / "slow.json.gz"
    trace.write_bytes(gzip.compress(json.dumps(document).encode(), compresslevel=1))
    return trace
