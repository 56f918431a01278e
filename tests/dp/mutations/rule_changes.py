"""How mutations of layer rules are written: what is changed, which test sees it."""

import functools

from torch import nn

from dpsgd_explorer.dp.engines.call_recorders import ForwardCallRecorder
from dpsgd_explorer.dp.layers import RULES as TABLE
from dpsgd_explorer.dp.layers import (
    round_off,
)
from dpsgd_explorer.dp.layers.base import scale_samples
from tests.dp.mutations.planting import Altered, bug, wrap

GRADIENTS = "layers/test_convolution_gradients.py::"
GHOST = "layers/test_ghost_norm.py::"
LONGEST = "clipping/test_longest_contribution.py::"
EVERY_WAY = "test_every_way_is_that_of_one_backward_a_sample"


def every_way(kind):
    """Return the test of all ways of one kind of layer."""
    return f"layers/test_layer_rules.py::{EVERY_WAY}[{kind}]"


def pinned(case):
    """Return the test of one case of test_pinned_cases.py."""
    return f"layers/test_pinned_cases.py::{EVERY_WAY}[{case}]"


def use(kind, mode):
    """Return the test of one network and mode of engines/test_coverage.py."""
    name = "test_parameters_are_reached_however_they_are_used"
    return f"engines/test_coverage.py::{name}[{kind}-{mode}]"


def as_many(kind):
    """Return the test with as many samples as positions."""
    name = "test_as_many_samples_as_positions_are_not_confused"
    return f"engines/test_coverage.py::{name}[{kind}]"


def broken(test, changes):
    """Return bugs from {name: change}, or {name: (change, test)} for another test."""
    pairs = {
        name: change if isinstance(change, tuple) else (change, test)
        for name, change in changes.items()
    }
    return [bug(name, own, change) for name, (change, own) in pairs.items()]


def method(kind, name):
    """Return a method of the rule of a kind of layer, or of its ghost norm."""
    rule = TABLE[kind]
    owner = rule if hasattr(rule, name) else rule.ghost_norm
    return getattr(type(owner), name)


def with_seen(kind, function, **changes):
    """Return a change: the function sees another argument of this kind.

    Each of ``changes`` makes an attribute from the true argument.
    """

    def planted(real, *args, **kwargs):
        at = next(i for i, arg in enumerate(args) if isinstance(arg, kind))
        changed = {name: make(args[at]) for name, make in changes.items()}
        seen = Altered(args[at], **changed)
        return real(*args[:at], seen, *args[at + 1 :], **kwargs)

    return wrap(function, planted)


with_layer = functools.partial(with_seen, nn.Module)
with_recorder = functools.partial(with_seen, ForwardCallRecorder)


def with_gradients(kind, change, name="per_sample_gradients"):
    """Return a change of what a rule's method returns: ``change(found, *its args)``."""

    def planted(real, rule, *args):
        found = real(rule, *args)
        change(found, *args)
        return found

    return wrap(method(kind, name), planted)


UNWEIGHTED = wrap(scale_samples, lambda real, values, weights: values)
NO_BIAS = wrap(round_off.Gram.plus_one, lambda real, gram: gram)
ZEROS = {"padding_mode": lambda layer: "zeros"}
