"""The slowest way to a per-sample gradient: one backward pass a sample."""

import torch


def autograd_gradients(layer, activations, backprops):
    """Return {name: [B, *shape]} by back-propagating every sample alone."""
    trainable = {n: p for n, p in layer.named_parameters() if p.requires_grad}
    stacks = {n: [p.new_zeros(0, *p.shape)] for n, p in trainable.items()}
    for x, g in zip(activations, backprops, strict=True):
        grads = torch.autograd.grad(layer(x[None]), trainable.values(), g[None])
        for stack, grad in zip(stacks.values(), grads, strict=True):
            stack.append(grad[None])
    return {name: torch.cat(stack) for name, stack in stacks.items()}


def squared_norms(gradients, batch):
    """Return [B] of {name: [B, *shape]}."""
    total = torch.zeros(batch, dtype=torch.float64)
    for gradient in gradients.values():
        total += gradient.flatten(1).square().sum(1)
    return total
