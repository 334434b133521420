"""Trains TorchBench's ResNet-50 with its own made-up pictures: case.py BATCH."""

import sys

import torch
from stand_ins import stand_in

stand_in("torchbenchmark", "torchbenchmark")  # without what its __init__ imports of other libraries
stand_in("pandas")

from torchbenchmark.models.resnet50 import Model  # noqa: E402

OPTIONS = []
device = "cuda" if torch.cuda.is_available() else "cpu"
Model(device=device, train_bs=int(sys.argv[1]), eval_bs=1, extra_args=OPTIONS).train(niter=1_000_000)
