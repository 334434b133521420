"""Trains torchvision's Mask R-CNN with made-up pictures: case.py BATCH SIZE CHANGE.

CHANGE is what a thread changed: anchors (grid sizes are copied from the host, as before pytorch/vision#5515), or graph
(the backbone is to be a CUDA graph).
"""

import inspect
import sys

import torch
import torchvision
from torchvision.models.detection import anchor_utils

batch, size = map(int, sys.argv[1:3])
APPLIED = False
device = "cuda" if torch.cuda.is_available() else "cpu"


def anchors_as_before():
    """Make the grid sizes as torchvision 0.12 did."""
    source = inspect.getsource(anchor_utils)
    for axis in (0, 1):
        now = f"torch.empty((), dtype=torch.int64, device=device).fill_(image_size[{axis}] // g[{axis}])"
        if now not in source:
            raise SystemExit("torchvision makes its anchors in another way")
        source = source.replace(now, f"torch.tensor(image_size[{axis}] // g[{axis}], dtype=torch.int64, device=device)")
    exec(compile(source, anchor_utils.__file__, "exec"), vars(anchor_utils))  # noqa: S102


if sys.argv[3] == "anchors" and not APPLIED:
    anchors_as_before()
    for name in ("faster_rcnn", "mask_rcnn"):
        vars(vars(torchvision.models.detection)[name])["AnchorGenerator"] = anchor_utils.AnchorGenerator
model = torchvision.models.detection.maskrcnn_resnet50_fpn(
    weights=None, weights_backbone=None, trainable_backbone_layers=5, min_size=size, max_size=size
).to(device)
pictures = [torch.rand(3, size, size, device=device) for _ in range(batch)]
quarter = size / 4
boxes = torch.tensor([[quarter * n, 0, quarter * (n + 1), size / 2] for n in range(4)], device=device)
masks = torch.zeros(4, size, size, dtype=torch.uint8, device=device)
masks[:, : size // 2] = 1
targets = [{"boxes": boxes, "labels": torch.arange(1, 5, device=device), "masks": masks} for _ in range(batch)]
if sys.argv[3] == "graph" and APPLIED:
    body = model.backbone
    sample = torch.rand(batch, 3, size, size, device=device)

    class Features(torch.nn.Module):
        """The backbone with a tuple, which graphs can give."""

        def __init__(self):
            super().__init__()
            self.body = body

        def forward(self, pictures):
            """Return the features."""
            return tuple(self.body(pictures).values())

    names = list(body(sample))
    graphed = torch.cuda.make_graphed_callables(Features(), (sample,))

    class Backbone(torch.nn.Module):
        """The graph, with the names that the detector reads."""

        out_channels = body.out_channels

        def forward(self, pictures):
            """Return the features by their names."""
            return dict(zip(names, graphed(pictures), strict=True))

    model.backbone = Backbone()
    parameters = [*model.parameters(), *body.parameters()]
else:
    parameters = list(model.parameters())
optimizer = torch.optim.SGD(parameters, lr=1e-4, momentum=0.9)
model.train()
while True:
    losses = sum(model(pictures, targets).values())
    optimizer.zero_grad()
    losses.backward()
    optimizer.step()
