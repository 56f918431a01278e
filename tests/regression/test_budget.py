import math

import pytest

from dpsgd_explorer.accounting import gaussian_epsilon
from dpsgd_explorer.errors import AccountingError
from dpsgd_explorer.regression import ssp
from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.budget import Part, split
from dpsgd_explorer.regression.perturbation import Perturbation

DELTA = 1e-6
EPSILONS = ["0.1", "0.5", "1.0", "2.0"]
NAMES = {"ssp": "SSP", "adassp": "AdaSSP"}


def notebook(method):
    return Perturbation(method=method, bounds=Bounds(1, 5), variant="notebook")


@pytest.mark.parametrize("method", NAMES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_scale_is_the_exact_one(golden, epsilon, method):
    budget = notebook(method).budget(float(epsilon), DELTA)
    wanted = golden["ssp"][epsilon][NAMES[method]]
    for name, ratio in RATIOS.items():
        scale = budget.noise_multipliers[name] / ratio
        assert scale == pytest.approx(wanted["scale_exact"], rel=1e-11)
    assert [*budget.noise_multipliers.values()] == pytest.approx(
        wanted["sigmas_exact"], rel=1e-11
    )


RATIOS = {"xtx": 2, "xty": 3}


@pytest.mark.parametrize("method", NAMES)
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.3, 0.5, 0.777, 1.0, 2.0, 8.0, 50.0])
def test_what_is_spent_stays_within_the_target_by_a_hair(method, epsilon):
    budget = notebook(method).budget(epsilon, DELTA)
    precision = math.fsum(s**-2 for s in budget.noise_multipliers.values())
    spent = gaussian_epsilon(delta=DELTA, noise_multiplier=precision**-0.5)
    assert spent == pytest.approx(budget.epsilon, rel=1e-14)
    assert epsilon * (1 - 1e-9) <= spent
    assert budget.epsilon <= epsilon


def test_autodp_overspends_on_four_of_eight_scales(golden):
    overspent = [
        golden["ssp"][epsilon][name]["eps_at_autodp_scale_exact"] > float(epsilon)
        for epsilon in EPSILONS
        for name in NAMES.values()
    ]
    assert sum(overspent) == 4


def test_shares_add_up_and_follow_the_ratios():
    budget = split(1.0, DELTA, [Part("a", 1.0, 1.0), Part("b", 3.0, 2.0)])
    assert budget.shares == pytest.approx({"a": 0.8, "b": 0.2})
    assert budget.noise_stds["b"] == pytest.approx(6 * budget.noise_stds["a"])


def test_tight_spends_nothing_on_the_least_eigenvalue():
    budget = Perturbation(method="adassp", bounds=Bounds(1, 5)).budget(1.0, DELTA)
    assert set(budget.noise_multipliers) == {"xtx", "xty"}
    assert budget.epsilon == notebook("ssp").budget(1.0, DELTA).epsilon


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0, DELTA), (-1, DELTA), (1, 0), (1, 1), (1, 1.5)]
)
def test_a_budget_outside_its_domain_is_refused(epsilon, delta):
    with pytest.raises(AccountingError, match="must be"):
        notebook("ssp").budget(epsilon, delta)
    with pytest.raises(AccountingError, match="must be"):
        ssp([[0.5]], [1.0], epsilon=epsilon, delta=delta, y_bound=5.0)
