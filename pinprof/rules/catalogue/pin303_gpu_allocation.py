from pinprof.rules.rule import Rule
from pinprof.rules.wait_sites import search_waits

RULE = Rule(
    id="PIN303",
    title="GPU memory is allocated and freed in the training loop",
    short="no empty_cache()",
    answers=("allocation",),
    what_if="--drop-allocs",
    numbers="equal",
    why="cudaMalloc and cudaFree stop the host, and cudaFree waits for the device. PyTorch's allocator keeps memory "
    "to avoid both; empty_cache(), growing shapes and scarce memory defeat it.",
    fix="No torch.cuda.empty_cache() in the loop; keep shapes constant, or warm up with the largest one; use "
    "expandable segments.",
    before="for batch in batches:\n    train(batch)\n    torch.cuda.empty_cache()",
    code="for batch in batches:\n    train(batch)  # the allocator keeps the memory for the next step\n\n"
    "# or, where shapes change, before torch is imported:\n"
    'os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"',
    safe_if="Without empty_cache() the process keeps its memory; others on the same GPU may need it. Tensors in "
    "expandable segments may not be shared with other processes.",
    near_miss="torch.cuda.empty_cache()  # once, before the loop\nfor batch in batches:\n    train(batch)",
    causes=("device_malloc", "device_free"),
    search=search_waits("device_malloc", "device_free", are_one=True),
)
