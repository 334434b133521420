from pinprof.rules.copies import search_batches
from pinprof.rules.rule import Rule

RULE = Rule(
    id="PIN105",
    title="batches that `pin_memory=True` does not pin",
    short="batch.pin_memory()",
    answers=("copy",),
    what_if="--pin --non-blocking",
    numbers="equal",
    why="A DataLoader pins tensors, and those in lists, tuples, mappings and named tuples. An object of any other "
    "class passes as it is unless it has a method pin_memory(). Tensors that the step makes from a batch on the host, "
    "by x.float() for instance, are pageable again.",
    fix="Give the batch class a method pin_memory() that pins its tensors and returns the batch. Change batches in "
    "the collate_fn, or on the GPU.",
    before="class Batch:  # pin_memory=True of the DataLoader passes it as it is\n"
    "    def __init__(self, x, y):\n"
    "        self.x, self.y = x, y",
    code="class Batch:\n"
    "    def __init__(self, x, y):\n"
    "        self.x, self.y = x, y\n\n"
    "    def pin_memory(self):\n"
    "        self.x, self.y = self.x.pin_memory(), self.y.pin_memory()\n"
    "        return self",
    safe_if="No code keeps the unpinned tensors and relies on sharing memory with the batch. The copies have "
    "non_blocking=True, and nothing writes to the batch afterwards.",
    near_miss="class Batch(NamedTuple):  # a DataLoader pins what named tuples hold\n"
    "    x: torch.Tensor\n"
    "    y: torch.Tensor",
    search=search_batches(loader_pins=True),
)
