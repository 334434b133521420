"""Trains a ResNet with pytorch_tools' runner, with made-up pictures that are on the GPU: case.py BATCH SIZE."""

import sys

import torch
from stand_ins import stand_in

for name in ("", ".models", ".utils"):  # without what their __init__ imports of other libraries
    stand_in(f"pytorch_tools{name}", "pytorch_tools/" + name.strip("."))
stand_in("inplace_abn", InPlaceABN=None, InPlaceABNSync=None)
stand_in("pytorch_tools.utils.visualization", plot_confusion_matrix=None, render_figure_to_tensor=None)
stand_in("pytorch_tools.utils.tensorboard", CorrectedSummaryWriter=None)

from pytorch_tools.fit_wrapper.callbacks import Callback  # noqa: E402
from pytorch_tools.fit_wrapper.wrapper import Runner  # noqa: E402
from pytorch_tools.models.resnet import resnet50  # noqa: E402

batch, size = map(int, sys.argv[1:3])
device = "cuda" if torch.cuda.is_available() else "cpu"


class Pictures(list):
    """Two batches in turns."""

    batch_size = batch

    def __len__(self):
        return 100_000

    def __iter__(self):
        pairs = [(torch.randn(batch, 3, size, size, device=device), torch.arange(batch, device=device))] * 2
        return (pairs[number % 2] for number in range(len(self)))


model = resnet50(pretrained=None).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
Runner(model, optimizer, torch.nn.CrossEntropyLoss(), callbacks=Callback(), use_fp16=True).fit(Pictures(), epochs=1)
