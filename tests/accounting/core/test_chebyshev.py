import numpy as np

from dpsgd_explorer.accounting.core.chebyshev import (
    MAX_NODES,
    chebyshev_nodes,
    interpolated,
)


def test_a_smooth_curve_is_found_from_few_of_its_points():
    places = np.log(np.arange(100.0, 401.0))
    known = chebyshev_nodes(places)
    assert {0, len(places) - 1} <= set(known)
    assert len(known) == MAX_NODES
    truth = np.sqrt(np.exp(places)) + 3 / places
    found = interpolated(places, known, truth[known])
    assert np.abs(found / truth - 1).max() < 1e-9
    assert np.array_equal(found[known], truth[known])


def test_repeated_places_and_any_order_are_served():
    places = np.array([3.0, 1.0, 2.0, 1.0, 3.0, 2.0])
    known = chebyshev_nodes(places)
    assert len(set(places[known])) == len(known) == 3
    found = interpolated(places, known, places[known] ** 2)
    assert np.allclose(found, places**2)


def test_one_place_has_one_value():
    places = np.full(5, 7.0)
    known = chebyshev_nodes(places)
    assert len(known) == 1
    assert np.array_equal(interpolated(places, known, np.array([4.0])), np.full(5, 4.0))
