"""Mutations of the rules of linear maps, convolutions and embeddings."""

import dataclasses

import torch
from torch import nn

from dpsgd_explorer.dp.backends import convolution as conv_gradients
from dpsgd_explorer.dp.backends import torch as torch_backend
from dpsgd_explorer.dp.backends.native import convolution as by_loop
from dpsgd_explorer.dp.layers import (
    conv_nd,
    embedding,
    embedding_bag,
    round_off,
)
from dpsgd_explorer.dp.layers.base import scale_samples
from tests.dp.mutations.planting import Altered, alter, wrap
from tests.dp.mutations.rule_changes import (
    GRADIENTS,
    NO_BIAS,
    UNWEIGHTED,
    ZEROS,
    broken,
    every_way,
    method,
    pinned,
    use,
    with_gradients,
    with_layer,
)


def linear():
    def alone(real, inputs, outputs):
        values = inputs.values * torch.eye(inputs.values.shape[1]).to(inputs.values)
        return real(inputs._replace(values=values), outputs)

    def bias(found, layer, activations, backprops):
        if "bias" in found and backprops.dim() > 2:
            found["bias"] = backprops.flatten(1, -2)[:, 0]

    return broken(
        pinned("sequences"),
        {
            "no bias in the ghost norm": NO_BIAS,
            "positions added after squaring": wrap(round_off.gram_norms, alone),
            "samples not weighted": UNWEIGHTED,
            "bias of one position": with_gradients(nn.Linear, bias),
        },
    )


def one_group(real, layer, values):
    by_group = real(layer, values).clone()
    by_group[:, 1:] = 0
    return by_group


def convolution():
    def unweighted_bias(found, layer, activations, backprops, weights, sums):
        if "bias" in sums:
            sums["bias"].add_(backprops.flatten(2).sum(2).t() @ (1 - weights))

    def channels_last(found, layer, activations, backprops):
        for name in {"weight"} & set(found or ()):
            right = found[name].right.unflatten(2, (layer.in_channels, -1))
            right = right.transpose(2, 3).flatten(2)
            found[name] = dataclasses.replace(found[name], right=right)

    dense = {"dilation": lambda layer: [1] * len(layer.dilation)}
    return broken(
        pinned("images_in_groups"),
        {
            "padding mode ignored": with_layer(conv_nd._padded, **ZEROS),
            "one group in the norm": wrap(conv_nd._by_group, one_group),
            "dilation of patches ignored": with_layer(conv_nd._unfolded, **dense),
            "bias not weighted": with_gradients(
                nn.Conv2d, unweighted_bias, "add_weighted"
            ),
            "bias of one position": alter(
                conv_nd, sum_over_positions=lambda values: values.flatten(2)[..., 0]
            ),
            "patches not in the weight's order": (
                with_gradients(nn.Conv2d, channels_last, "outer_products"),
                use("Mirrored", "ghost"),
            ),
        },
    )


def transposed():
    patches = conv_nd.patches
    none = {"padding": lambda layer: [0] * len(layer.padding)}
    turned = {"padding": lambda layer: layer.padding[::-1]}
    test = every_way("ConvTranspose2d")
    other = every_way("ConvTranspose3d")
    return broken(
        test,
        {
            "padding ignored": with_layer(patches, **none),
            "padding in the wrong dimension": (with_layer(patches, **turned), other),
            "samples not weighted": UNWEIGHTED,
        },
    )


def convolution_gradients():
    def upside_down(real, gradients, *args):
        real(gradients, *args)
        gradients.copy_(gradients.flip(1))

    def strides(real, x, g, windows):
        return real(x, g, Altered(windows, dilation=windows.stride))

    compiled = f"{GRADIENTS}test_the_compiled_method_gives_autograds_gradients"
    test = f"{GRADIENTS}test_each_method_gives_autograds_gradients"
    return broken(
        f"{test}[rows]",
        {
            "stride ignored between kernel rows": alter(
                conv_gradients, divmod=lambda row, step: (row // step, 0)
            ),
            "kernel rows upside down": wrap(conv_gradients._fill_rows, upside_down),
            "positions and kernel swapped": (
                wrap(conv_gradients._by_patches, strides),
                f"{test}[patches]",
            ),
            "a norm rounded as it comes": (
                alter(by_loop, NORM_MARGIN=1.0),
                f"{compiled}[16-1]",
            ),
        },
    )


NO_PADDING_ID = {"padding_idx": lambda layer: None}


def embeddings():
    def not_merged(pairs, return_inverse):
        return pairs, torch.arange(len(pairs))

    def overwritten(real, rule, layer, ids, backprops, weights, sums):
        found, g = embedding._positions(layer, ids, backprops)
        sums["weight"][found.flatten()] += scale_samples(g, weights).flatten(0, 1)

    test, add = every_way("Embedding"), method(nn.Embedding, "add_weighted")
    return broken(
        test,
        {
            "padding row trained": with_layer(embedding._positions, **NO_PADDING_ID),
            "repeated ids squared one by one": (
                alter(torch_backend, torch=Altered(torch, unique=not_merged)),
                pinned("repeated_ids"),
            ),
            "repeated ids overwrite each other": wrap(add, overwritten),
            "samples share rows": wrap(
                embedding._sample_ids, lambda real, ids, rows: ids.flatten()
            ),
        },
    )


def embedding_bags():
    def counted_once(real, rule, layer, activations, backprops):
        if layer.mode == "max":
            return real(rule, layer, activations, backprops)
        return activations[1].square().sum(1) * backprops.square().sum(1)

    record = method(nn.EmbeddingBag, "saved_activations")
    added = {"mode": lambda layer: "sum" if layer.mode == "mean" else layer.mode}
    negative = {"weight": lambda layer: -layer.weight}
    test = every_way("EmbeddingBag")
    return broken(
        test,
        {
            "duplicates in a bag counted once": wrap(
                method(nn.EmbeddingBag, "squared_norms"), counted_once
            ),
            "a mean taken for a sum": (
                with_layer(record, **added),
                pinned("bags_of_other_lengths"),
            ),
            "padding id counted": with_layer(record, **NO_PADDING_ID),
            "least instead of largest": with_layer(embedding_bag._winners, **negative),
        },
    )
