import json
import math

import pytest
import torch
import torch.nn.functional as F

from dpsgd_explorer.dp.noise.seeded import seeded_generator
from dpsgd_explorer.dp.sampling.sampler import PoissonSampler
from dpsgd_explorer.errors import DivergedError
from dpsgd_explorer.experiments.architecture import PRE_TRAINED
from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.experiments.data_files.sets import FETCHED
from dpsgd_explorer.experiments.experiment import PerformanceSettings
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.settings import KERNELS
from dpsgd_explorer.training import models
from dpsgd_explorer.training.datasets.registry import load
from dpsgd_explorer.training.dp_sgd import TrainingExperiment, train

SAME = 1e-6  # relative: two evaluations of one ε
PAIRS = [
    (model, data)
    for model in MODELS
    for data in MODELS[model].parameters
    if data not in FETCHED  # the files may not be here
    and model != PRE_TRAINED  # test_language_model.py, with few test records
]
DIAGNOSTICS = {
    "loss",
    "batch_size",
    "clipped_fraction",
    "norm_counts",
    "noise_to_signal",
    "non_finite",
}
KEYS = {
    "phase": {
        "step",
        "sample_rate",
        "noise_multiplier",
        "max_grad_norm",
        "expected_batch_size",
        "steps",
        "sample_size",
        "delta",
        "accountant",
        "private",
        "norm_edges",
        "status",
    },
    "step": {"step", "epsilon", "seconds", "diagnostics"},
    "evaluation": {"step", "epsilon", "seconds", "test_accuracy", "test_loss"},
    "model": {
        "step",
        "epsilon",
        "seconds",
        "weights",
        "features",
        "confusion",
        "groups",
        "misread",
        "pictures",
    },
    "end": {
        "step",
        "epsilon",
        "seconds",
        "test_accuracy",
        "test_loss",
        "delta",
        "reason",
        "receipt",
        "audit",
    },
}


def timeless(events):
    return [event.timeless() for event in events]


def of_kind(events, kind):
    return [event.data for event in events if event.kind == kind]


def by_hand(config):
    """Train a linear model on Adult with gradients in closed form, without noise.

    A sample's gradient is (p - y) ⊗ (x, 1), so its norm is |p - y| √(|x|² + 1).
    Returns the mean test loss.
    """
    train_part, test_part = load("adult")
    seed = seeded_generator(config.seed, "initialisation").initial_seed()
    weight, bias = models.build("logistic", "adult", seed).parameters()
    theta = torch.cat([weight, bias[:, None]], dim=1).detach().double()  # [2, D + 1]
    momentum = torch.zeros_like(theta)
    sampler = PoissonSampler(config.plan, seeded_generator(config.seed, "sampling"))
    for indices in sampler.all_epochs():
        x = F.pad(train_part.inputs[indices].double(), (0, 1), value=1.0)
        y = F.one_hot(train_part.targets[indices], 2)
        error = torch.softmax(x @ theta.T, dim=1) - y
        if config.private:
            norms = error.norm(dim=1) * x.norm(dim=1)
            error *= (config.max_grad_norm / norms).clamp(max=1)[:, None]
        gradient = error.T @ x / config.expected_batch_size
        momentum = config.momentum * momentum + gradient
        theta -= config.learning_rate * momentum
    x = F.pad(test_part.inputs.double(), (0, 1), value=1.0)
    return float(F.cross_entropy(x @ theta.T, test_part.targets))


@pytest.mark.parametrize("private", [True, False])
def test_a_run_learns_what_a_loop_by_hand_learns(adult, private):
    config = adult(noise_multiplier=0.0, private=private, steps=6, learning_rate=4.0)
    end = list(train(config))[-1].data
    assert end["test_loss"] == pytest.approx(by_hand(config), rel=1e-5)


def test_noise_moves_the_model(adult):
    quiet, loud = (list(train(adult(noise_multiplier=s)))[-1].data for s in (0.0, 5.0))
    assert quiet["test_loss"] != pytest.approx(loud["test_loss"], rel=1e-3)


@pytest.mark.parametrize("private", [True, False])
def test_events_come_in_order_with_the_keys_of_the_table(adult, private):
    events = list(train(adult(private=private)))
    kinds = [event.kind for event in events]
    tested = ["evaluation", "model"]
    assert kinds == ["phase", "model", "step", *tested, *["step"] * 3, *tested, "end"]
    for event in events:
        assert event.data.keys() == KEYS[event.kind]
    for step in of_kind(events, "step"):
        assert step["diagnostics"].keys() == DIAGNOSTICS
    assert [step["step"] for step in of_kind(events, "step")] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"private": False},
        {"noise_multiplier": 0.0},
        {"expected_batch_size": 1, "steps": 12},
        {"target_epsilon": 1.0},
        {"optimizer": "adam", "learning_rate": 0.01},
        {"clipping_fn": "automatic"},
    ],
    ids=str,
)
def test_events_are_json_without_nan_and_come_back_from_it(adult, settings):
    for event in train(adult(**settings)):
        assert json.loads(json.dumps(event.data, allow_nan=False)) == event.data


