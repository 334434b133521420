"""Faster R-CNN of torchvision on made-up images and boxes; the model itself waits in many places."""

import torch
from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn


def main() -> None:
    device = torch.device("cuda")
    model = fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None, num_classes=5).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    model.train()
    corner = torch.tensor([[10.0, 10.0, 100.0, 120.0], [30.0, 40.0, 200.0, 180.0]])
    for _ in range(10_000):
        images = [torch.rand(3, 240, 240).to(device) for _ in range(2)]
        targets = [{"boxes": corner.to(device), "labels": torch.tensor([1, 2]).to(device)} for _ in images]
        losses = sum(model(images, targets).values())
        if not torch.isfinite(losses):
            losses = torch.zeros((), device=device, requires_grad=True)
        optimizer.zero_grad()
        losses.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
