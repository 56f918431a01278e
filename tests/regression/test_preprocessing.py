import numpy as np
import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.regression import Preprocessing

X = np.array([[3.0, 8.0], [0.3, 0.8], [0.0, 0.0]])
Y = np.array([7.0, -7.0, 0.5])
RANGES = (1.0, 2.0)  # rows become [3, 4] of norm 5, [0.3, 0.4] of norm 0.5, and zeros


def norms(rows, x_bound=1.0):
    prepared = Preprocessing(RANGES, x_bound, 5.0, rows).apply(X, Y)
    return np.linalg.norm(prepared.X, axis=1), prepared


def test_normalize_brings_every_row_to_the_bound_but_leaves_zeros():
    lengths, prepared = norms("normalize", 2.0)
    assert lengths == pytest.approx([2, 2, 0])
    assert prepared.X[0] == pytest.approx([1.2, 1.6])


def test_clip_shortens_only_what_is_beyond_and_counts():
    lengths, prepared = norms("clip")
    assert lengths == pytest.approx([1, 0.5, 0])
    assert (prepared.shortened_rows, prepared.clipped_labels) == (1, 2)
    assert prepared.y.tolist() == [5, -5, 0.5]


def test_refuse_names_the_row():
    with pytest.raises(ConfigError, match=r"x_bound = 1; row 1 has norm 5"):
        norms("refuse")
    with pytest.raises(ConfigError, match=r"y_bound = 5; row 1 has label 7"):
        norms("refuse", 6.0)


def test_what_a_row_becomes_depends_on_that_row_alone():
    step = Preprocessing(RANGES, 1.0, 5.0, "clip")
    whole = step.apply(X, Y).X
    apart = np.concatenate([step.apply(X[[i]], Y[[i]]).X for i in range(3)])
    np.testing.assert_array_equal(whole, apart)


@pytest.mark.parametrize(
    ("ranges", "message"),
    [((1.0,), "one number for each of the 2"), ((1.0, 0.0), "greater than 0")],
)
def test_ranges_that_do_not_fit_are_refused(ranges, message):
    with pytest.raises(ConfigError, match=message):
        Preprocessing(ranges, 1.0, 5.0).apply(X, Y)
