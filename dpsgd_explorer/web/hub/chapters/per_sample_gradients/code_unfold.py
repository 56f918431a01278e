"""Per-sample gradients of a convolution: unfold, then one einsum."""

import torch
from torch.nn.functional import conv2d, unfold

torch.manual_seed(7)
inputs = torch.randn(4, 3, 8, 8)
kernel = torch.randn(5, 3, 3, 3, requires_grad=True)

columns = unfold(inputs, 3, padding=1)  # [record, weight, position]
out = (kernel.flatten(1) @ columns).reshape(4, 5, 8, 8)  # the convolution
print(f"difference: {(out - conv2d(inputs, kernel, padding=1)).abs().max():.0e}")

highway = torch.autograd.grad(out.square().sum(), out)[0].flatten(2)
gradients = torch.einsum("nip,njp->nij", highway, columns).reshape(4, 5, 3, 3, 3)

largest = 0.0  # against one backward pass per record
for n in range(len(inputs)):
    loss = conv2d(inputs[n : n + 1], kernel, padding=1).square().sum()
    alone = torch.autograd.grad(loss, kernel)[0]
    largest = max(
        largest, float((gradients[n] - alone).abs().max() / alone.abs().max())
    )
print(f"largest difference from the loop: {largest:.0e}")
