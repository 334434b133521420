"""Trains TorchBench's ResNet-50 with its own made-up pictures: case.py BATCH."""

import sys

import torch
from stand_ins import stand_in

import pinprof

stand_in("torchbenchmark", "torchbenchmark")  # without what its __init__ imports of other libraries
stand_in("pandas")

from torchbenchmark.models.resnet50 import Model  # noqa: E402

OPTIONS = []
device = "cuda" if torch.cuda.is_available() else "cpu"
model = Model(device=device, train_bs=int(sys.argv[1]), eval_bs=1, extra_args=OPTIONS)
while True:
    model.train(niter=1)
    pinprof.step()  # in a graph no optimizer is seen to step
