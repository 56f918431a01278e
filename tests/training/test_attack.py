"""An attack as a run: who is in what, what is trained on whom, and what comes out."""

import itertools
from functools import cache

import pytest
import torch

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.errors import DataError
from dpsgd_explorer.experiments.attack_config import POOL, AttackConfig
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training import attack as training_attack
from dpsgd_explorer.training.attack import Attack, label_logits
from dpsgd_explorer.training.datasets import adult, registry

SHADOWS = 4
TINY = AttackConfig(dataset="adult", shadows=SHADOWS, canary=5, steps=6)


@pytest.fixture(scope="module")
def events():
    return list(Attack(TINY).events())


def data_of(events, kind):
    return [event.data for event in events if event.kind == kind]


def test_every_model_is_trained_once_and_both_targets_first(events):
    told = [step["diagnostics"] for step in data_of(events, "step")]
    order = [(one["shadow"], one["private"]) for one in told]
    assert order == list(itertools.product(range(SHADOWS + 1), (False, True)))
    assert all(0 <= one["test_accuracy"] <= 1 for one in told)


def test_epsilon_is_that_of_the_private_target_from_its_release_on(events):
    spent = [step["epsilon"] for step in data_of(events, "step")]
    assert spent[0] == 0
    assert set(spent[1:]) == {TINY.plan.epsilon()}
    assert data_of(events, "end")[0]["epsilon"] <= TINY.target_epsilon


