"""Bugs that have been made in DP-SGD.

The first thirteen are those of an audit study: an audit alone misses five of them, so
each names the family of tests that must see it.  Titles that a loop of
``training.planted_bugs`` shares are taken from there.  "Noise before all-reduce on
every rank" waits for training on several processes.
"""

import dataclasses

import torch

from dpsgd_explorer.accounting import Odometer
from dpsgd_explorer.dp.backends.box_muller import add_products, round_to_grid
from dpsgd_explorer.dp.clipping import clipped_sum
from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum
from dpsgd_explorer.dp.clipping.clipper import abadi_factors, equal_bounds
from dpsgd_explorer.dp.clipping.groups import all_layers
from dpsgd_explorer.dp.ledger.ledger import Ledger
from dpsgd_explorer.dp.ledger.noisy_release import noisy_release
from dpsgd_explorer.dp.noise import aes_stream
from dpsgd_explorer.dp.noise.aes_stream import KeyStream
from dpsgd_explorer.dp.noise.base import Meter
from dpsgd_explorer.dp.noise.generators import generators
from dpsgd_explorer.dp.noise.secure import SecureNoise
from dpsgd_explorer.dp.noise.seeded import seeded_generator
from dpsgd_explorer.dp.sampling.sampler import PoissonSampler
from dpsgd_explorer.dp.session import Session
from dpsgd_explorer.training.planted_bugs.catalogue import LOOPS
from tests.dp.mutations.planting import Altered, alter, bug, wrap

NOISE = "noise/test_noise_law.py::test_every_parameter_gets_its_own_share[secure]"
INDEPENDENCE = (
    "noise/test_noise_law.py::test_steps_layers_and_neighbours_are_independent[secure]"
)
CLIPPING = "clipping/test_sensitivity.py::"
SENSITIVITY = f"{CLIPPING}test_a_huge_record_moves_it_by_all_of_c[Abadi-mlp]"
LAW = "sampling/test_sampler_law.py::"
SAMPLER = f"{LAW}test_each_record_joins_each_step_by_its_own_coin[secure]"
SECURE = "noise/test_secure.py::"
RECEIPT = "ledger/test_receipt.py::"
BETWEEN = "engines/test_code_between_layers.py::"


def scaled_noise(factor):
    def add_to(real, noise, values, standard_deviation, divisor=1.0):
        return real(noise, values, factor * standard_deviation, divisor)

    return wrap(SecureNoise.add_to, add_to)


def same_noise(real, noise, values, standard_deviation, divisor=1.0):
    before, drawn = values.clone(), vars(noise).setdefault("drawn", {})
    if len(values) in drawn:
        values += drawn[len(values)]
    else:
        real(noise, values, standard_deviation)
        drawn[len(values)] = values - before
    values /= divisor
    return before.square().sum()


def shuffled_epochs(real, sampler):
    size = round(sampler.sample_size * sampler.sample_rate)
    start = sampler.position * size % sampler.sample_size
    if start == 0:
        sampler.order = sampler.uniforms(sampler.sample_size).argsort()
    return sampler.order[start : start + size].sort().values


def fixed_batches(real, sampler):
    size = round(sampler.sample_size * sampler.sample_rate)
    start = sampler.position * size % sampler.sample_size
    return torch.arange(start, start + size)


def evaluation_mode(real, session, module, *args, **kwargs):
    real(session, module, *args, **kwargs)
    module.eval()


def no_gradient(real, session):
    real(session)
    for parameter in session._parameters:
        if parameter.grad is not None:
            parameter.grad = 0 * parameter.grad


def twice(real, meter, values, standard_deviation, divisor=1.0):
    real(meter, values, standard_deviation)
    return real(meter, values, standard_deviation, divisor)


def seeded_batches(real, noise, seed):
    drawn = real(noise, seed)
    return type(drawn)(drawn[0], seeded_generator(0, "sampling"), *drawn[2:])


def planned_bound(real, total, noise, noise_plan, sample_rate, step=0):
    gradients, done = real(total, noise, noise_plan, sample_rate, step)
    bound = noise_plan.max_grad_norm_at(step)
    ratio = done.noise_multiplier * done.max_grad_norm / bound
    return gradients, dataclasses.replace(
        done, noise_multiplier=ratio, max_grad_norm=bound
    )


def lost_steps(real, ledger, release):
    ledger.lost_steps += release.steps


