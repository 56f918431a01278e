import lzma

import numpy as np
import pytest

from dpsgd_explorer.errors import DataError
from dpsgd_explorer.experiments.california_housing import housing


def test_the_table_is_the_published_one():
    x, y = housing.load()
    assert x.shape == (20640, 8) == (housing.SIZE, len(housing.FEATURES))
    assert x[0, [0, 1, 4, 6, 7]].tolist() == [8.3252, 41, 322, 37.88, -122.23]
    assert x[0, 2] == pytest.approx(880 / 126, rel=1e-15)
    assert (y[0], y.max()) == (4.526, 5.00001)


def test_the_table_cannot_be_changed_by_whoever_got_it():
    with pytest.raises(ValueError, match="read-only"):
        housing.load()[0][0, 0] = 0


def test_baselines_are_the_notebooks(statistics):
    assert statistics.mse == pytest.approx(0.6053084771039058, rel=1e-12)
    assert statistics.trivial_mse == pytest.approx(1.331547558951559, rel=1e-12)


def test_statistics_are_the_golden_ones(statistics, golden):
    data = golden["data"]
    np.testing.assert_allclose(statistics.xtx, data["XTX"], rtol=1e-12)
    np.testing.assert_allclose(statistics.xty, data["XTy"], rtol=1e-12)
    np.testing.assert_allclose(statistics.theta, data["theta_nonprivate"], rtol=1e-8)
    np.testing.assert_allclose(
        statistics.eigenvalues[::-1], data["xtx_singular_values"], rtol=1e-9
    )


def test_five_features_exceed_their_natural_ranges(prepared):
    x, _ = housing.load()
    beyond = (np.abs(x) > np.array(housing.RANGES)).any(axis=0)
    names = np.array(housing.FEATURES)[beyond].tolist()
    assert names == ["MedInc", "HouseAge", "AveRooms", "AveOccup", "Longitude"]
    np.testing.assert_allclose(np.linalg.norm(prepared.X, axis=1), 1, rtol=1e-15)


def test_other_content_is_refused_and_the_remedy_told(tmp_path):
    place = tmp_path / "california_housing.csv.xz"
    place.write_bytes(lzma.compress(b"MedInc\n1\n"))
    with pytest.raises(DataError, match=r"its content has sha256 .*make_housing"):
        housing.content(place)
    place.write_bytes(b"not packed")
    with pytest.raises(DataError, match=housing.SHA256):
        housing.content(place)
    with pytest.raises(DataError, match="No such file"):
        housing.content(tmp_path / "nothing.xz")