def test_coins_part_the_pool_and_every_record_is_in_half_of_the_shadows(events):
    coins = Attack(TINY)._coins
    [phase] = data_of(events, "phase")
    assert phase["members"] == int(coins[0].sum())
    assert phase["members"] + phase["others"] == POOL
    # six standard deviations of fair coins
    assert abs(phase["members"] - POOL / 2) < 6 * (POOL / 4) ** 0.5
    assert (coins[1:].sum(dim=0) == SHADOWS // 2).all()


def test_the_record_that_is_followed_has_the_planted_label_and_its_coin(events):
    attack = Attack(TINY)
    [phase] = data_of(events, "phase")
    own = int(registry.load("adult")[0].targets[5])
    assert phase["record"] == {
        "index": 5,
        "label": own,
        "planted": 1 - own,
        "joined": bool(attack._coins[0, 5]),
        "picture": None,
    }
    assert int(attack._targets[5]) == 1 - own
    assert int(registry.load("adult")[0].targets[5]) == own  # the data set is untouched
    [end] = data_of(events, "end")
    for target in ("ordinary", "private"):
        assert len(end["record"][target]["joined"]) == SHADOWS // 2
        assert len(end["record"][target]["left_out"]) == SHADOWS // 2


@pytest.mark.parametrize("private", [False, True])
def test_a_record_that_is_not_in_leaves_no_trace_in_the_model(private):
    honest, changed = Attack(TINY), Attack(TINY)
    left_out = ~changed._coins[0]
    changed._inputs = changed._inputs.clone()
    changed._inputs[left_out] = 3.0
    changed._targets[left_out] = 1 - changed._targets[left_out]
    pairs = zip(
        honest._trained(0, private).parameters(),
        changed._trained(0, private).parameters(),
        strict=True,
    )
    assert all(torch.equal(a, b) for a, b in pairs)
    changed._inputs[~left_out] += 3.0
    other = next(changed._trained(0, private).parameters())
    assert not torch.equal(next(honest._trained(0, private).parameters()), other)


def test_each_attack_is_judged_on_either_model_and_the_private_by_its_ceiling(events):
    found = data_of(events, "evaluation")
    judged = [(one["target"], one["attack"], one["above"] is None) for one in found]
    names = ("loss", "likelihood_ratio", "relative_likelihood")
    assert judged == [
        *(("ordinary", name, True) for name in names),
        *(("private", name, False) for name in names),
    ]
    for one in found:
        assert 0 <= one["area"] <= 1
        assert 0 <= one["record"]["reached_by"] <= 1
        rates = [point["false_positive_rate"] for point in one["points"]]
        assert rates == sorted(rates)
        assert one["points"][-1]["true_positive_rate"] == 1
        for point in one["points"]:
            assert point["low"] <= point["true_positive_rate"] <= point["high"]
    [end] = data_of(events, "end")
    assert end["area"] == found[4]["area"]


def test_the_ceiling_rises_from_delta_to_one_and_is_above_guessing(events):
    [phase] = data_of(events, "phase")
    rates = phase["ceiling"]["false_positive_rates"]
    most = phase["ceiling"]["true_positive_rates"]
    assert most == sorted(most)
    assert all(rate < high <= 1 for rate, high in zip(rates[:-1], most, strict=False))
    assert most[-1] == 1


@pytest.mark.parametrize("count", [0, 1, 4, 9, 15])
def test_an_attack_that_was_killed_goes_on_with_the_very_next_event(events, count):
    run = Attack(TINY)
    list(itertools.islice(run.events(), count))
    resumed = Attack(TINY, checkpoint=run.checkpoint())
    rest = [event.timeless() for event in resumed.events()]
    assert rest == [event.timeless() for event in events[count:]]


def test_a_data_set_that_is_gone_is_named(tmp_path, monkeypatch):
    gone = registry.Loader(lambda: adult.load(tmp_path), adult.TRAIN, adult.TEST)
    monkeypatch.setitem(registry.LOADERS, "adult", gone)
    monkeypatch.setattr(registry, "_read", cache(registry._read.__wrapped__))
    with pytest.raises(DataError, match=r"adult\.\w+"):
        Attack(TINY)


def test_the_logit_of_a_label_loses_no_digit_where_it_is_nearly_certain():
    scores = torch.tensor([[60.0, 0.0, 0.0], [0.0, 1.0, 2.0]], dtype=torch.float64)
    found = label_logits(scores, torch.tensor([0, 1]))
    share = scores[1].softmax(dim=0)[1]
    expected = [60.0 - torch.tensor(2.0).double().log(), share.logit()]
    torch.testing.assert_close(
        found, torch.stack([torch.as_tensor(x) for x in expected])
    )


@pytest.mark.parametrize(
    ("dataset", "model", "width"),
    [
        ("mnist", "scattering_linear", (1225,)),
        ("mnist", "cnn", (1, 28, 28)),
        ("signals", "conv1d", (1, 40)),
        ("housing", "logistic", (53,)),
        ("mnist", "hidden", (784,)),
    ],
)
def test_what_is_trained_is_the_model_that_was_asked_for(dataset, model, width):
    attack = Attack(AttackConfig(dataset=dataset, model=model, shadows=SHADOWS))
    attack._prepare()
    assert attack._inputs.shape == (POOL, *width)
    built = attack._built(1)
    assert built(attack._inputs[:2]).shape == (2, attack.config.data_set.classes)
    if model != "hidden":
        layers = TrainingConfig(dataset=dataset, model=model).parameters
        assert sum(p.numel() for p in built.parameters()) == layers


def test_a_run_s_settings_reach_every_training(monkeypatch):
    config = AttackConfig(
        dataset="adult",
        model="logistic",
        shadows=SHADOWS,
        steps=3,
        expected_batch_size=60,
        max_grad_norm=0.3,
        learning_rate=2.0,
        momentum=0.0,
        clipping_fn="automatic",
    )
    built = []

    class Watched(PrivacyEngine):
        def __init__(self, module, **options):
            built.append(options)
            super().__init__(module, **options)

    monkeypatch.setattr(training_attack, "PrivacyEngine", Watched)
    *_, end = Attack(config).events()
    assert end.data["epsilon"] <= config.target_epsilon
    assert len(built) == 1 + SHADOWS
    for options in built:
        assert options["plan"] == config.plan
        assert options["plan"].sample_rate == 0.1
        assert (options["max_grad_norm"], options["clipping_fn"]) == (0.3, "automatic")
