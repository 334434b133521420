"""Trains nanoTabPFN with made-up tables in a file of HDF5: case.py TABLES ROWS BATCH."""

import sys

import h5py
import numpy as np

sys.path.insert(0, ".")
import train

tables, rows, batch = map(int, sys.argv[1:4])
made_up = np.random.default_rng(0)
with h5py.File("tables.h5", "w") as file:
    file["X"] = made_up.standard_normal((tables, rows, 5)).astype(np.float32)
    file["y"] = made_up.integers(0, 2, (tables, rows)).astype(np.float32)
    file["num_features"] = np.full(tables, 5)
    file["num_datapoints"] = np.full(tables, rows)
    file["single_eval_pos"] = np.full(tables, rows // 2)
    file["max_num_classes"] = np.array([2])
device = train.get_default_device()
model = train.NanoTabPFNModel(
    embedding_size=96, num_attention_heads=4, mlp_hidden_size=192, num_layers=3, num_outputs=2
)
train.train(model, train.PriorDumpDataLoader("tables.h5", 100_000, batch, device), lr=4e-3, steps_per_eval=25)
