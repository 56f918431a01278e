"""Three-way twin: the recorded runs are the command's, and the split is theirs."""

from statistics import mean

import pytest

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.hub.widgets.three_way_twin import record as command
from dpsgd_explorer.web.hub.widgets.three_way_twin import widget
from dpsgd_explorer.web.recorded.runs import recorded

KINDS = tuple(widget.KINDS)
CHOICES = pytest.mark.parametrize("choice", widget.choices(), ids=lambda c: c.name)


def test_the_runs_are_those_of_the_command_tuned_with_other_seeds():
    stored = widget.stored()
    assert stored["kinds"] == command.KINDS
    assert tuple(stored["seeds"]) == command.SEEDS
    tuning = stored["tuning"]
    assert tuple(tuning["seeds"]) == command.TUNING_SEEDS
    assert not set(command.SEEDS) & set(command.TUNING_SEEDS)
    for kind in KINDS:
        tried = tuning["test_accuracy"][kind]
        assert tuple(map(float, tried)) == command.RATES[kind]
        assert all(len(ends) == len(command.TUNING_SEEDS) for ends in tried.values())
        assert command.best_rate(kind, tried) == stored["own_rates"][kind]
    settings = command.STRICT.config | {"evaluations": command.EVALUATIONS}
    config = TrainingConfig.parse(stored["config"])
    assert config == TrainingConfig.parse(settings)
    assert stored["steps"] == config.evaluation_steps
    for rates in stored["test_accuracy"].values():
        assert sorted(map(float, rates)) == sorted(stored["own_rates"].values())
        for runs in rates.values():
            assert [len(run) for run in runs] == [len(stored["steps"])] * len(
                command.SEEDS
            )


@pytest.mark.parametrize(
    ("kind", "slug"), [("private", "mnist-strict"), ("ordinary", "mnist-strict-twin")]
)
def test_twins_end_where_the_runs_of_the_landing_page_do(kind, slug):
    """The same settings and seed, recorded apart."""
    run = recorded(slug)
    assert run.config.learning_rate == widget.own_rate(kind)
    place = widget.stored()["seeds"].index(run.config.seed)
    end = widget.choices()[0].ends(kind)[place]
    assert end == pytest.approx(run.summary["test_accuracy"], abs=5e-4)


def test_a_rate_at_an_end_of_its_grid_is_refused():
    first = f"{command.RATES['private'][0]:g}"
    with pytest.raises(ValueError, match="at an end of its grid"):
        command.best_rate("private", {first: [0.9], "8": [0.8, None]})


@CHOICES
def test_the_split_is_taken_seed_by_seed_and_adds_up_as_printed(choice):
    ends = {kind: choice.ends(kind) for kind in KINDS}
    for place in range(len(command.SEEDS)):
        ordinary, clipped, private = (100 * ends[kind][place] for kind in KINDS)
        assert choice.clipping.by_seed[place] == pytest.approx(ordinary - clipped)
        assert choice.noise.by_seed[place] == pytest.approx(clipped - private)
        assert choice.total.by_seed[place] == pytest.approx(ordinary - private)
    printed = [
        float(part.words.replace(widget.MINUS, "-"))
        for part in (choice.clipping, choice.noise, choice.total)
    ]
    assert printed[0] + printed[1] == pytest.approx(printed[2])
    assert choice.clipping.words in choice.conclusion
    assert choice.noise.words in choice.conclusion


def test_the_chapter_says_what_the_runs_say():
    """Noise takes more, by every seed; at one rate the split says something else."""
    own, *same = widget.choices()
    assert min(own.clipping.by_seed) > 0
    assert min(own.noise.by_seed) > max(own.clipping.by_seed)
    assert widget.larger_part().startswith("noise: ")
    slow = next(one for one in same if one.rates["private"] == own.rates["ordinary"])
    for kind in ("private", "clipped only"):
        assert max(slow.ends(kind)) < min(own.ends(kind)) - 0.05
    assert slow.ends("ordinary") == own.ends("ordinary")
    assert slow.clipping.mean > 10 * own.clipping.mean
    at_the_private = next(o for o in same if o.rates == dict.fromkeys(KINDS, 8.0))
    assert max(at_the_private.clipping.by_seed) < 0


def test_the_script_gets_means_within_the_seeds():
    data = widget.data()
    for kind in KINDS:
        for rate, band in data["curves"][kind].items():
            runs = widget.curves(kind, float(rate))
            assert band["mean"][-1] == pytest.approx(
                100 * mean(run[-1] for run in runs), abs=0.005
            )
            bands = (band[name] for name in ("low", "mean", "high"))
            for low, middle, high in zip(*bands, strict=True):
                assert low - 0.01 <= middle <= high + 0.01
    for choice in data["choices"]:
        assert choice["floor"] < min(float(end) for end in choice["ends"].values())


def test_a_rounded_zero_has_no_sign():
    assert widget.signed(-0.017, 1) == "0.0"
    assert widget.signed(-0.3, 1) == "−0.3"
