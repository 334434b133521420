"""A loop of someone's own: hard examples are chosen on the fly, and much is looked at on the host."""

import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 8))

    def act(self, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        chance = torch.distributions.Categorical(logits=self.body(state))
        action = chance.sample()
        return action, chance.log_prob(action)


class Environment:
    def __init__(self, device: torch.device) -> None:
        self.state = torch.randn(512, 64, device=device)

    def step(self, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        reward = (action % 2).float()
        done = torch.rand_like(reward) < 0.1
        if done.any():
            self.state[done] = torch.randn(int(done.sum()), 64, device=self.state.device)
        return self.state + 0.1, reward


def hardest(losses: torch.Tensor, share: float) -> torch.Tensor:
    threshold = torch.quantile(losses.detach(), 1 - share)
    return losses[losses > threshold]


def main() -> None:
    device = torch.device("cuda")
    policy, environment = Policy().to(device), Environment(device)
    optimizer = torch.optim.RMSprop(policy.parameters(), lr=1e-3)
    history: list[list[float]] = []
    weights = torch.linspace(0.5, 1.0, 512).pin_memory()
    state = environment.state.clone()
    for number in range(100_000):
        action, log_prob = policy.act(state)
        state, reward = environment.step(action)
        scale = weights.to(device)
        losses = -log_prob * reward * scale
        loss = hardest(losses, 0.5).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kinds = torch.unique(action)
        history.append(reward[:4].tolist())
        best = reward.max().cpu().numpy()
        if number % 50 == 0:
            print(number, len(kinds), best)
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
