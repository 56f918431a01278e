"""Each layer rule, and what it is built on, broken in three ways or more.

All are bugs that a rule has had somewhere: a bias forgotten in a norm, positions or
uses added after squaring, a mode or an index that is ignored.
"""

import contextlib

from torch import nn

from dpsgd_explorer.dp.backends import rounding as bounds
from dpsgd_explorer.dp.backends import sample_rows
from dpsgd_explorer.dp.backends.torch import TorchBackend
from dpsgd_explorer.dp.engines import batch_dims, call_groups
from dpsgd_explorer.dp.engines.call_recorders import ForwardCallRecorder
from dpsgd_explorer.dp.layers import (
    cross_terms,
    functional,
    round_off,
)
from dpsgd_explorer.dp.layers.rewrite import ExpandedRule
from tests.dp.mutations.map_rules import (
    convolution,
    convolution_gradients,
    embedding_bags,
    embeddings,
    linear,
    transposed,
)
from tests.dp.mutations.planting import alter, wrap
from tests.dp.mutations.rule_changes import (
    GHOST,
    GRADIENTS,
    LONGEST,
    as_many,
    broken,
    every_way,
    method,
    use,
    with_gradients,
    with_layer,
    with_recorder,
)
from tests.dp.mutations.sequence_rules import attentions, recurrent


def norms():
    def mean(real, rule, layer, values):
        total = real(rule, layer, values)
        return total * (total.numel() / max(1, values.numel()))

    def centred(real, rule, layer, x):
        return real(rule, layer, x - x.mean(-1, keepdim=True))

    def bias_for_weight(found, layer, activations, backprops):
        if "bias" in found:
            found["bias"] = (activations * backprops).flatten(2).sum(2)

    def raw(kind):
        return wrap(method(kind, "standardised"), lambda real, rule, layer, x: x)

    def seen(kind, **values):
        changes = {name: lambda layer, own=own: own for name, own in values.items()}
        return with_layer(method(kind, "standardised"), **changes)

    return {
        "LayerNorm": broken(
            every_way("LayerNorm"),
            {
                "another eps": seen(nn.LayerNorm, eps=0.1),
                "inputs not standardised": raw(nn.LayerNorm),
                "mean over positions": wrap(method(nn.LayerNorm, "summed"), mean),
            },
        ),
        "RMSNorm": broken(
            every_way("RMSNorm"),
            {
                "eps ignored": seen(nn.RMSNorm, eps=None),
                "inputs not standardised": raw(nn.RMSNorm),
                "inputs centred": wrap(method(nn.RMSNorm, "standardised"), centred),
            },
        ),
        "GroupNorm": broken(
            every_way("GroupNorm"),
            {
                "one group": seen(nn.GroupNorm, num_groups=1),
                "inputs not standardised": raw(nn.GroupNorm),
                "mean over positions": wrap(method(nn.GroupNorm, "summed"), mean),
            },
        ),
        "InstanceNorm": broken(
            every_way("InstanceNorm2d"),
            {
                "eps ignored": seen(nn.InstanceNorm2d, eps=1e-5),
                "inputs not standardised": raw(nn.InstanceNorm2d),
                "bias for weight": with_gradients(nn.InstanceNorm2d, bias_for_weight),
            },
        ),
    }


def prelu():
    def sides(real, rule, layer, x, g):
        return real(rule, layer, -x, -g)

    def slope(real, rule, layer, x, g):
        return real(rule, layer, -(x < 0).to(x.dtype), -g)

    def not_summed(real, rule, layer, x, g):
        if layer.num_parameters == 1:
            x, g = x.flatten(1)[:, :1], g.flatten(1)[:, :1]
        return real(rule, layer, x, g)

    gradients, test = method(nn.PReLU, "per_sample_gradients"), every_way("PReLU")
    return broken(
        test,
        {
            "the wrong side": wrap(gradients, sides),
            "slope for input": wrap(gradients, slope),
            "one slope not summed": wrap(gradients, not_summed),
        },
    )


def any_module():
    def reverse(recorder):
        return lambda layer, name: recorder.expanded(layer, name).flip(0)

    def nothing(real, *args):
        return contextlib.nullcontext()

    test, forward = use("Bare", "instantiate"), functional.FunctionalRewrite.forward
    handed_out, opened = functional._handed_out, functional._Gate.opened
    return broken(
        test,
        {
            "parameters not handed out": wrap(handed_out, nothing),
            "modules inside mapped too": wrap(opened, nothing),
            "samples in reverse": with_recorder(forward, expanded=reverse),
        },
    )


