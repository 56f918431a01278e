"""The slowest ways to a per-sample gradient, and what the engine makes of the same."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from dpsgd_explorer.dp.engines.hooks import HooksEngine

EXACT = {"rtol": 1e-10, "atol": 1e-11}


@dataclass
class Case:
    """A net around one layer, and its inputs, samples first; masks may be random."""

    net: torch.nn.Module
    inputs: tuple


def rows(tree, row):
    return tree_map(lambda x: x[row] if isinstance(x, Tensor) else x, tree)


def floats(outputs):
    leaves = [x for x in tree_leaves(outputs) if isinstance(x, Tensor)]
    return [x for x in leaves if x.is_floating_point()]


def random_slopes(case):
    """Return a random linear loss: one factor for each number of the outputs."""
    with torch.no_grad():
        leaves = floats(case.net(*case.inputs))
    return [torch.randn_like(leaf) for leaf in leaves]


def linear_loss(outputs, slopes):
    pairs = zip(floats(outputs), slopes, strict=True)
    return sum((leaf * slope).sum() for leaf, slope in pairs)


def trainable(net):
    return {n: p for n, p in net.named_parameters() if p.requires_grad}


def loop_gradients(case, slopes):
    """Return {name: [B, *shape]} by back-propagating every sample alone."""
    wanted = trainable(case.net)
    stacks = {n: [p.new_zeros(0, *p.shape)] for n, p in wanted.items()}
    for i in range(len(case.inputs[0])):
        row = slice(i, i + 1)
        loss = linear_loss(case.net(*rows(case.inputs, row)), rows(slopes, row))
        found = torch.autograd.grad(loss, wanted.values(), allow_unused=True)
        for (name, p), gradient in zip(wanted.items(), found, strict=True):
            gradient = torch.zeros_like(p) if gradient is None else gradient
            stacks[name].append(gradient[None])
    return {name: torch.cat(stack) for name, stack in stacks.items()}


def vmap_gradients(case, slopes):
    """Return the same by torch.func over the whole net."""

    def loss(parameters, inputs, slopes):
        one = tree_map(lambda x: x.unsqueeze(0), (inputs, slopes))
        outputs = torch.func.functional_call(case.net, parameters, one[0])
        return linear_loss(outputs, one[1])

    detached = {n: p.detach() for n, p in trainable(case.net).items()}
    mapped = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    return mapped(detached, case.inputs, slopes)


def observe(case, slopes, mode="MixOpt", kind=HooksEngine):
    """Return the engine's samples after one forward and one backward."""
    gradient_engine = kind(case.net, clipping_mode=mode, loss_reduction="sum")
    received = []
    gradient_engine.on_gradients = received.append
    gradient_engine.start()
    try:
        linear_loss(case.net(*case.inputs), slopes).backward()
    finally:
        gradient_engine.stop()
    assert all(p.grad is None for p in case.net.parameters())
    return received[0], gradient_engine


def engine_gradients(samples, net):
    """Return {name: [B, *shape]} of all trainable parameters."""
    found = samples.materialize()
    return {
        name: found[name] if name in found else p.new_zeros(len(samples), *p.shape)
        for name, p in trainable(net).items()
    }


def squared_norms(gradients, batch):
    """Return [B] of {name: [B, *shape]}."""
    total = torch.zeros(batch, dtype=torch.float64)
    for gradient in gradients.values():
        total += gradient.double().flatten(1).square().sum(1)
    return total


def weighted_sums(samples, gradient_engine, weights):
    """Return {name: sum_i weights[i] * gradient_i}, added to what was there: 1."""
    parameters = gradient_engine.parameters()
    sums = {
        layer: {local: torch.ones_like(p) for local, p in own.items()}
        for layer, own in parameters.items()
    }
    samples.add_weighted(dict.fromkeys(parameters, weights), sums)
    return {
        f"{layer}.{local}" if layer else local: value
        for layer, own in sums.items()
        for local, value in own.items()
    }


def check_every_way(case, modes=("ghost", "instantiate"), norms=EXACT):
    """Assert that norms, weighted sums and gradients are those of a loop.

    Args:
        case: The net and its inputs.
        modes: Clipping modes that are tried.
        norms: Tolerances of the squared norms.
    """
    slopes, size = random_slopes(case), len(case.inputs[0])
    gradients = loop_gradients(case, slopes)
    weights = torch.rand(size, dtype=torch.float64)
    sums = {
        name: 1 + torch.einsum("b,b...->...", weights, gradient)
        for name, gradient in gradients.items()
    }
    for mode in modes:
        samples, gradient_engine = observe(case, slopes, mode)
        found = sum(samples.squared_norms().values())
        expected = squared_norms(gradients, size)
        assert bool((found >= expected * (1 - EXACT["rtol"])).all())
        torch.testing.assert_close(found, expected, **norms)
        actual = weighted_sums(samples, gradient_engine, weights)
        torch.testing.assert_close(actual, sums, **EXACT)
    actual = engine_gradients(samples, case.net)
    torch.testing.assert_close(actual, gradients, **EXACT)


def check_gradients(case, expected=loop_gradients, kind=HooksEngine):
    """Assert that an engine's gradients are those of another function."""
    slopes = random_slopes(case)
    samples, _ = observe(case, slopes, kind=kind)
    actual = engine_gradients(samples, case.net)
    torch.testing.assert_close(actual, expected(case, slopes), **EXACT)
