"""No loss that mixes the samples of a batch gives an epsilon, and ordinary ones do."""

import itertools
import math

import pytest

from dpsgd_explorer.dp.config import CHOICES
from dpsgd_explorer.errors import MixedLossError, PrivacyError
from tests.dp.loss_cases import (
    ORDINARY,
    ORDINARY_SUMS,
    PLANTED,
    trained,
)
from tests.dp.nets import UNREAD

pytestmark = UNREAD
RAISE_AT_ONCE = {
    "class weights",
    "ignore_index",
    "ignore_index, flat",
    "another ignore_index",
    "label smoothing and ignore_index",
}
"""Torch says itself that a mean is weighted, so nothing of it is released."""

ENGINE = pytest.mark.parametrize("engine", CHOICES["engine"])


def in_engines(names, few):
    """Each under hooks, a few in the other engines too."""
    others = [engine for engine in CHOICES["engine"] if engine != "hooks"]
    return [(name, "hooks") for name in names] + list(itertools.product(few, others))


FEW = ["cross entropy", "a weighted sum of two", "tokens by per_sample_mean"]


@pytest.mark.parametrize(("name", "engine"), in_engines(ORDINARY, FEW))
def test_an_ordinary_loss_gives_an_epsilon(name, engine):
    done = trained(*ORDINARY[name], engine=engine)
    assert 0 < done.get_epsilon() < math.inf
    assert done.receipt()["loss"] == "checked by its graph at every backward"


@pytest.mark.parametrize("name", ORDINARY_SUMS)
def test_a_sum_gives_an_epsilon_where_it_is_said_to_be_one(name):
    done = trained(*ORDINARY_SUMS[name], loss_reduction="sum")
    assert done.get_epsilon() == done.plan.epsilon(done.steps_done)


@pytest.mark.sweep(1)
@ENGINE
@pytest.mark.parametrize("name", PLANTED)
def test_a_loss_that_mixes_samples_gives_no_epsilon(name, engine):
    """Unless somebody vouches for it."""
    if name in RAISE_AT_ONCE:
        with pytest.raises(MixedLossError, match="per_sample_mean"):
            trained(*PLANTED[name], engine=engine)
        return
    done = trained(*PLANTED[name], engine=engine)
    with pytest.raises(PrivacyError, match="per_sample_mean") as refusal:
        done.get_epsilon()
    assert "assume_per_sample_loss=True" in str(refusal.value)
    assert done.receipt()["epsilon"] is None
    assert done.receipt()["loss"].startswith("unchecked (")
    vouched = done.get_epsilon(assume_per_sample_loss=True)
    assert vouched == done.plan.epsilon(done.steps_done)
    assert "vouched" in done.receipt()["loss"]
