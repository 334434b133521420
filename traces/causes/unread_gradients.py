"""Only the head is trained, but the backbone's gradients are computed as well."""
import os

import timm
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SMALL = "SMALL" in os.environ


class LinearProbe:
    def __init__(self):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.side = 32 if SMALL else 128
        self.backbone = timm.create_model("resnet26", pretrained=False, num_classes=0).to(self.device)
        self.head = nn.Linear(self.backbone.num_features, 100).to(self.device)
        self.optimizer = torch.optim.AdamW(self.head.parameters(), lr=1e-3)  # planted

    def train(self, loader, most):
        done = 0
        while True:
            for images, labels in loader:
                logits = self.head(self.backbone(images.to(self.device, non_blocking=True)))
                loss = nn.functional.cross_entropy(logits, labels.to(self.device, non_blocking=True))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                done += 1
                if done >= most:
                    return done


probe = LinearProbe()
data = TensorDataset(torch.randn(16 if SMALL else 2048, 3, probe.side, probe.side), torch.randint(100, (16 if SMALL else 2048,)))
loader = DataLoader(data, 4 if SMALL else 64, shuffle=True, pin_memory=probe.device == "cuda")
print("steps", probe.train(loader, int(os.environ.get("STEPS", 5 if SMALL else 10**9))))