def bare_parameters():
    def value(change):
        return wrap(
            ExpandedRule.per_sample_gradients,
            lambda real, *args: {"value": change(args[-1])},
        )

    test = use("Bare", "instantiate")
    return broken(
        test,
        {
            "mean over the batch": value(
                lambda g: g.mean(0, keepdim=True).expand_as(g)
            ),
            "samples in reverse": value(lambda g: g.flip(0)),
            "copies not watched": wrap(
                ForwardCallRecorder.expanded, lambda real, *args: real(*args).detach()
            ),
        },
    )


def shared_parameters():
    def once(real, *args, doubled=False):
        return real(*args)

    def without_pairs(real, *args, doubled=False):
        found = real(*args)
        return type(found)(*(part * (not doubled) for part in found))

    def not_measured(real, uses, *args):
        uses._instantiates = False
        real(uses, *args)

    test, inner = use("Twice", "ghost"), round_off.inner_products
    return broken(
        test,
        {
            "cross terms once": wrap(inner, once),
            "no cross terms": wrap(inner, without_pairs),
            "tied ids never meet": (
                wrap(cross_terms._picked, lambda real, *args: 0 * real(*args)),
                use("LanguageModel", "ghost"),
            ),
            "the last use only": (
                wrap(
                    call_groups.summed_gradients,
                    lambda real, uses: real(list(uses)[-1:]),
                ),
                use("SharedCell", "instantiate"),
            ),
            "the sum not of what was measured": (
                wrap(call_groups.SharedCalls.add_weighted, not_measured),
                f"{LONGEST}test_cancelling_positions_add_no_more_than_c[1-tied]",
            ),
        },
    )


def rounding():
    def no_error(real, found, *args):
        return real(found._replace(error=0 * found.error), *args)

    cancelling = f"{LONGEST}test_cancelling_positions_add_no_more_than_c[59-Embedding]"
    longer = f"{LONGEST}test_the_sample_that_once_was_half_as_long_again_is_not"
    length = f"{GHOST}test_a_length_is_not_lost_in_one_long_addition"
    return broken(
        longer,
        {
            "no bound of the Gram products": wrap(round_off.upper_squares, no_error),
            "no bound of the sum": (
                wrap(round_off.upper_norms, lambda real, found, *args: found),
                cancelling,
            ),
            "lengths as they are found": (
                wrap(bounds.gamma, lambda real, terms, dtype: 0.0),
                f"{length}[1000]",
            ),
            "a length in one long addition": (
                alter(bounds, BLOCK_ENTRIES=2**30),
                f"{length}[1048577]",
            ),
        },
    )


def batch_dimension():
    def one_pass(real, seen, dim):
        return any(real({size: shape}, dim) for size, shape in seen.items())

    def first(real, dims_seen, call, shape, size, dims, **rest):
        return real(dims_seen, call, shape, size, min(dims, 1), **rest)

    return broken(
        "engines/test_batch_dims.py",
        {
            "one pass is enough": wrap(batch_dims._counts, one_pass),
            "always first": (
                wrap(batch_dims.BatchDims.batch_dim, first),
                as_many("PositionsFirst"),
            ),
            "never shared": (
                wrap(batch_dims._shared, lambda real, seen: False),
                as_many("Places"),
            ),
        },
    )


def memory_layout():
    def memory_order(real, backend, gradient, weights, total):
        row = sample_rows.sample_rows(gradient).t() @ weights
        total.add_(row.view(total.shape))

    def squared(real, backend, gradient, weights, total):
        real(backend, gradient, weights**2, total)

    test = f"{GRADIENTS}test_rows_and_sums_do_not_depend_on_the_order_in_memory"
    return broken(
        test,
        {
            "sums in memory order": wrap(TorchBackend._add_weighted, memory_order),
            "weights squared": wrap(TorchBackend._add_weighted, squared),
            "rows copied": (
                wrap(sample_rows.memory_order, lambda real, g: real(g)[::-1]),
                f"{GRADIENTS}test_a_gradient_in_another_order_is_not_copied",
            ),
        },
    )


RULES = {
    "Linear": linear(),
    "Conv": convolution(),
    "ConvTranspose": transposed(),
    "convolution gradients": convolution_gradients(),
    "Embedding": embeddings(),
    "EmbeddingBag": embedding_bags(),
    **norms(),
    "PReLU": prelu(),
    **recurrent(),
    "MultiheadAttention": attentions(),
    "any module": any_module(),
    "bare parameters": bare_parameters(),
    "shared parameters": shared_parameters(),
    "what rounding hides": rounding(),
    "where the samples are": batch_dimension(),
    "memory layout": memory_layout(),
}

QUICK = (
    "Linear",
    "Conv",
    "MultiheadAttention",
    "shared parameters",
)
"""Rules of which the first mutation is tried by ``make test``."""
