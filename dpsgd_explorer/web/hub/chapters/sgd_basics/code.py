"""Read a record out of its own gradient: one linear layer, one record."""

import torch
from torch import nn

from dpsgd_explorer.dp import per_sample_gradients

torch.manual_seed(7)
model = nn.Linear(784, 10)
picture, label = torch.rand(1, 784), torch.tensor([3])

gradients = per_sample_gradients(model, nn.CrossEntropyLoss(), picture, label)
weight, bias = gradients["weight"][0], gradients["bias"][0]  # [10, 784] and [10]

guess = int(bias.argmin())  # only the true class has a negative one
recovered = weight[guess] / bias[guess]
print(f"label {guess}, largest error {(recovered - picture[0]).abs().max():.1e}")
