"""The notebook on linear regression is valid, up to date, and gives golden values."""

import json

import nbformat
import numpy as np
import pytest

from tools.run_notebook import NOTEBOOK, run

pytestmark = pytest.mark.long("every example")
QUANTILES = ("0.05", "0.25", "0.5", "0.75", "0.95")


@pytest.fixture(scope="module")
def golden():
    path = NOTEBOOK.parents[1] / "tests" / "golden" / "regression.json"
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def executed():
    """Return the notebook with new outputs, and the variables at its end."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    variables = run(notebook)
    return notebook, variables


@pytest.fixture
def variables(executed):
    return executed[1]


def test_the_format_is_valid():
    nbformat.validate(nbformat.read(NOTEBOOK, as_version=nbformat.NO_CONVERT))


def test_the_stored_outputs_are_those_of_a_run(executed):
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert stored == executed[0], "run python -m tools.run_notebook"


def test_the_baselines_are_golden(variables, golden):
    data = golden["data"]
    wanted = [data["mse_nonprivate"], data["mse_trivial"]]
    assert [*variables["baselines"].values()] == pytest.approx(wanted, rel=1e-11)
    np.testing.assert_allclose(
        variables["least_squares"], data["theta_nonprivate"], rtol=1e-7
    )


@pytest.mark.parametrize("method", ["SSP", "AdaSSP"])
@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1.0", "2.0"])
def test_the_errors_of_the_releases_are_golden(variables, golden, method, epsilon):
    errors = variables["errors"][method.lower(), float(epsilon)]
    known = golden["ssp"][epsilon][method]["mse_200reps_legacy_seed0"]["quantiles"]
    wanted = [known[quantile] for quantile in QUANTILES]
    found = np.quantile(errors, [float(quantile) for quantile in QUANTILES])
    np.testing.assert_allclose(found, wanted, rtol=1e-8)


def test_tight_releases_have_smaller_errors(variables):
    for epsilon, errors in variables["tight"].items():
        notebook = variables["errors"]["adassp", epsilon]
        assert np.median(errors) < np.median(notebook)


@pytest.mark.parametrize(("noise", "key"), [(500, "large_noise"), (50, "small_noise")])
def test_the_descents_are_golden(variables, golden, noise, key):
    wanted = golden["noisygd"][key]
    path = variables["paths"][noise, "notebook"]
    assert path.steps[-1] == wanted["niter"]
    assert path.learning_rate == pytest.approx(wanted["lr"], rel=1e-12)
    median = np.median(path.mse[-1])
    # Medians of 64 descents, as the golden one: they differ by chance.
    assert median == pytest.approx(wanted["final_mse"]["median"], abs=0.003)
    released = variables["paths"][noise, "released"]
    assert released.rate_is_private
    assert released.epsilon <= 2.0


def test_the_release_at_the_end_is_within_its_budget(variables):
    release = variables["release"]
    assert 0.99 < release.epsilon <= 1.0
    assert np.isfinite(release.theta).all()


def test_the_chart_has_a_curve_for_each_method(variables):
    names = [curve.name for curve in variables["figure"].data]
    assert names == ["ssp", "adassp", "descent, noise 500", "descent, noise 50"]
    for curve in variables["figure"].data:
        assert np.isfinite(curve.y).all()
        assert len(curve.x) == len(curve.y) >= 50
