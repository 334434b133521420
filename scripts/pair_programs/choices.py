"""Programs whose next operation depends on a value on the GPU, and the same decided on the GPU or on the host alone."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.nn import functional as F  # noqa: N812  torch's own name for it
from torch.nn.utils.rnn import pack_padded_sequence

from scripts.pair_programs.parts import Step, mlp, resident, resnet, scaled, sgd, update


def nan_check(device: torch.device, fixed: bool, scale: float) -> Step:
    """Train a residual network that skips a step whose loss is not a number, or makes it zero on the GPU."""
    rows, side = scaled(64, scale), scaled(32, scale, 8)
    model = resnet(scaled(32, scale), 10).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    x, y = torch.randn(rows, 3, side, side, device=device), torch.randint(10, (rows,), device=device)
    return lambda: _checked(F.cross_entropy(model(x), y), lambda loss: update(optimizer, loss), fixed=fixed)


def _checked(loss: Tensor, learn: Callable[[Tensor], object], *, fixed: bool) -> Tensor:
    """Learn from a loss unless it is not a number: decided on the host, or on the GPU."""
    if fixed:
        loss = torch.where(torch.isnan(loss), 0.0, loss)
    elif torch.isnan(loss):
        print("the loss is not a number: skipped")
        return loss.detach()
    learn(loss)
    return loss.detach()


def nan_check_gpu_bound(device: torch.device, fixed: bool, scale: float) -> Step:
    """Make the same check in a step that is bound by the GPU."""
    training, batch = resident(device, scale)
    return lambda: _checked(F.cross_entropy(training.model(batch), training.target), training.update, fixed=fixed)


class GraphConv(nn.Module):
    """Sums each node's neighbours, loops left out: by a boolean mask, or by weights of zero and one."""

    def __init__(self, inputs: int, outputs: int, *, weighted: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.weighted = weighted

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Return the sums."""
        source, target = edges
        keep = source != target
        hidden = self.linear(x)
        if self.weighted:
            messages = hidden[source] * keep.unsqueeze(1)
        else:
            messages, target = hidden[source[keep]], target[keep]
        return torch.zeros_like(hidden).index_add_(0, target, messages)


def graph_masks(device: torch.device, fixed: bool, scale: float) -> Step:
    """Train a graph network with boolean masks in its layers and its loss, or weights instead."""
    nodes, width, classes = scaled(4000, scale), scaled(64, scale), 7
    convs = nn.ModuleList(GraphConv(width, width, weighted=fixed) for _ in range(6)).to(device)
    head = nn.Linear(width, classes).to(device)
    optimizer = torch.optim.Adam([*convs.parameters(), *head.parameters()], lr=1e-3)
    features, labels = torch.randn(nodes, width, device=device), torch.randint(classes, (nodes,), device=device)
    edges = torch.randint(nodes, (2, 5 * nodes), device=device)
    chosen = torch.arange(nodes, device=device) % 5 < 3  # noqa: PLR2004  three nodes of five

    def step() -> Tensor:
        x = features
        for conv in convs:
            x = F.layer_norm(conv(x, edges).relu(), x.shape[1:])
        if fixed:
            losses = F.cross_entropy(head(x), labels, reduction="none") * chosen
            loss = losses.sum() / chosen.sum()
        else:
            loss = F.cross_entropy(head(x)[chosen], labels[chosen])
        return update(optimizer, loss)

    return step


def policy_checks(device: torch.device, fixed: bool, scale: float) -> Step:
    """Policy gradients over eight moves; each distribution checks its arguments, or trusts them."""
    rows, width, moves = scaled(512, scale), scaled(256, scale), 8
    policy = nn.Sequential(nn.Linear(64, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 8))
    policy = policy.to(device)
    optimizer = torch.optim.RMSprop(policy.parameters(), lr=1e-4)
    start = torch.randn(rows, 64, device=device)
    check = False if fixed else None  # None: torch's default, which is to check

    def step() -> Tensor:
        state, terms = start, []
        for _ in range(moves):
            chance = Categorical(logits=policy(state), validate_args=check)
            action = chance.sample()  # type: ignore[no-untyped-call]
            reward = (action % 2).float()
            terms.append(-chance.log_prob(action) * reward)  # type: ignore[no-untyped-call]
            state = (state + 0.1 * torch.sin(state + action.unsqueeze(1))).detach()
        return update(optimizer, torch.stack(terms).mean())

    return step


def lstm_lengths(device: torch.device, fixed: bool, scale: float) -> Step:
    """Train an LSTM over sentences of different lengths, which lie on the GPU or on the host."""
    rows, longest, width = scaled(64, scale), scaled(32, scale, 8), scaled(256, scale)
    lengths = torch.arange(rows).flip(0) % longest
    lengths = lengths.sort(descending=True).values + 1
    on_device = lengths.to(device)
    lstm, head = nn.LSTM(width, width, 2, batch_first=True).to(device), nn.Linear(width, 10).to(device)
    optimizer = torch.optim.Adam([*lstm.parameters(), *head.parameters()], lr=1e-4)
    x = torch.randn(rows, longest, width, device=device)
    y = torch.randint(10, (int(lengths.sum()),), device=device)

    def step() -> Tensor:
        host_lengths = lengths if fixed else on_device.cpu()
        packed, _ = lstm(pack_padded_sequence(x, host_lengths, batch_first=True))
        return update(optimizer, F.cross_entropy(head(packed.data), y))

    return step


def hard_examples(device: torch.device, fixed: bool, scale: float) -> Step:
    """Train on the examples whose loss is above the mean: selected by a mask, or by weights of zero and one."""
    width, rows = scaled(1024, scale), scaled(1024, scale)
    model = mlp(width, width, 10, 100).to(device)
    optimizer = sgd(model, device)
    x, y = torch.randn(rows, width, device=device), torch.randint(100, (rows,), device=device)

    def step() -> Tensor:
        losses = F.cross_entropy(model(x), y, reduction="none")
        hard = losses >= losses.detach().mean()
        loss = (losses * hard).sum() / hard.sum() if fixed else losses[hard].mean()
        return update(optimizer, loss)

    return step
