"""Canaries of a run that is simulated, with the noise that it has or another."""

import numpy as np

from dpsgd_explorer.accounting.auditing.error_rates import Scores
from dpsgd_explorer.accounting.auditing.log_likelihood import log_likelihood_ratio
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
)


def simulated(phase, count, seed, *, noise=1.0, relation=ADD_OR_REMOVE_ONE):
    """Return scores of canaries; the real noise is ``noise`` times the phase's."""
    return simulated_run([phase], count, seed, noise=noise, relation=relation)


def simulated_run(phases, count, seed, *, noise=1.0, relation=ADD_OR_REMOVE_ONE):
    """Return the same for several phases, one after the other."""
    rng = np.random.default_rng(seed)
    joined = rng.random(count) < 0.5
    side = np.where(joined, 1.0, -1.0 if relation is REPLACE_ONE else 0.0)
    scores = np.zeros(count)
    for phase in phases:
        q, sigma = phase.sample_rate, phase.noise_multiplier
        for _ in range(phase.steps):
            drawn = rng.random(count) < q
            released = noise * sigma * rng.standard_normal(count) + drawn * side
            scores += log_likelihood_ratio(released, q, sigma, relation=relation)
    return Scores.of(scores, joined)


def gaussian(mu, members, others, seed):
    rng = np.random.default_rng(seed)
    return Scores(rng.normal(mu, 1, members), rng.normal(0, 1, others))
