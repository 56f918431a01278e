"""A convolutional network with batch normalization, a target epsilon, and parts."""

import copy

import torch
from opacus import PrivacyEngine
from opacus.utils.batch_memory_manager import BatchMemoryManager
from opacus.validators import ModuleValidator
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 2
DELTA = 1e-3

torch.manual_seed(0)
labels = torch.randint(0, 3, (600,))
images = torch.randn(600, 1, 8, 8) + labels.view(-1, 1, 1, 1)
loader = DataLoader(TensorDataset(images, labels), batch_size=60, shuffle=True)

model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(4),
    nn.Flatten(),
    nn.Linear(128, 3),
)
if not ModuleValidator.is_valid(model):
    model = ModuleValidator.fix(model)
errors = ModuleValidator.validate(model, strict=False)
initial = copy.deepcopy(model.state_dict())

criterion = nn.CrossEntropyLoss()
optimizer = optim.RMSprop(model.parameters(), lr=0.01)
privacy_engine = PrivacyEngine()
model, optimizer, train_loader = privacy_engine.make_private_with_epsilon(
    module=model,
    optimizer=optimizer,
    data_loader=loader,
    epochs=EPOCHS,
    target_epsilon=8.0,
    target_delta=DELTA,
    max_grad_norm=1.2,
)

epsilons = []
for _epoch in range(EPOCHS):
    model.train()
    losses = []
    with BatchMemoryManager(
        data_loader=train_loader, max_physical_batch_size=16, optimizer=optimizer
    ) as memory_safe_data_loader:
        for x, y in memory_safe_data_loader:
            optimizer.zero_grad()
            output = model(x)
            loss = criterion(output, y)
            losses.append(loss.item())
            loss.backward()
            optimizer.step()
    epsilons.append(privacy_engine.get_epsilon(DELTA))
