"""One bound per parameter, ghost clipping, and a mean over several heads of a model."""

import torch
from opacus import PrivacyEngine
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(400, 6)
targets = (inputs.sum(1) > 0).long()
loader = DataLoader(TensorDataset(inputs, targets), batch_size=40)

model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = optim.Adam(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()
privacy_engine = PrivacyEngine(accountant="prv")
model, optimizer, criterion, loader = privacy_engine.make_private(
    module=model,
    optimizer=optimizer,
    criterion=criterion,
    data_loader=loader,
    noise_multiplier=1.1,
    max_grad_norm=1.0,
    grad_sample_mode="ghost",
)

steps = 0
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        steps += 1
    print(f"epoch {epoch}: epsilon {privacy_engine.get_epsilon(1e-3):.2f}")
epsilons = [privacy_engine.get_epsilon(1e-3)]