def test_epsilon_is_the_plans_at_each_step(adult):
    config = adult(noise_multiplier=2.0)
    events = list(train(config))
    for event in events[1:]:
        step = event.data["step"]
        spent = pytest.approx(config.plan.epsilon(step), rel=SAME)
        assert event.data["epsilon"] == spent
    end = events[-1].data
    assert end["epsilon"] == pytest.approx(end["receipt"]["epsilon"], rel=SAME)


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({"noise_multiplier": 2.0}, "exact"),
        ({"noise_multiplier": 2.0, "accountant": "gdp"}, "approximation"),
        ({"noise_multiplier": 0.05, "expected_batch_size": 1}, "bound"),
        ({"noise_multiplier": 0.0}, "not private"),
        ({"private": False}, "not private"),
    ],
    ids=str,
)
def test_the_log_opens_with_what_kind_of_answer_its_epsilon_is(adult, settings, status):
    phase = next(train(adult(**settings))).data
    assert phase["status"] == status


def test_a_target_is_never_exceeded(adult):
    events = list(train(adult(target_epsilon=0.7, steps=9)))
    assert 0.65 < events[-1].data["epsilon"] <= 0.7


@pytest.mark.parametrize(
    "settings", [{"private": False}, {"noise_multiplier": 0.0}], ids=str
)
def test_without_noise_no_epsilon_is_claimed(adult, settings):
    events = list(train(adult(**settings)))
    assert {event.data["epsilon"] for event in events[1:]} == {None}


def test_a_run_without_privacy_is_told_as_such(adult):
    events = list(train(adult(private=False)))
    phase, end = events[0].data, events[-1].data
    told = [phase[name] for name in ("private", "noise_multiplier", "norm_edges")]
    assert told == [False, None, None]
    assert end["receipt"] is None


def test_the_receipt_tells_what_was_done(adult):
    config = adult(steps=3, noise_multiplier=1.5)
    [line] = list(train(config))[-1].data["receipt"]["done"]
    assert (line["steps"], line["noise_draws"]) == (3, 3)
    assert line["noise_multiplier"] == pytest.approx(1.5)
    assert (line["max_grad_norm"], line["divisor"]) == (0.5, 64)


def test_a_run_for_all_accountants_is_the_exact_ones_and_reports_each(adult):
    config = adult(steps=3, accountant="all")
    events = list(train(config))
    assert timeless(events)[:-1] == timeless(train(adult(steps=3)))[:-1]
    end = events[-1].data
    assert end["receipt"]["epsilons"]["exact"] == pytest.approx(end["epsilon"])
    assert end["receipt"]["epsilons"]["rdp"] > end["epsilon"]


def test_a_private_run_and_its_twin_draw_the_same_batches(adult):
    sizes = [
        [step["diagnostics"]["batch_size"] for step in of_kind(train(config), "step")]
        for config in (adult(), adult(private=False))
    ]
    assert sizes[0] == sizes[1]


def test_diagnostics_describe_the_batch(adult):
    for step in of_kind(train(adult(max_grad_norm=0.3)), "step"):
        seen = step["diagnostics"]
        assert sum(seen["norm_counts"]) == seen["batch_size"] > 0
        clipped = sum(seen["norm_counts"][20:]) / seen["batch_size"]
        assert seen["clipped_fraction"] == pytest.approx(clipped)
        assert 0 < seen["loss"] < 2
        assert seen["non_finite"] == 0


def test_the_first_loss_is_that_of_the_model_before_it_learned(adult):
    config = adult(steps=1)
    [step] = of_kind(train(config), "step")
    seed = seeded_generator(config.seed, "initialisation").initial_seed()
    model, (records, _) = models.build("logistic", "adult", seed), load("adult")
    sampler = PoissonSampler(config.plan, seeded_generator(config.seed, "sampling"))
    drawn = next(iter(sampler))
    expected = F.cross_entropy(model(records.inputs[drawn]), records.targets[drawn])
    assert step["diagnostics"]["loss"] == pytest.approx(expected.item(), rel=1e-6)


def test_an_empty_batch_is_a_step_like_any_other(adult):
    config = adult(expected_batch_size=1, steps=12)
    steps = of_kind(train(config), "step")
    sizes = [step["diagnostics"]["batch_size"] for step in steps]
    assert 0 in sizes
    empty = steps[sizes.index(0)]["diagnostics"]
    assert (empty["loss"], empty["clipped_fraction"]) == (None, None)
    assert sum(empty["norm_counts"]) == 0
    assert [step["epsilon"] for step in steps] == config.plan.epsilons(range(1, 13))


