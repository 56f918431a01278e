"""Figures for notebooks show the numbers of the accountant."""

import math
import subprocess
import sys

import pytest

from dpsgd_explorer.accounting import LaplaceMechanism, Odometer, epsilon, plots
from dpsgd_explorer.errors import AccountingError

RUN = {"sample_rate": 0.01, "steps": 100, "delta": 1e-5}
NOISE = [0.7, 1.0, 2.0]


@pytest.fixture
def ledger():
    made = Odometer()
    made.add_gaussian(3.0)
    made.add(LaplaceMechanism(2.0))
    return made


def test_epsilon_over_noise_has_one_line_per_accountant():
    figure = plots.epsilon_over_noise(
        noise_multipliers=NOISE, accountants=["exact", "rdp"], **RUN
    )
    for line in figure.data:
        assert list(line.x) == NOISE
        assert list(line.y) == [
            epsilon(noise_multiplier=x, accountant=line.name, **RUN) for x in NOISE
        ]
    assert figure.layout.yaxis.title.text == "ε at δ = 1e-05"
    with pytest.raises(AccountingError, match="accountant must be"):
        plots.epsilon_over_noise(noise_multipliers=NOISE, accountants=["x"], **RUN)


def test_delta_over_epsilon_is_the_band_of_the_odometer(ledger):
    figure = plots.delta_over_epsilon(ledger, [0.0, 1.0, 2.0])
    lower, upper = figure.data
    assert upper.fill == "tonexty"
    for x, low, high in zip(lower.x, lower.y, upper.y, strict=True):
        found = ledger.delta_interval(x)
        assert (found.lower, found.value) == (low, high)
    replaced = plots.delta_over_epsilon(ledger, [1.0], "replace_one")
    assert replaced.data[1].y[0] > upper.y[1]


def test_the_trade_off_is_the_band_of_the_odometer(ledger):
    figure = plots.trade_off_band(ledger, [0.01, 0.5])
    lower, upper, guess = figure.data
    found = ledger.trade_off([0.01, 0.5])
    assert [x.lower for x in found] == list(lower.y)
    assert [x.value for x in found] == list(upper.y)
    assert list(guess.x) == list(guess.y) == [0.01, 0.5]
    whole = plots.trade_off_band(ledger).data[1]
    assert (whole.x[0], whole.x[-1], whole.y[-1]) == (0.0, 1.0, 1.0)
    assert not any(math.isnan(y) for y in whole.y)


def test_without_plotly_the_error_names_the_command():
    code = (
        "import sys; sys.modules['plotly'] = None\n"
        "from dpsgd_explorer.accounting import Odometer, plots\n"
        "try: plots.trade_off_band(Odometer(), [0.1])\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == (
        "accounting.plots needs plotly. Run: pip install plotly"
    )
