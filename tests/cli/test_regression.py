import json

import pytest

from dpsgd_explorer.accounting import gaussian_epsilon
from dpsgd_explorer.cli.main import main
from dpsgd_explorer.cli.regression import parse_bounds
from dpsgd_explorer.regression.spending import spent

PRICE = ["--epsilon", "1", "--delta", "1e-5"]


BOUNDS = ["--y-bound", "2", "--x-bound", "1.5"]
DESCENT = [*BOUNDS, "--method", "noisy_gd", "--steps", "5"]


@pytest.fixture
def own_table(tmp_path):
    rows = "\n".join(f"{i % 10},{i % 7},{(i % 10) / 5}" for i in range(10_000))
    place = tmp_path / "own.csv"
    place.write_text(f"rooms,age,price\n{rows}\n")
    return ["--csv", str(place), "--target", "price", "--bounds", "rooms=10,age=10"]


def told(capsys, *options):
    code = main(["regression", *options])
    return code, capsys.readouterr()


def test_california_housing_is_released_without_more_words(capsys):
    code, said = told(capsys, "--epsilon", "1", "--delta", "1e-6")
    assert code == 0
    assert "MedInc" in said.out
    assert "adassp, ε = 1.0000 (exact), δ = 1e-06, add_or_remove_one" in said.out
    assert "owner of the data only" in said.err
    assert "owner" not in said.out


@pytest.mark.parametrize("method", ["ssp", "adassp", "noisy_gd"])
def test_ones_own_table_is_released_by_each_method(capsys, own_table, method):
    options = [*BOUNDS, "--method", method, "--json"]
    extra = ["--steps", "50", "--public-size", "10000"] if method == "noisy_gd" else []
    code, said = told(capsys, *own_table, *options, *PRICE, *extra)
    answer = json.loads(said.out)
    assert code == 0
    assert set(answer["theta"]) == {"rooms", "age"}
    assert 0.99 < answer["epsilon"] <= 1
    assert answer["is_private"]
    assert answer["theta"]["rooms"] == pytest.approx(2, abs=0.5)


@pytest.mark.parametrize(
    ("given", "follows"),
    [
        (["--steps", "50", "--epsilon", "1"], "noise_multiplier"),
        (["--noise-multiplier", "40", "--epsilon", "1"], "steps"),
        (["--noise-multiplier", "40", "--steps", "50"], "epsilon"),
    ],
    ids=["noise", "steps", "epsilon"],
)
def test_noise_steps_and_epsilon_follow_from_each_other(
    capsys, own_table, given, follows
):
    options = [*BOUNDS, "--method", "noisy_gd", "--learning-rate", "released", *given]
    code, said = told(capsys, *own_table, *options, "--delta", "1e-5", "--json")
    assert code == 0
    answer = json.loads(said.out)
    noise, steps, rate = (
        answer["descent"][name]
        for name in ("noise_multiplier", "steps", "rate_noise_multiplier")
    )
    whole = gaussian_epsilon(
        delta=1e-5, noise_multiplier=(steps / noise**2 + rate**-2) ** -0.5
    )
    assert answer["epsilon"] == pytest.approx(whole, rel=1e-9)
    if follows != "epsilon":
        assert answer["epsilon"] <= 1
        fewer = spent(noise * (1 - 1e-6), steps + (follows == "steps"), 1e-5, rate)
        assert fewer > 1


@pytest.mark.parametrize("method", ["ssp", "adassp"])
def test_a_budget_that_nothing_follows_from_must_be_stated(capsys, own_table, method):
    code, said = told(
        capsys, *own_table, *BOUNDS, "--method", method, "--delta", "1e-5"
    )
    assert code == 2
    assert f"--epsilon must be stated for {method}" in said.err


