"""ResNet-18 on made-up images, with meters that read the loss and the accuracy in every step."""

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms


def accuracy(output: torch.Tensor, target: torch.Tensor) -> float:
    correct = output.argmax(dim=1).eq(target).float().sum()
    return correct.mul(100.0 / target.size(0)).item()


def main() -> None:
    device = torch.device("cuda")
    data = datasets.FakeData(100_000, (3, 64, 64), 1000, transforms.ToTensor())
    loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=8, pin_memory=True)
    model = models.resnet18().to(device)
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    losses: list[float] = []
    for images, target in loader:
        images = images.to(device, non_blocking=True)
        target = target.to(device, non_blocking=True)
        output = model(images)
        loss = criterion(output, target)
        losses.append(loss.item())
        accuracy(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
