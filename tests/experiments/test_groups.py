"""What a group of runs may be; everything is checked before any run is made."""

import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.groups import (
    MOST_RUNS,
    PURPOSES,
    ROLES,
    RunGroup,
    role_of,
)

TABLE = {
    "dataset": "adult",
    "model": "logistic",
    "expected_batch_size": 1024,
    "steps": 4,
}
TWIN = (
    {"learning_rate": 4},
    {"noise_multiplier": 0, "learning_rate": 16},
    {"private": False, "learning_rate": 0.5},
)


def refused(purpose, variations, **base):
    with pytest.raises(ConfigError) as error:
        RunGroup.parse(purpose, TABLE | base, variations)
    return error.value


def test_a_sweep_varies_one_setting_and_keeps_all_others():
    group = RunGroup.parse("sweep", TABLE, [{"learning_rate": x} for x in (1, 2.5)])
    assert [config.learning_rate for config in group.configs] == [1, 2.5]
    assert [group.label(config) for config in group.configs] == ["η = 1", "η = 2.5"]
    rest = [c.model_dump(exclude={"learning_rate"}) for c in group.configs]
    assert rest[0] == rest[1]


def test_a_sweep_may_take_several_seeds_for_each_value():
    pairs = [(rate, seed) for seed in (1, 2) for rate in (1, 2.5)]
    group = RunGroup.parse(
        "sweep", TABLE, [{"learning_rate": rate, "seed": seed} for rate, seed in pairs]
    )
    assert (group.setting, group.repeats_values) == ("learning_rate", True)
    assert [(c.learning_rate, c.seed) for c in group.configs] == pairs
    names = [group.label(config) for config in group.configs]
    assert names[1:3] == ["η = 2.5, seed 1", "η = 1, seed 2"]
    assert not RunGroup.parse("sweep", TABLE, [{"seed": 1}, {"seed": 2}]).repeats_values


def test_a_fault_of_several_runs_is_said_once():
    seeds = [{"learning_rate": x, "seed": s} for s in (1, 2) for x in (-1, 4)]
    error = refused("sweep", seeds)
    assert str(error).count("must be greater than 0") == 1
    assert "runs 1, 3: learning_rate must be" in str(error)


@pytest.mark.parametrize(
    ("name", "values", "cleared"),
    [
        ("noise_multiplier", (1.0, 2.0), "target_epsilon"),
        ("target_epsilon", (1.0, 2.0), "noise_multiplier"),
        ("epochs", (1.0, 2.0), "steps"),
    ],
)
def test_a_value_takes_the_place_of_the_setting_that_excludes_it(name, values, cleared):
    base = {"noise_multiplier": 3.0} if name == "target_epsilon" else {}
    group = RunGroup.parse("sweep", TABLE | base, [{name: value} for value in values])
    assert [getattr(config, name) for config in group.configs] == list(values)
    assert {getattr(config, cleared) for config in group.configs} == {None}


def test_every_value_that_is_out_of_bounds_is_named():
    error = refused("sweep", [{"learning_rate": x} for x in (-1, 4, 1e9)])
    assert error.field == "variations"
    assert "run 1: learning_rate must be greater than 0, got -1." in str(error)
    assert "run 3: learning_rate must be at most 10000, got" in str(error)
    assert "run 2" not in str(error)


@pytest.mark.parametrize("number", [0, 1, MOST_RUNS + 1])
def test_the_number_of_runs_is_bounded(number):
    error = refused("sweep", [{"learning_rate": i + 1} for i in range(number)])
    assert f"must be 2 to {MOST_RUNS}" in str(error)
    assert f"got {number}" in str(error)


@pytest.mark.parametrize(
    ("purpose", "variations", "says"),
    [
        ("sweep", ({"learning_rate": 1}, {"momentum": 0.5}), "same one setting"),
        ("sweep", ({"learning_rate": 1}, {}), "same one setting"),
        ("sweep", ({"delta": 1e-6, "seed": 1}, {"delta": 1e-5}), "same one setting"),
        ("sweep", ({"lr": 1}, {"lr": 2}), "variations must be one of accountant"),
        ("sweep", ({"kind": "training"}, {"kind": "engines"}), "must be one of"),
        ("sweep", ({"learning_rate": 1}, {"learning_rate": 1.0}), "runs 1, 2 would be"),
        ("seeds", ({"learning_rate": 1}, {"learning_rate": 2}), "set the seed"),
        ("twin", TWIN[:2], "private, clipped only, ordinary"),
        ("twin", TWIN[::-1], "in this order"),
        ("twin", (*TWIN[:2], TWIN[2] | {"momentum": 0}), "got others in momentum"),
        ("best", TWIN, "purpose must be one of sweep, seeds, twin, got 'best'"),
    ],
)
def test_what_is_no_group_is_refused(purpose, variations, says):
    assert says in str(refused(purpose, list(variations)))


def test_a_fault_of_the_base_names_its_setting():
    assert refused("seeds", [{"seed": 1}, {"seed": 2}], delta=1).field == "delta"


def test_a_twin_has_one_run_of_each_kind_and_takes_all_steps():
    group = RunGroup.parse("twin", TABLE, TWIN)
    assert tuple(role_of(config) for config in group.configs) == ROLES
    assert [config.learning_rate for config in group.configs] == [4, 16, 0.5]
    assert [config.plan.is_private for config in group.configs] == [True, False, False]
    assert refused("twin", TWIN, stop_at_epsilon=0.5).field == "stop_at_epsilon"
    assert "clipped only, clipped only" in str(
        refused("twin", TWIN, noise_multiplier=0)
    )


def test_each_run_of_a_group_has_a_name_of_its_own():
    cases = {
        "sweep": [{"clipping_fn": name} for name in ("Abadi", "automatic")],
        "seeds": [{"seed": 1}, {"seed": 2}],
        "twin": TWIN,
    }
    assert set(cases) == set(PURPOSES)
    for purpose, variations in cases.items():
        group = RunGroup.parse(purpose, TABLE, variations)
        names = [group.label(config) for config in group.configs]
        assert len(set(names)) == len(variations)
        assert all(0 < len(name) <= 60 for name in names)
