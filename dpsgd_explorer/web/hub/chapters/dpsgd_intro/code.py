"""A private run on data of your own: an ordinary loop, and an engine around it."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpsgd_explorer.accounting import round_up
from dpsgd_explorer.dp import PrivacyEngine

torch.manual_seed(7)
inputs = torch.randn(2_000, 20)
targets = (inputs[:, 0] + inputs[:, 1] > 0).long()

model = nn.Sequential(nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
engine = PrivacyEngine(
    model,
    batch_size=200,  # expected
    sample_size=2_000,
    epochs=5,
    target_epsilon=2.0,
    target_delta=1e-5,
    max_grad_norm=0.5,
    clipping_fn="Abadi",
)
engine.attach(optimizer)  # refuses a model that it cannot protect

loader = engine.poisson_loader(TensorDataset(inputs, targets))
for _epoch in range(5):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()  # one gradient for each record
        optimizer.step()  # clip, sum, add noise, divide, move
        optimizer.zero_grad()

accuracy = (model(inputs).argmax(1) == targets).float().mean()  # not private
print(f"epsilon {round_up(engine.get_epsilon())}, accuracy {100 * accuracy:.1f} %")
