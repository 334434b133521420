"""Trains LANfactory's network 7-100-100-100-1 with made-up likelihoods: case.py BATCH LAYER."""

import pickle
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from stand_ins import stand_in

for name in ("lanfactory", "lanfactory.trainers"):  # without what their __init__ imports of other libraries
    stand_in(name, "src/" + name.replace(".", "/"))
stand_in("pandas", DataFrame=lambda values, **_: SimpleNamespace(values=values))

from lanfactory.trainers.torch_mlp import ModelTrainerTorchMLP, TorchMLP, make_dataloader  # noqa: E402

batch, layer = int(sys.argv[1]), int(sys.argv[2])
made_up = np.random.default_rng(0)
files = [Path(f"made_up{number}.pickle") for number in range(2)]
for file in files:
    rows = 20 * batch
    likelihoods = {
        "lan_data": made_up.standard_normal((rows, 7)).astype(np.float32),
        "lan_labels": made_up.standard_normal(rows).astype(np.float32),
    }
    file.write_bytes(pickle.dumps(likelihoods))
loaders = [make_dataloader(files, batch, num_workers=1) for _ in range(2)]
network = {
    "layer_sizes": [layer, layer, layer, 1],
    "activations": ["tanh", "tanh", "tanh", "linear"],
    "train_output_type": "logprob",
    "network_type": "lan",
}
training = {
    "n_epochs": 1000,
    "loss": "huber",
    "optimizer": "adam",
    "learning_rate": 1e-3,
    "weight_decay": 0.0,
    "lr_scheduler": None,
}
model = TorchMLP(network_config=network, input_shape=7, network_type="lan")
trainer = ModelTrainerTorchMLP(model, training, *loaders, pin_memory=True)
trainer.train_and_evaluate(output_folder="out", save_outputs=False)
