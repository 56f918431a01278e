"""Who is clipped, and who is read right: a rare class under DP-SGD."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from dpsgd_explorer.accounting import round_up
from dpsgd_explorer.dp import PrivacyEngine, per_sample_gradients

torch.manual_seed(7)
counts = {"frequent": 3_800, "rare": 200}
centres = {"frequent": -0.5, "rare": 0.5}


def people(of: dict[str, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return records and groups: two clouds that overlap."""
    rows = [torch.randn(n, 20) + centres[group] for group, n in of.items()]
    groups = [torch.full((n,), i) for i, n in enumerate(of.values())]
    return torch.cat(rows), torch.cat(groups)


inputs, groups = people(counts)
model, bound = nn.Linear(20, 2), 0.5
engine = PrivacyEngine(
    model,
    batch_size=400,
    sample_size=len(inputs),
    steps=60,
    target_epsilon=1.0,
    target_delta=1e-5,
    max_grad_norm=bound,
    clipping_fn="Abadi",
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
engine.attach(optimizer)
for x, y in engine.poisson_loader((inputs, groups)).all_epochs():
    cross_entropy(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
engine.detach()

gradients = per_sample_gradients(model, cross_entropy, inputs, groups)
norms = sum(g.flatten(1).square().sum(1) for g in gradients.values()).sqrt()
test, labels = people({"frequent": 1_000, "rare": 1_000})
right = model(test).argmax(1) == labels
print(f"epsilon {round_up(engine.get_epsilon())}")
for i, group in enumerate(counts):  # not private: measured without noise
    clipped = (norms[groups == i] > bound).float().mean()
    read = right[labels == i].float().mean()
    print(f"{group}: {100 * clipped:.0f} % clipped, {100 * read:.0f} % right")
