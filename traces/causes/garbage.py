"""Recursive network on parse trees: nodes know their parents, and each batch parses anew."""
import os
import random

import torch
from torch import nn

SMALL = "SMALL" in os.environ
STEPS = int(os.environ.get("STEPS", 5 if SMALL else 10**9))
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Node:
    def __init__(self, word, parent=None):
        self.word, self.parent, self.children, self.span = word, parent, [], {"begin": 0, "end": 0}
        if parent is not None:
            parent.children.append(self)


def parse(words):
    root = Node(0)
    nodes = [root]
    for word in words:
        nodes.append(Node(word, nodes[(word * 7) % len(nodes)]))
    return root


def flatten(root):
    ids, stack = [], [root]
    while stack:
        node = stack.pop()
        ids.append(node.word)
        stack.extend(node.children)
    return ids


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = nn.Embedding(1000, width)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU()) for _ in range(12))
        self.out = nn.Linear(width, 5)

    def forward(self, ids):
        x = self.embed(ids).mean(1)
        for layer in self.layers:
            x = x + layer(x)
        return self.out(x)


model = Encoder(32 if SMALL else 512).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
corpus = [[random.randrange(1000) for _ in range(80)] for _ in range(2000)]
treebank = [parse(words) for words in corpus]
for step in range(STEPS):
    trees = [parse(random.choice(corpus)) for _ in range(64)]
    ids = torch.tensor([flatten(tree) for tree in trees]).to(device)
    loss = nn.functional.cross_entropy(model(ids), ids[:, 0] % 5)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("steps", step + 1)