PLANTED = [
    bug("noise x 0.9", NOISE, scaled_noise(0.9)),
    bug("noise x 0.8", NOISE, scaled_noise(0.8)),
    bug("noise / sqrt 2", NOISE, scaled_noise(0.5**0.5)),
    bug("noise / 2", NOISE, scaled_noise(0.5)),
    bug(
        "noise / sqrt B",
        NOISE,
        wrap(ClippedSum.release, lambda real, s, n, sd, b: real(s, n, sd / b**0.5, b)),
    ),
    bug(
        "noise / B",
        NOISE,
        wrap(ClippedSum.release, lambda real, s, n, sd, b: real(s, n, sd / b, b)),
    ),
    bug(
        "no noise",
        NOISE,
        wrap(ClippedSum.release, lambda real, s, n, sd, b: real(s, None, sd, b)),
    ),
    bug(
        "clipped at 2 C",
        SENSITIVITY,
        wrap(abadi_factors, lambda real, norms, bound: real(norms, 2 * bound)),
    ),
    bug(
        LOOPS["noise_without_clipping"].title,
        SENSITIVITY,
        wrap(abadi_factors, lambda real, norms, bound: torch.ones_like(norms)),
    ),
    bug("shuffled epochs", SAMPLER, wrap(PoissonSampler.draw, shuffled_epochs)),
    bug("fixed batches", SAMPLER, wrap(PoissonSampler.draw, fixed_batches)),
    bug(
        LOOPS["seed_reused"].title,
        INDEPENDENCE,
        wrap(SecureNoise.add_to, same_noise),
    ),
    bug(
        "one draw for all coordinates",
        f"{SECURE}test_a_million_numbers_have_the_law",
        wrap(
            add_products,
            lambda real, values, radii, waves, scale: values.add_(
                radii[0] * waves[0, 0], alpha=scale
            ),
        ),
    ),
]

OTHERS = [
    bug(
        LOOPS["mean_clipped"].title,
        SENSITIVITY,
        wrap(
            abadi_factors,
            lambda real, norms, bound: real(norms.mean().expand_as(norms), bound),
        ),
    ),
    bug(
        "each layer clipped with all of C",
        SENSITIVITY,
        wrap(all_layers, lambda real, names: [[name] for name in names]),
        wrap(equal_bounds, lambda real, bound, count: [bound] * count),
    ),
    bug(
        "delta returned for epsilon",
        f"{BETWEEN}test_epsilon_is_epsilon",
        wrap(Odometer.epsilon, lambda real, odometer, delta, *_: delta),
    ),
    bug(
        LOOPS["piled_up"].title,
        f"{CLIPPING}test_a_step_leaves_nothing_behind_for_the_next",
        wrap(ClippedSum.reset, lambda real, total: None),
    ),
    bug(
        "dropout off while training",
        f"{BETWEEN}test_dropout_stays_on_while_training",
        wrap(Session.__init__, evaluation_mode),
    ),
    bug(
        "momentum made of gradients without noise",
        "noise/test_noise_law.py::test_momentum_is_made_of_noisy_gradients",
        wrap(Session._make_step, no_gradient),
    ),
    bug("noise drawn twice", NOISE, wrap(Meter.add_to, twice)),
    bug(
        LOOPS["averaged_before_noise"].title,
        f"{CLIPPING}test_the_sum_is_divided_by_a_public_constant",
        wrap(
            ClippedSum.release,
            lambda real, total, noise, sd, _: real(total, noise, sd, total.size),
        ),
    ),
    bug(
        "samples that are not finite kept",
        f"{CLIPPING}test_a_sample_left_out_leaves_the_others_alone",
        alter(clipped_sum, torch=Altered(torch, isfinite=torch.ones_like)),
    ),
    bug(
        "rate 3 % too high",
        (
            SAMPLER,
            "sampling/test_poisson_sampling.py::test_each_record_has_its_own_coin",
        ),
        wrap(
            PoissonSampler._gaps,
            lambda real, sampler, count: real(
                Altered(sampler, sample_rate=1.03 * sampler.sample_rate), count
            ),
        ),
    ),
    bug(
        "empty batches skipped",
        f"{LAW}test_empty_batches_are_steps_and_get_noise",
        wrap(
            PoissonSampler.until,
            lambda real, sampler, end: (
                batch for batch in real(sampler, end) if len(batch)
            ),
        ),
    ),
    bug(
        "secure batches from a seed",
        f"{BETWEEN}test_nobody_can_repeat_the_batches_of_a_secure_run",
        wrap(generators, seeded_batches),
    ),
    bug(
        "a forked child keeps the key",
        f"{SECURE}test_a_forked_child_draws_other_noise",
        alter(aes_stream, os=Altered(aes_stream.os, getpid=lambda: 0)),
    ),
    bug(
        "a resumed run keeps the key",
        f"{SECURE}test_a_state_holds_nothing_and_a_resume_takes_a_fresh_key",
        wrap(KeyStream.set_state, lambda real, stream, state: None),
    ),
    bug(
        "the release shows the sum's low bits",
        f"{SECURE}test_what_is_released_does_not_show_the_low_bits_of_the_sum",
        wrap(round_to_grid, lambda real, values, shift: None),
    ),
    bug(
        "the receipt repeats what was told",
        f"{RECEIPT}test_options_changed_once_attached_give_no_epsilon",
        wrap(noisy_release, planned_bound),
    ),
    bug(
        "lost steps not counted",
        f"{RECEIPT}test_lost_steps_are_counted_where_noise_is_not_repeated",
        wrap(Ledger.record_lost, lost_steps),
    ),
]

BUGS = {each.name: each for each in PLANTED + OTHERS}
