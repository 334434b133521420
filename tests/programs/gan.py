"""A small DCGAN on made-up images: two optimizers in every iteration, and numbers printed as people do."""

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def generator() -> nn.Module:
    return nn.Sequential(
        nn.ConvTranspose2d(100, 256, 4, 1, 0, bias=False),
        nn.BatchNorm2d(256),
        nn.ReLU(inplace=True),
        nn.ConvTranspose2d(256, 128, 4, 2, 1, bias=False),
        nn.BatchNorm2d(128),
        nn.ReLU(inplace=True),
        nn.ConvTranspose2d(128, 64, 4, 2, 1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.ConvTranspose2d(64, 3, 4, 2, 1, bias=False),
        nn.Tanh(),
    )


def discriminator() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 64, 4, 2, 1, bias=False),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(64, 128, 4, 2, 1, bias=False),
        nn.BatchNorm2d(128),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(128, 1, 8, 1, 0, bias=False),
        nn.Sigmoid(),
    )


def main() -> None:
    device = torch.device("cuda")
    data = datasets.FakeData(100_000, (3, 32, 32), 10, transforms.ToTensor())
    loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=4)
    net_g, net_d = generator().to(device), discriminator().to(device)
    criterion = nn.BCELoss()
    optimizer_d = torch.optim.Adam(net_d.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizer_g = torch.optim.Adam(net_g.parameters(), lr=2e-4, betas=(0.5, 0.999))
    for step, (images, _) in enumerate(loader):
        net_d.zero_grad()
        real = images.to(device)
        label = torch.full((real.size(0),), 1.0, device=device)
        output = net_d(real).view(-1)
        loss_real = criterion(output, label)
        loss_real.backward()
        d_x = output.mean().item()
        fake = net_g(torch.randn(real.size(0), 100, 1, 1, device=device))
        label.fill_(0.0)
        output = net_d(fake.detach()).view(-1)
        loss_fake = criterion(output, label)
        loss_fake.backward()
        d_g_z1 = output.mean().item()
        optimizer_d.step()

        net_g.zero_grad()
        label.fill_(1.0)
        output = net_d(fake).view(-1)
        loss_g = criterion(output, label)
        loss_g.backward()
        d_g_z2 = output.mean().item()
        optimizer_g.step()
        print(
            f"[{step}] Loss_D: {(loss_real + loss_fake).item():.4f} Loss_G: {loss_g.item():.4f} "
            f"D(x): {d_x:.4f} D(G(z)): {d_g_z1:.4f} / {d_g_z2:.4f}"
        )


if __name__ == "__main__":
    main()
