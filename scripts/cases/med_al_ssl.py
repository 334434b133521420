"""Trains Med-AL-SSL's ResNet-18 on made-up pictures of white blood cells, all labelled: case.py BATCH."""

import os
import sys
from pathlib import Path

import numpy as np
import torchvision
from PIL import Image
from stand_ins import stand_in

BATCH, PICTURES, CLASSES, SIZE = int(sys.argv[1]), 1_000_000, 15, 400
del sys.argv[1:]
stand_in("pandas", DataFrame=lambda _rows: None)
stand_in("pytorch_msssim", SSIM=object)


class ImageFolder:
    """The same picture again and again."""

    def __init__(self, _folder, transform):
        self.classes = [str(number) for number in range(CLASSES)]
        self.targets = [number % CLASSES for number in range(PICTURES)]
        pixels = np.random.default_rng(0).integers(0, 256, (SIZE, SIZE, 3), np.uint8)
        self.picture, self.transform = Image.fromarray(pixels), transform

    def __len__(self):
        return PICTURES

    def __getitem__(self, index):
        return self.picture, self.targets[index]


torchvision.datasets.ImageFolder = ImageFolder
os.chdir("code")
sys.path.insert(0, str(Path.cwd()))
import train  # noqa: E402

train.configs["matek"] = lambda arguments: arguments
words = vars(train.arguments)
words.update(batch_size=BATCH, start_labeled=PICTURES * 3 // 4, unlabeled_subset=0.01, merged=False)
words.update(load_pretrained=False, weak_supervision_strategy="random_sampling", uncertainty_sampling_method=None)
train.main(train.arguments)
