"""A membership attack by the loss, on an ordinary model and on a private one."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from dpsgd_explorer.accounting import round_up
from dpsgd_explorer.dp import PrivacyEngine

torch.manual_seed(7)
inputs, labels = torch.randn(400, 30), torch.randint(2, (400,))  # nothing to learn
members, strangers = slice(0, 200), slice(200, 400)


def attack(model: nn.Module) -> float:
    """Return the share of right calls: a small loss is taken for a member's."""
    with torch.no_grad():
        losses = cross_entropy(model(inputs), labels, reduction="none")
    limit = losses.median()
    hits, alarms = losses[members] < limit, losses[strangers] < limit
    return float((hits.float().mean() + 1 - alarms.float().mean()) / 2)


def network() -> nn.Module:
    """Return a network that can remember 200 labels."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(30, 100), nn.Tanh(), nn.Linear(100, 2))


model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for _ in range(150):
    cross_entropy(model(inputs[members]), labels[members]).backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"ordinary: the attack is right {100 * attack(model):.0f} % of the time")

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
engine = PrivacyEngine(
    model,
    batch_size=100,
    sample_size=200,
    steps=80,
    target_epsilon=2.0,
    target_delta=1e-3,
    max_grad_norm=1.0,
)
engine.attach(optimizer)
for x, y in engine.poisson_loader((inputs[members], labels[members])).all_epochs():
    cross_entropy(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
engine.detach()
spent = round_up(engine.get_epsilon())
print(f"epsilon {spent}: the attack is right {100 * attack(model):.0f} % of the time")
