"""Trains KPConv's classifier with made-up points and neighbours: case.py POINTS NEIGHBOURS."""

import sys

import numpy as np
import torch
from stand_ins import stand_in

sys.path.insert(0, ".")
STAND_INS = (
    *("matplotlib", "matplotlib.pyplot", "matplotlib.cm", "sklearn", "sklearn.neighbors", "cpp_wrappers"),
    *("mpl_toolkits", "mpl_toolkits.mplot3d", "mayavi", "cpp_wrappers.cpp_subsampling", "cpp_wrappers.cpp_neighbors"),
    *("cpp_wrappers.cpp_subsampling.grid_subsampling", "cpp_wrappers.cpp_neighbors.radius_neighbors"),
)
for name in STAND_INS:  # they read data, build neighbours and draw
    stand_in(name, KDTree=None, Axes3D=None)

from datasets.ModelNet40 import ModelNet40CustomBatch  # noqa: E402
from models.architectures import KPCNN  # noqa: E402
from train_ModelNet40 import Modelnet40Config  # noqa: E402
from utils.trainer import ModelTrainer  # noqa: E402

points, neighbours = map(int, sys.argv[1:3])
CLOUDS, LAYERS, KINDS = 10, 5, 40
made_up = np.random.default_rng(0)
counts = [points // 3**layer for layer in range(LAYERS)]


def indices(rows, among):
    """Return neighbours of each point, most of them real."""
    return made_up.integers(0, among + 1, (rows, neighbours))


batch = [
    *[(made_up.random((count, 3)) * 0.05 * 2**layer).astype(np.float32) for layer, count in enumerate(counts)],
    *[indices(count, count) for count in counts],
    *[indices(after, before) for before, after in zip(counts, [*counts[1:], 0], strict=True)],
    *[np.full(CLOUDS, count // CLOUDS, np.int32) for count in counts],
    *(np.ones((points, 1), np.float32), made_up.integers(0, KINDS, CLOUDS), np.ones(CLOUDS), np.ones(CLOUDS)),
    np.arange(CLOUDS),
]
for layer in range(LAYERS):  # what is left of a division is in the last cloud
    batch[3 * LAYERS + layer][-1] += counts[layer] % CLOUDS


class Clouds(torch.utils.data.Dataset):
    """The same clouds again and again."""

    def __len__(self):
        return 3000

    def __getitem__(self, _index):
        return batch


config = Modelnet40Config()
config.num_classes, config.saving_path = KINDS, "log"
loader = torch.utils.data.DataLoader(Clouds(), 1, collate_fn=ModelNet40CustomBatch, num_workers=4, pin_memory=True)
network = KPCNN(config)
ModelTrainer(network, config).train(network, loader, loader, config)
