"""The examples of docs/api.md; each runs on its own."""

EXAMPLES = {
    "Training with DP-SGD": """
import torch
from torch import nn
from dpsgd_explorer.dp import PrivacyEngine, receipt_text

x, y = torch.randn(1000, 20), torch.randint(0, 3, (1000,))
model = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

engine = PrivacyEngine(model, batch_size=50, sample_size=1000, epochs=2,
                       target_epsilon=3.0, clipping_fn="Abadi")
engine.attach(optimizer)
for inputs, targets in engine.poisson_loader((x, y)):
    nn.functional.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
    optimizer.zero_grad()

assert 2.9 < engine.get_epsilon() <= 3.0
print(receipt_text(engine.receipt()))
""",
    "Noise and bounds over the steps": """
import torch
from torch import nn
from dpsgd_explorer.dp import AdaptiveClipping, PrivacyEngine, schedules

x, y = torch.randn(400, 8), torch.randint(0, 2, (400,))
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

engine = PrivacyEngine(model, batch_size=40, sample_size=400, steps=20,
                       target_epsilon=3.0, accounting_mode="rdp",
                       clipping_fn="Abadi",
                       noise_schedule=schedules.Linear(0.5),  # half the noise at last
                       clipping_schedule=AdaptiveClipping(quantile=0.5))
engine.attach(optimizer)
for inputs, targets in engine.poisson_loader((x, y)):
    nn.functional.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
    optimizer.zero_grad()

assert engine.get_epsilon() <= 3.0
assert engine.sensitivity() != 1.0  # the bound went after the median of the norms
""",
    "Views and averages": """
import torch
from torch import nn
from dpsgd_explorer.dp import ParameterAverage, PrivacyEngine, views

x, y = torch.randn(400, 8), torch.randint(0, 2, (400,))
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
average = ParameterAverage(model, decay=0.99)

engine = PrivacyEngine(model, batch_size=40, sample_size=400, steps=10,
                       noise_multiplier=1.0, augmentation_multiplicity=4)
engine.attach(optimizer)
for inputs, targets in engine.poisson_loader((x, y)):
    inputs = views(inputs, 4, lambda rows: rows + 0.1 * torch.randn_like(rows))
    nn.functional.cross_entropy(model(inputs), views(targets, 4)).backward()
    optimizer.step()
    optimizer.zero_grad()
    average.update()

with average.in_use():  # the averaged model, at no further cost in privacy
    print((model(x).argmax(1) == y).float().mean())
""",
    "A rule for a layer": """
import torch
from torch import nn
from dpsgd_explorer.dp import LayerRule, PrivacyEngine, register_rule


class Scale(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return x * self.weight


class ScaleRule(LayerRule[Scale]):
    parameter_names = ("weight",)

    def per_sample_gradients(self, layer, activations, backprops):
        return {"weight": activations * backprops}  # [B, features]


remove = register_rule(Scale, ScaleRule())
model = nn.Sequential(nn.Linear(8, 4), Scale(4), nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
x, y = torch.randn(400, 8), torch.randint(0, 2, (400,))

engine = PrivacyEngine(model, batch_size=40, sample_size=400, steps=5,
                       noise_multiplier=1.0)
engine.attach(optimizer)
for inputs, targets in engine.poisson_loader((x, y)):
    nn.functional.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
    optimizer.zero_grad()
remove()
""",
    "Accounting": """
from dpsgd_explorer import accounting

run = {"sample_rate": 256 / 60000, "steps": 14062, "delta": 1e-5}
epsilon = accounting.epsilon(noise_multiplier=1.1, **run)
sigma = accounting.noise_multiplier(target_epsilon=2.0, **run)
assert accounting.epsilon(noise_multiplier=sigma, **run) <= 2.0 < epsilon
print(accounting.round_up(epsilon), accounting.round_up(sigma, 4))
""",
    "Linear regression": """
import numpy as np
from dpsgd_explorer.regression import adassp

rng = np.random.default_rng(0)
X = rng.normal(size=(5000, 3)) / 4
X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
y = np.clip(X @ [0.5, -0.2, 0.1], -1, 1)
release = adassp(X, y, epsilon=5.0, delta=1e-6, x_bound=1.0, y_bound=1.0)
assert release.epsilon <= 5.0
print(release.theta)
""",
}
