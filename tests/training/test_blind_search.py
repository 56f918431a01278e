"""A blind search: one winner, and not a figure of another trial anywhere."""

import json
import struct

import pytest
import torch
from safetensors.torch import load

from dpsgd_explorer.experiments import kinds
from dpsgd_explorer.experiments.search_config import SearchConfig
from dpsgd_explorer.training.blind_search import BlindSearch, Trial
from dpsgd_explorer.training.dp_sgd import TrainingExperiment

SETTINGS = {
    "kind": "search",
    "dataset": "adult",
    "model": "logistic",
    "noise_multiplier": 2.0,
    "expected_batch_size": 64,
    "steps": 2,
    "evaluations": 2,
    "mean_trials": 1.0,
    "learning_rate_values": "0.5 2 8",
    "max_grad_norm_values": "0.1 0.5",
}


def config(**settings):
    return SearchConfig.parse(SETTINGS | settings)


def number_drawn(seed):
    return BlindSearch(config(seed=seed))._number


def contents(search):
    """The winner's weights, in the order of their names, and the header's texts."""
    data = search.weights_file()
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def seed_with(number):
    """The first seed that draws so many trials."""
    return next(seed for seed in range(200) if number_drawn(seed) == number)


@pytest.fixture(scope="module")
def search():
    """A search of three trials, carried out."""
    made = BlindSearch(config(seed=seed_with(3)))
    made.log = list(made.events())
    return made


def trained_alone(search, place):
    """A trial of the search as a training run of its own: its end."""
    seed = search._first_seed + place
    drawn = search.config.grid[search._drawn[place]]
    run = TrainingExperiment(search.config.trial(drawn, seed))
    *_, end = run.events()
    return end.data, run


def test_the_winner_is_the_best_of_the_trials_drawn(search):
    ends = [trained_alone(search, place)[0] for place in range(3)]
    scores = [end["test_accuracy"] for end in ends]
    place = scores.index(max(scores))
    end = search.log[-1].data
    shown = ("test_accuracy", "test_loss")
    assert [end[name] for name in shown] == [ends[place][name] for name in shown]
    assert end["winner"] == search.config.grid[search._drawn[place]]
    assert end["epsilon"] == search.config.price.epsilon


def test_its_log_holds_progress_and_the_winner_and_nothing_else(search):
    trainings = search.config.trainings
    assert [event.kind for event in search.log] == (
        ["phase"] + ["step"] * trainings + ["evaluation"] * 2 + ["end"]
    )
    steps = [event.timeless()[1] for event in search.log if event.kind == "step"]
    expected = [
        {"step": i, "epsilon": 0.0, "diagnostics": {}} for i in range(1, trainings + 1)
    ]
    assert steps == expected
    names = {"step", "epsilon", "trained", "test_accuracy", "test_loss"}
    shown = [event.timeless()[1] for event in search.log if event.kind == "evaluation"]
    assert all(data.keys() == names for data in shown)


@pytest.mark.long("real runs")
def test_no_figure_of_a_loser_is_in_the_log(search):
    """Exact digits of every training's loss: the winner's alone are there."""
    text = json.dumps([event.data for event in search.log])
    ends = [trained_alone(search, place)[0] for place in range(search.config.trainings)]
    shown = {repr(end["test_loss"]) for end in ends if repr(end["test_loss"]) in text}
    assert shown == {repr(search.log[-1].data["test_loss"])}


@pytest.mark.long("real runs")
def test_nothing_tells_how_many_trials_there_were(search):
    """Neither the number nor the seed of the winner, from which its place follows."""
    header = json.dumps(contents(search)[0])
    seeds = [str(search._first_seed + i) for i in range(search.config.trainings)]
    for text in (json.dumps([event.data for event in search.log]), header):
        assert not any(seed in text for seed in seeds)
        assert "batch_sizes" not in text
    same = BlindSearch(config(seed=seed_with(1)))
    assert [event.kind for event in same.events()] == [e.kind for e in search.log]


def test_the_receipt_names_the_price_of_the_choice_and_that_of_a_trial(search):
    receipt = search.log[-1].data["receipt"]
    price = search.config.price
    assert receipt["selection"]["epsilon"] == price.epsilon
    assert receipt["selection"]["status"] == "bound"
    assert receipt["trial"]["epsilon"] < price.epsilon
    assert "test records are not covered" in receipt["selection"]["chosen_by"]


def test_the_weights_are_the_winners(search):
    place = search._drawn.index(search.config.grid.index(search.log[-1].data["winner"]))
    _, run = trained_alone(search, place)
    for name, tensor in load(search.weights_file()).items():
        assert torch.equal(tensor, run.weights()[name])


@pytest.mark.long("real runs")
def test_a_draw_of_none_has_no_winner_and_trains_as_many(search):
    none = BlindSearch(config(seed=seed_with(0)))
    log = list(none.events())
    assert [e.kind for e in log] == ["phase"] + ["step"] * none.config.trainings + [
        "end"
    ]
    end = log[-1].data
    assert (end["winner"], end["reason"], end["test_accuracy"]) == (
        None,
        "no winner",
        None,
    )
    assert end["epsilon"] == none.config.price.epsilon
    assert none.weights_file() is None


def test_a_trial_without_finite_numbers_takes_all_its_steps():
    drawn = config().trial({"max_grad_norm": 1e6}, 1)
    trial = Trial(drawn.model_copy(update={"learning_rate": 3e38}))
    seen = [event.kind for event in trial.events()]
    assert trial.has_diverged
    assert trial.step == drawn.steps
    assert seen.count("evaluation") == 2
    assert Trial(trial.config, checkpoint=trial.checkpoint()).has_diverged


@pytest.mark.long("real runs")
def test_a_trial_without_finite_numbers_never_wins():
    search = BlindSearch(config(seed=seed_with(1)))
    search._advance()
    search._trial.has_diverged = True  # the only one that was drawn
    *_, end = search.events()
    assert (end.data["reason"], end.data["winner"]) == ("no winner", None)


@pytest.mark.long("real runs")
def test_a_search_killed_between_any_two_steps_of_a_trial_ends_the_same(search):
    whole = [event.timeless() for event in search.log]
    for pieces in (1, 2, 5, 9, 23):
        first = BlindSearch(search.config)
        seen = [next(first.events()).timeless()]
        for _ in range(pieces):
            if not first._waiting:
                first._advance()
        resumed = kinds.start(search.config, checkpoint=first.checkpoint())
        rest = [event.timeless() for event in resumed.events()]
        assert (resumed._number, resumed._drawn) == (search._number, search._drawn)
        assert seen + rest == whole
        assert contents(resumed) == contents(search)


@pytest.mark.long("real runs")
def test_the_numbers_of_many_searches_have_the_law():
    numbers = [number_drawn(seed) for seed in range(400)]
    mean = sum(numbers) / len(numbers)
    assert mean == pytest.approx(1.0, abs=5 / len(numbers) ** 0.5)
