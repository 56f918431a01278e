"""The pre-trained language model: its trained parameters, its loss and its texts."""

import pytest
import torch
import torch.nn.functional as F

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.experiment import PerformanceSettings
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.experiments.vocabulary import TRAINED_PARAMETERS
from dpsgd_explorer.training import models
from dpsgd_explorer.training.datasets.registry import load
from dpsgd_explorer.training.datasets.sentences import IGNORED
from dpsgd_explorer.training.dp_sgd import TrainingExperiment, train
from dpsgd_explorer.training.language_model import pretrained, written
from dpsgd_explorer.training.losses import batch_loss

SMALL = {
    "dataset": "sentences",
    "model": "language_model",
    "expected_batch_size": 6,
    "steps": 3,
    "evaluations": 1,
    "optimizer": "adam",
    "learning_rate": 0.02,
    "max_grad_norm": 1.0,
}


@pytest.fixture(scope="module")
def few_tested():
    """Ten test sentences, so that an evaluation takes little time."""
    _, test = load("sentences")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("inputs", "targets"):
            patch.setitem(test.__dict__, name, getattr(test, name)[:10])
        yield test


@pytest.mark.parametrize("trained", TRAINED_PARAMETERS)
def test_the_layers_are_those_that_the_model_trains(trained):
    config = TrainingConfig.parse(SMALL | {"trained_parameters": trained})
    model = models.of_config(config, seed=1)
    counts = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            layer = name.rpartition(".")[0]
            counts[layer] = counts.get(layer, 0) + parameter.numel()
    assert {x.name: x.parameters for x in config.layers} == counts
    kinds = {name: type(layer).__name__ for name, layer in model.named_modules()}
    assert all(kinds[layer.name] == layer.kind for layer in config.layers)


def test_other_models_train_all_parameters():
    with pytest.raises(ConfigError, match="must be 'full' for model 'logistic'"):
        TrainingConfig.parse(
            {"dataset": "adult", "model": "logistic", "trained_parameters": "lora"}
        )


@pytest.mark.usefixtures("few_tested")
@pytest.mark.parametrize(
    "trained",
    [
        pytest.param(name, marks=[pytest.mark.long("real runs")])
        if name in ("full", "lora")
        else name
        for name in TRAINED_PARAMETERS
    ],
)
def test_a_private_run_moves_the_trained_parameters_only(trained, recwarn):
    config = TrainingConfig.parse(SMALL | {"trained_parameters": trained})
    run = TrainingExperiment(config)
    before = {name: p.clone() for name, p in run.weights().items()}
    *_, end = run.events()
    assert 0 < end.data["epsilon"] <= config.target_epsilon
    assert end.data["receipt"]["told"]["steps"] == config.steps
    assert not [x for x in recwarn if "per_sample" in str(x.message)]
    moved = {n for n, p in run.weights().items() if not torch.equal(p, before[n])}
    names = {n for n, p in run._model.named_parameters() if p.requires_grad}
    assert moved == names


@pytest.mark.long("real runs")
@pytest.mark.filterwarnings("ignore:There is a performance drop")  # vmap of attention
@pytest.mark.usefixtures("few_tested")
def test_engines_compute_the_same_step():
    ends = []
    for engine in ("hooks", "extending", "vmap", "microbatch"):
        settings = SMALL | {"trained_parameters": "lora", "engine": engine, "steps": 1}
        ends.append([*train(TrainingConfig.parse(settings))][-1].data["test_loss"])
    assert ends == pytest.approx([ends[0]] * 4, rel=1e-4)


@pytest.mark.usefixtures("few_tested")
@pytest.mark.parametrize("private", [True, False])
def test_a_resumed_run_continues_as_the_uninterrupted_one(private):
    config = TrainingConfig.parse(
        SMALL | {"trained_parameters": "last_layer", "private": private}
    )
    whole = [event.timeless() for event in train(config)]
    run = TrainingExperiment(config)
    events = run.events()
    seen = [next(events).timeless() for _ in range(3)]
    settings = PerformanceSettings()
    rest = train(config, checkpoint=run.checkpoint(), performance=settings)
    assert seen + [event.timeless() for event in rest] == whole


@pytest.mark.usefixtures("few_tested")
def test_the_texts_of_a_run_are_those_of_its_models():
    config = TrainingConfig.parse(SMALL | {"trained_parameters": "last_layer"})
    run = TrainingExperiment(config)
    start, last = [e.data for e in run.events() if e.kind == "model"]
    assert start["texts"] == written(pretrained(), count=3)
    assert last["texts"] == written(run._model, count=3) != start["texts"]
    assert last["confusion"] is None
    assert 0 < last["accuracy"] < 1


def test_the_loss_is_the_mean_over_sentences_of_the_mean_over_their_bytes(few_tested):
    model, size = pretrained(), 10
    inputs, targets = few_tested.inputs, few_tested.targets
    scores = model(inputs)
    by_hand = [
        F.cross_entropy(row.T[target != IGNORED], target[target != IGNORED])
        for row, target in zip(scores, targets, strict=True)
    ]
    expected = torch.stack(by_hand).sum().item()
    loss, total = batch_loss(scores, targets, size)
    assert loss.item() == pytest.approx(expected / size, rel=1e-5)
    assert total == pytest.approx(expected, rel=1e-5)
    loss, total = batch_loss(scores, targets, 3)  # the divisor of runs without privacy
    assert loss.item() == pytest.approx(expected / 3, rel=1e-5)
    assert total == pytest.approx(expected, rel=1e-5)