def test_a_seed_repeats_and_is_called_not_private(capsys, own_table):
    options = [*own_table, *BOUNDS, "--seed", "3", *PRICE]
    first, again = (told(capsys, *options)[1].out for _ in range(2))
    assert first == again
    assert "not private" in first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--x-bound", "1.5"], "--y-bound must be stated"),
        (["--y-bound", "2", "--x-bound", "0.9"], "row 10 has norm"),
        (
            ["--y-bound", "2", "--x-bound", "0.9"],
            "or shorten these rows with --rows clip.",
        ),
        (["--y-bound", "1", "--x-bound", "1.5"], "no row may exceed --y-bound 1"),
        (["--y-bound", "2", "--bounds", "rooms=10"], "missing: age"),
        (["--y-bound", "2", "--bounds", "rooms=x,age=1"], "must be NAME=NUMBER"),
        (["--y-bound", "2", "--bounds", "rooms=9 to 1,age=1"], "LEAST to MOST"),
        (["--y-bound", "2", "--bounds", "rooms=1 to 2 to 3,age=1"], "LEAST to MOST"),
        (["--y-bound", "2", "--bounds", "rooms=-9,age=1"], "above 0"),
        (["--y-bound", "2", "--bounds", "rooms=nan,age=1"], "above 0"),
        (["--y-bound", "2", "--bounds", "age=1,rooms=9,age=2"], "once: age"),
        (
            ["--y-bound", "2", "--target", "size"],
            ": --target must be one of rooms",
        ),
        (["--y-bound", "2", "--x-bound", "-1"], ": --x-bound must be greater than 0"),
        ([*BOUNDS, "--epsilon", "0"], ": --epsilon must be"),
        ([*BOUNDS, "--delta", "1"], ": --delta must be"),
        ([*BOUNDS, "--delta", "0.9"], "--delta must be below 1/n = 1/10000, got 0.9"),
        ([*DESCENT, "--delta", "1e-4"], "Take a smaller delta, such as 1e-05."),
        ([*BOUNDS, "--ridge-factor", "-1"], ": --ridge-factor must be"),
        (
            [*BOUNDS, "--method", "noisy_gd"],
            "two of --noise-multiplier, steps",
        ),
        ([*DESCENT, "--learning-rate", "quick"], "public, notebook, released, got"),
        ([*DESCENT, "--learning-rate", "notebook"], "must not come from the data"),
    ],
)
def test_a_mistake_is_told_in_one_line(capsys, own_table, options, message):
    code, said = told(capsys, *own_table, *PRICE, *options)
    assert code == 2
    assert message in said.err
    assert len(said.err.splitlines()) == 1
    assert said.out == ""


def test_clipping_is_counted_and_explained_to_the_owner(capsys, own_table):
    options = ["--y-bound", "1", "--x-bound", "0.5", "--rows", "clip"]
    code, said = told(capsys, *own_table, *options, *PRICE)
    assert code == 0
    assert "rows were longer than 0.5 and were scaled down; 4000 labels" in said.err
    assert "and then scaled down to norm 0.5." in said.out


def test_a_descent_that_diverges_is_told_so(capsys, own_table):
    options = [*BOUNDS, "--method", "noisy_gd", "--steps", "900"]
    code, said = told(capsys, *own_table, *options, *PRICE, "--learning-rate", "9")
    assert code == 1
    assert "--learning-rate 9 is too large" in said.err


def test_collinear_columns_are_told_to_the_owner(capsys, tmp_path):
    place = tmp_path / "twice.csv"
    place.write_text("a,b,y\n" + "0.2,0.4,1\n0.1,0.2,0.5\n" * 50)
    options = ["--csv", str(place), "--target", "y", "--bounds", "a=1,b=1"]
    code, said = told(capsys, *options, "--y-bound", "1", *PRICE)
    assert code == 0
    assert "2 columns have rank 1 only" in said.err


def test_the_size_of_the_shipped_table_is_public(capsys):
    rate = ["--method", "noisy_gd", "--steps", "5", "--learning-rate", "public"]
    code, said = told(capsys, *rate, "--epsilon", "1", "--delta", "1e-6")
    assert code == 0, said.err
    assert "5 steps with" in said.out


def test_epsilon_and_noise_give_the_steps_as_the_help_says(capsys):
    known = ["--method", "noisy_gd", "--epsilon", "2", "--noise-multiplier", "50"]
    code, said = told(capsys, *known, "--learning-rate", "1e-7", "--delta", "1e-6")
    assert code == 0, said.err
    with pytest.raises(SystemExit):
        main(["regression", "--help"])
    wanted = "two of --epsilon, --steps and --noise-multiplier"
    assert wanted in " ".join(capsys.readouterr().out.split())


def test_a_range_counts_with_its_farther_end():
    names = ("age", "change")
    assert parse_bounds("age=18 to 80,change=-5 to 3", names) == (80.0, 5.0)
