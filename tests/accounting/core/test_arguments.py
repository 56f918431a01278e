"""No two numbers of a call can be swapped: they have names."""

import inspect

import pytest

from dpsgd_explorer import accounting

FUNCTIONS = {
    name: function
    for name in accounting.__all__
    if inspect.isfunction(function := getattr(accounting, name))
} | {
    f"Odometer.{name}": getattr(accounting.Odometer, name)
    for name in ("noise_multiplier", "sample_rate", "steps")
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_at_most_one_number_is_given_by_its_place(name):
    parameters = inspect.signature(FUNCTIONS[name]).parameters.values()
    by_place = [
        x.name
        for x in parameters
        if x.kind is not x.KEYWORD_ONLY and x.annotation == "float"
    ]
    assert len(by_place) <= 1


def test_a_call_by_place_is_refused():
    assert len(FUNCTIONS) > 20
    with pytest.raises(TypeError, match="0 positional arguments but 4 were given"):
        accounting.epsilon(0.01, 1.1, 1000, 1e-5)