def test_stop_at_epsilon_ends_before_the_step_that_would_exceed_it(adult):
    config = adult(expected_batch_size=2048, steps=60, stop_at_epsilon=2.0)
    events = list(train(config))
    end = events[-1].data
    assert (end["reason"], 0 < end["step"] < 60) == ("stop_at_epsilon", True)
    assert end["epsilon"] <= 2.0 < config.plan.epsilon(end["step"] + 1)
    assert of_kind(events, "evaluation")[-1]["step"] == end["step"]
    assert end["receipt"]["done"][0]["steps"] == end["step"]


def test_a_limit_below_the_first_step_ends_the_run_with_the_untrained_model(adult):
    kinds = [event.kind for event in train(adult(stop_at_epsilon=1e-4))]
    assert kinds == ["phase", "model", "evaluation", "model", "end"]


def test_a_finished_run_says_so(adult):
    end = list(train(adult()))[-1].data
    assert (end["reason"], end["step"], end["delta"]) == ("finished", 4, 1e-5)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize(("model", "dataset"), PAIRS)
def test_the_same_configuration_and_seed_give_the_same_events(model, dataset, private):
    config = short(model, dataset, private=private)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        first = timeless(train(config))
        torch.manual_seed(2)
        assert timeless(train(config)) == first


def test_another_seed_gives_other_events(adult):
    assert timeless(train(adult(seed=1))) != timeless(train(adult(seed=2)))


def test_a_run_leaves_torchs_generator_and_threads_alone(adult):
    before = torch.get_rng_state(), torch.get_num_threads()
    performance = PerformanceSettings(num_threads=before[1] + 1)
    for _ in train(adult(), performance=performance):
        assert torch.get_num_threads() == before[1]
    assert torch.equal(torch.get_rng_state(), before[0])


def test_threads_change_nothing_but_rounding(adult):
    config = adult(expected_batch_size=4096)
    one, two = (
        list(train(config, performance=PerformanceSettings(num_threads=count)))
        for count in (1, 2)
    )
    for a, b in zip(one[1:], two[1:], strict=True):
        assert (a.kind, a.data["epsilon"]) == (b.kind, b.data["epsilon"])
    assert one[-1].data["test_loss"] == pytest.approx(
        two[-1].data["test_loss"], rel=1e-5
    )


@pytest.mark.parametrize("private", [True, False])
def test_the_exact_pieces_change_no_bit(private):
    config = short("cnn", "mnist", private=private)
    exact, off, fast = (
        timeless(train(config, performance=PerformanceSettings(kernels=pieces)))
        for pieces in ("exact", "off", "fast")
    )
    assert exact == off
    assert fast[-1][1]["test_loss"] == pytest.approx(off[-1][1]["test_loss"], rel=1e-3)


@pytest.mark.parametrize("pieces", KERNELS)
def test_a_run_switches_the_pieces_off_between_events(adult, pieces):
    before = torch.backends.mkldnn.matmul.fp32_precision
    training = TrainingExperiment(
        adult(), performance=PerformanceSettings(kernels=pieces)
    )
    for _ in training.events():
        assert torch.backends.mkldnn.matmul.fp32_precision == before
    assert training.events_emitted > 1


@pytest.mark.parametrize("private", [True, False])
def test_a_run_that_diverges_fails_with_the_reason_and_a_hint(adult, private):
    config = adult(
        private=private, learning_rate=1e4, max_grad_norm=1e6, momentum=0.99, steps=400
    )
    huge = config.model_copy(update={"learning_rate": 1e37})
    events = []
    with pytest.raises(DivergedError, match=r"after step \d+ .* Lower learning_rate"):
        events.extend(train(huge))
    for event in events:
        json.dumps(event.data, allow_nan=False)


def test_parameters_that_overflow_end_the_run_at_once(adult):
    config = adult(max_grad_norm=1e6).model_copy(update={"learning_rate": 3e38})
    seen = []
    with pytest.raises(DivergedError, match=r"after step 1 its parameter 1\.weight"):
        seen.extend(train(config))
    assert [event.kind for event in seen] == ["phase"]


def test_seconds_count_from_the_start_and_never_fall(adult):
    seconds = [event.data["seconds"] for event in list(train(adult()))[1:]]
    assert seconds == sorted(seconds)
    assert all(0 <= value < math.inf for value in seconds)


def short(model, dataset, **settings):
    """A run of three small steps and one evaluation."""
    given = {"noise_multiplier": 1.0, "steps": 3, "evaluations": 1}
    given |= {"model": model, "dataset": dataset, "expected_batch_size": 12}
    return TrainingConfig.parse(given | settings)
