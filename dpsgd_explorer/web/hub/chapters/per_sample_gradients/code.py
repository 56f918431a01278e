"""Per-sample gradients from one backward pass: two hooks and an einsum."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

torch.manual_seed(7)
model = nn.Sequential(nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, 3))
inputs = torch.randn(8, 20, requires_grad=True)  # else the first layer's hook warns
targets = torch.randint(3, (8,))
gradients = {}


def save_activations(layer, args, output):
    """Forward hook: ``args`` is the tuple of positional inputs."""
    layer.activations = args[0].detach()


def take_outer_products(layer, grad_input, grad_output):
    """Full backward hook: ``grad_output`` is the tuple of highway gradients."""
    highway, seen = grad_output[0], layer.activations  # both: one row per record
    gradients[layer.weight] = torch.einsum("n...i,n...j->nij", highway, seen)
    gradients[layer.bias] = torch.einsum("n...i->ni", highway)


handles = []
for layer in model:
    if isinstance(layer, nn.Linear):
        handles.append(layer.register_forward_hook(save_activations))
        handles.append(layer.register_full_backward_hook(take_outer_products))

cross_entropy(model(inputs), targets, reduction="sum").backward()  # one pass for all
for handle in handles:
    handle.remove()

largest = 0.0  # against one backward pass per record
for n in range(len(inputs)):
    loss = cross_entropy(model(inputs[n : n + 1]), targets[n : n + 1])
    for p, alone in zip(
        model.parameters(), torch.autograd.grad(loss, model.parameters()), strict=True
    ):
        largest = max(largest, float((gradients[p][n] - alone).abs().max()))

norms = sum(g.flatten(1).square().sum(1) for g in gradients.values()).sqrt()
print(f"norms of {len(norms)} records: {norms.min():.2f} to {norms.max():.2f}")
print(f"largest difference from the loop: {largest:.1e}")
