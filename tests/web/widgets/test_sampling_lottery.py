"""A lottery of batches: the draws of the picture, and what is proven about each."""

import math
import random
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from dpsgd_explorer import accounting
from dpsgd_explorer.web.hub.widgets.sampling_lottery import proofs, widget

STEPS = 4000 * proofs.STEPS_PER_EPOCH
EPOCHS = range(1, proofs.EPOCHS + 1)
RUN = {"noise_multiplier": proofs.NOISE_MULTIPLIER, "delta": proofs.DELTA}


@pytest.mark.parametrize("name", widget.SCHEMES)
def test_every_scheme_expects_the_same_size(name):
    batches = widget.SCHEMES[name](STEPS, random.Random(1))  # seeded: no false alarm
    assert len(batches) == STEPS
    mean = sum(map(len, batches)) / STEPS
    assert mean == pytest.approx(proofs.BATCH_SIZE, abs=0.1)
    assert all(len(set(batch)) == len(batch) for batch in batches)
    used = Counter(record for batch in batches for record in batch)
    assert len(used) == proofs.RECORDS
    assert max(used.values()) < 1.1 * min(used.values())


@pytest.mark.parametrize("name", widget.SCHEMES)
def test_shuffling_and_allocation_alone_use_each_record_once_per_epoch(name):
    batches = widget.SCHEMES[name](STEPS, random.Random(2))
    epochs = (
        batches[start : start + proofs.STEPS_PER_EPOCH]
        for start in range(0, STEPS, proofs.STEPS_PER_EPOCH)
    )
    are_whole = {
        sorted(record for batch in epoch for record in batch)
        == list(range(proofs.RECORDS))
        for epoch in epochs
    }
    assert are_whole == {name in ("shuffled", "allocation")}


def test_random_allocation_is_what_the_accountant_counts():
    """Of the first epochs: the others are in a longer test."""
    assert len(proofs.recorded_allocation()) == proofs.EPOCHS
    for epoch in EPOCHS[:2]:
        counted = accounting.random_allocation_epsilon(
            slots=proofs.STEPS_PER_EPOCH, epochs=epoch, **RUN
        )
        assert proofs.recorded_allocation()[epoch - 1] == pytest.approx(counted, 1e-9)


@pytest.mark.long("every combination")
def test_random_allocation_of_every_epoch_is_what_the_accountant_counts():
    for epoch, stored in zip(EPOCHS, proofs.recorded_allocation(), strict=True):
        counted = accounting.random_allocation_epsilon(
            slots=proofs.STEPS_PER_EPOCH, epochs=epoch, **RUN
        )
        assert stored == pytest.approx(counted, 1e-9)


def test_another_run_does_not_take_the_recorded_epsilon(monkeypatch):
    monkeypatch.setattr(proofs, "SETTINGS", proofs.SETTINGS | {"noise_multiplier": 2.0})
    with pytest.raises(ValueError, match=r"Run record\.py again"):
        proofs.recorded_allocation()


def test_poisson_is_exact_and_above_allocation():
    for epoch in EPOCHS:
        steps = epoch * proofs.STEPS_PER_EPOCH
        run = {"sample_rate": 1 / proofs.STEPS_PER_EPOCH, "steps": steps, **RUN}
        counted = accounting.epsilon(**run)
        at = proofs.zeroed(epoch)
        assert at["poisson"] == proofs.exact(counted)
        assert at["allocation"].most < counted


def _gaussian_delta(mu, epsilon):
    """δ of a Gaussian release, by the closed form of Balle and Wang (2018)."""
    far, near = -epsilon / mu - mu / 2, -epsilon / mu + mu / 2
    return stats.norm.cdf(near) - math.exp(epsilon) * stats.norm.cdf(far)


def test_a_shuffled_deck_is_at_most_one_gaussian_release_per_epoch():
    for epoch in EPOCHS:
        for of_record, distance in ((proofs.zeroed, 1), (proofs.replaced, 2)):
            mu = distance * epoch**0.5 / proofs.NOISE_MULTIPLIER
            bound = of_record(epoch)["shuffled"].most
            assert _gaussian_delta(mu, bound) <= proofs.DELTA * (1 + 1e-9)
            assert _gaussian_delta(mu, bound - 0.001) > proofs.DELTA


def test_a_shuffled_deck_is_worse_than_poisson_sampling_by_one_attack():
    """The largest noisy sum of an epoch tells both data sets apart, by simulation."""
    chance = np.random.default_rng(3)
    slots, sigma, draws = proofs.STEPS_PER_EPOCH, proofs.NOISE_MULTIPLIER, 1_000_000
    with_record, without = (
        np.maximum(
            chance.normal(signal, sigma, draws),
            sigma
            * stats.norm.ppf(
                chance.random(draws) ** (1 / (slots - 1))
            ),  # largest other
        )
        for signal in (2.0, 1.0)
    )
    epsilon = 0.3
    # The likelihood ratio of the largest sum rises with it, so a threshold decides.
    reached = max(
        (with_record > x).mean() - math.exp(epsilon) * (without > x).mean()
        for x in np.linspace(0.0, 12.0, 49)
    )
    poisson = accounting.delta(
        sample_rate=1 / slots, noise_multiplier=sigma, steps=slots, epsilon=epsilon
    )
    assert reached > poisson * 1.05
    for epoch in EPOCHS:
        at = proofs.zeroed(epoch)
        assert at["poisson"].most < at["shuffled"].least < at["shuffled"].most


def test_fixed_sizes_lie_between_poisson_and_the_bound_for_a_replaced_record():
    for epoch in EPOCHS:
        fixed, of_replaced = proofs.zeroed(epoch)["fixed"], proofs.replaced(epoch)
        assert fixed.least == proofs.zeroed(epoch)["poisson"].most
        assert fixed.least < of_replaced["fixed"].least <= of_replaced["fixed"].most
        assert fixed.most == of_replaced["fixed"].most
        assert of_replaced["poisson"].most < of_replaced["fixed"].least


def test_every_printed_bound_is_rounded_to_the_safe_side():
    for epoch, after in zip(EPOCHS, widget.data()["after"], strict=True):
        for name, proof in proofs.zeroed(epoch).items():
            sent = after["schemes"][name]
            assert proof.most <= float(sent["most"]) < proof.most + 0.0101
            assert proof.least - 0.0101 < float(sent["least"]) <= proof.least
            assert (sent["status"] == "exact") == (name in ("poisson", "allocation"))
            assert sent["most"] in sent["words"]
            assert sent["most"] in sent["short"]
        assert after["title"].endswith(
            f"random allocation, {after['schemes']['allocation']['most']}"
        )


def test_the_table_has_both_relations_and_no_invented_number():
    rows = {row[0]: row[1:] for row in widget.picture().rows}
    assert rows["random allocation"][1] == "no proof is known"
    assert all(
        rows[name][0].endswith("(exact)") for name in ("Poisson", "random allocation")
    )
    for name in ("fixed size", "shuffled"):
        assert all(cell.endswith("(bounds)") for cell in rows[name])
