"""``DPCallback`` clips each record, ends with its plan, and can be resumed."""

import copy
import json
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    WeightedRandomSampler,
)

from dpsgd_explorer import audit
from dpsgd_explorer.errors import ConfigError, PrivacyError

lightning = pytest.importorskip("lightning")
from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402
from lightning.pytorch.loggers import CSVLogger  # noqa: E402

from dpsgd_explorer.integrations.lightning import DPCallback  # noqa: E402
from tests.integrations.lightning_runs import (  # noqa: E402
    CLASSES,
    SECURE,
    SEEDED,
    WIDTH,
    Classifier,
    Manual,
    TwoOptimizers,
    WithForward,
    fitted,
    loader,
    records,
    trainer_of,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning")


@pytest.mark.parametrize("kind", [Classifier, WithForward, Manual, TwoOptimizers])
def test_a_step_is_the_clipped_sum_of_a_loop_by_hand(kind, tmp_path):
    bound, count, module = 0.3, 6, kind()
    expected = [torch.zeros_like(p) for p in module.parameters()]
    for x, y in records(count):
        own = copy.deepcopy(module.model)
        cross_entropy(own(x[None]), y[None]).backward()
        gradients = [p.grad for p in own.parameters()]
        norm = torch.cat([g.flatten() for g in gradients]).norm()
        assert norm > bound
        for total, gradient in zip(expected, gradients, strict=True):
            total += gradient * bound / norm / count
    before = [p.detach().clone() for p in module.parameters()]
    privacy = {"noise_multiplier": 0.0, "max_grad_norm": bound, "clipping_fn": "Abadi"}
    fitted(tmp_path, module, loader(count, count), privacy)
    for old, new, gradient in zip(before, module.parameters(), expected, strict=True):
        torch.testing.assert_close(old - new, gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", [Classifier, Manual])
def test_a_training_ends_with_its_plan_and_logs_what_it_spends(kind, tmp_path):
    saved = ModelCheckpoint(tmp_path / "saved", save_top_k=1, monitor=None)
    callback, trainer = fitted(
        tmp_path,
        kind(),
        privacy={"noise_multiplier": None, "target_epsilon": 6.0},
        max_epochs=3,
        log_every_n_steps=1,
        logger=CSVLogger(tmp_path, name="", version=""),
        enable_checkpointing=True,
        callbacks=[saved],
    )
    engine = callback.engine
    assert trainer.global_step == engine.steps_done == engine.plan.steps == 15
    rows = (tmp_path / "metrics.csv").read_text(encoding="utf-8").splitlines()
    columns = rows[0].split(",")
    spent, left = (
        [float(row.split(",")[columns.index(name)] or "nan") for row in rows[1:]]
        for name in ("epsilon", "epsilon_left")
    )
    pairs = [(a, b) for a, b in zip(spent, left, strict=True) if a == a]
    assert len(pairs) >= 15
    assert all(a <= b for (a, _), (b, _) in pairwise(pairs))
    assert all(a + b == pytest.approx(6.0, abs=2e-3) for a, b in pairs)
    assert pairs[-1][0] == pytest.approx(engine.get_epsilon(), abs=1e-3)
    receipts = list((tmp_path / "saved").glob("*.privacy.json"))
    assert [file.name.partition(".")[0] for file in receipts] == ["epoch=2-step=15"]
    receipt = json.loads(receipts[0].read_text(encoding="utf-8"))
    assert not audit.verify_receipt(receipt).wrong


def test_batches_are_poisson_draws_from_the_data_set(tmp_path):
    module = Classifier()
    data = loader(40, 10, shuffle=True, collate_fn=None)
    callback, _ = fitted(tmp_path, module, data, max_epochs=5, limit_train_batches=3)
    assert callback.engine.plan.sample_rate == 0.25
    assert callback.engine.plan.steps == callback.engine.steps_done == 15
    assert len({*module.sizes}) > 3


def test_steps_may_end_before_epochs(tmp_path):
    callback, trainer = fitted(tmp_path, Classifier(), max_epochs=9, max_steps=7)
    assert trainer.global_step == callback.engine.steps_done == 7
    assert callback.engine.get_epsilon() == callback.engine.plan.epsilon()


def test_the_steps_of_two_optimizers_are_one_private_step(tmp_path):
    callback, trainer = fitted(tmp_path, TwoOptimizers(), max_steps=8)
    assert trainer.global_step == 8
    assert callback.engine.steps_done == callback.engine.plan.steps == 4


@pytest.mark.parametrize("kind", [Classifier, TwoOptimizers])
def test_an_empty_batch_is_a_step_of_noise(kind, tmp_path):
    """With one expected record a batch is empty with a probability of a third."""
    module = kind()
    callback, _ = fitted(
        tmp_path,
        module,
        loader(6, 1),
        {"noise": "seeded", "seed": 3},
        max_epochs=3,
        log_every_n_steps=1,
    )
    empty = callback.receipt()["not_private"]["batch_sizes"]["empty"]
    assert empty > 0
    assert 0 not in module.sizes
    assert len(module.sizes) + empty == callback.engine.steps_done == 18
    assert callback.engine.get_epsilon() == callback.engine.plan.epsilon()


def checkpoints(folder, privacy=None):
    """Train 6 steps with a checkpoint after every second one."""
    saving = ModelCheckpoint(folder, every_n_train_steps=2, save_top_k=-1)
    options = {"max_epochs": 2, "enable_checkpointing": True, "callbacks": [saving]}
    return fitted(folder, Classifier(), loader(12), privacy, **options)


@pytest.mark.parametrize(
    ("step", "privacy"), [(2, SEEDED), (4, SEEDED), (2, SECURE), (4, SECURE)]
)
def test_a_resumed_training_counts_every_step_once(step, privacy, tmp_path):
    checkpoints(tmp_path, privacy)
    (file,) = tmp_path.glob(f"*step={step}.ckpt")
    module = Classifier()
    callback, trainer = fitted(
        tmp_path, module, loader(12), privacy, max_epochs=2, ckpt_path=file
    )
    assert trainer.global_step == callback.engine.steps_done == 6
    assert len(module.sizes) <= 6 - step
    assert callback.engine.get_epsilon() == callback.engine.plan.epsilon()


def test_lost_steps_are_counted_and_shorten_the_rest(tmp_path):
    checkpoints(tmp_path, SECURE)
    (file,) = tmp_path.glob("*step=2.ckpt")
    callback, trainer = fitted(
        tmp_path,
        Classifier(),
        loader(12),
        SECURE | {"lost_steps": 1},
        max_epochs=2,
        ckpt_path=file,
    )
    assert trainer.global_step == 5
    assert callback.engine.get_epsilon() == callback.engine.plan.epsilon()


def test_a_checkpoint_without_a_count_is_rejected(tmp_path):
    plain = trainer_of(tmp_path, ModelCheckpoint(tmp_path), enable_checkpointing=True)
    plain.fit(Classifier(), loader(12))
    (file,) = tmp_path.glob("*.ckpt")
    with pytest.raises(ConfigError, match="training without privacy"):
        fitted(tmp_path, Classifier(), loader(12), max_epochs=2, ckpt_path=file)


def test_another_plan_does_not_continue_a_checkpoint(tmp_path):
    checkpoints(tmp_path)
    (file,) = tmp_path.glob("*step=2.ckpt")
    with pytest.raises(ConfigError):
        fitted(tmp_path, Classifier(), loader(12), max_epochs=3, ckpt_path=file)


def test_a_second_training_adds_to_the_first(tmp_path):
    module = Classifier()
    callback, trainer = fitted(tmp_path, module)
    first = callback.engine.get_epsilon()
    trainer.fit_loop.max_epochs = 2
    trainer.fit(module, loader())
    assert callback.engine.steps_done == 5
    assert callback.engine.get_epsilon() > first
    assert "epsilon_left" not in trainer.callback_metrics


def test_a_stop_before_the_plan_spends_less(tmp_path):
    class Stopping(lightning.Callback):
        def on_train_batch_end(self, trainer, *_):
            trainer.should_stop = trainer.global_step >= 3

    callback, _ = fitted(tmp_path, Classifier(), callbacks=[Stopping()], max_epochs=4)
    assert callback.engine.steps_done == 3
    assert callback.engine.get_epsilon() < callback.engine.plan.epsilon()


def test_half_precision_and_workers_train(tmp_path):
    data = loader(num_workers=1)
    callback, _ = fitted(tmp_path, Classifier(), data, precision="bf16-mixed")
    assert callback.engine.get_epsilon() == callback.engine.plan.epsilon()


class Stream(IterableDataset):
    def __iter__(self):
        return iter(records(4))


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("accumulate_grad_batches", {"accumulate_grad_batches": 2}),
        ("gradient_clip_val", {"gradient_clip_val": 1.0}),
        ("precision", {"precision": "16-true"}),
        ("strategy", {"strategy": "ddp_spawn", "devices": 2}),
        ("overfit_batches", {"overfit_batches": 1}),
        (
            "reload_dataloaders_every_n_epochs",
            {"reload_dataloaders_every_n_epochs": 1},
        ),
    ],
)
def test_an_argument_of_the_trainer_that_cannot_be_private_is_rejected(
    field, options, tmp_path
):
    trainer = trainer_of(tmp_path, DPCallback(noise_multiplier=1.0), **options)
    with pytest.raises(ConfigError, match=f"{field} must be left out: .+") as caught:
        trainer.callbacks[0].setup(trainer, Classifier(), "fit")
    assert caught.value.field == field


def test_an_end_is_needed(tmp_path):
    with pytest.raises(ConfigError, match="max_epochs or max_steps"):
        fitted(tmp_path, Classifier(), max_epochs=-1)
    with pytest.raises(ConfigError, match="physical_batch_size must be left out"):
        DPCallback(noise_multiplier=1.0, physical_batch_size=2)


def weighted():
    return WeightedRandomSampler([1.0] * 20, 20)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (lambda: DataLoader(Stream(), batch_size=2), "length and items by index"),
        (lambda: loader(sampler=weighted()), "same probability"),
        (lambda: DataLoader(records(), batch_size=None), "with batch_size"),
        (lambda: [loader(), loader()], "one DataLoader, got list"),
        (lambda: [next(iter(loader()))], "one DataLoader, got list"),
    ],
)
def test_data_that_cannot_be_drawn_record_by_record_is_rejected(data, words, tmp_path):
    with pytest.raises(ConfigError, match=words):
        fitted(tmp_path, Classifier(), data(), max_steps=2)


class Unnamed(Classifier):
    def __init__(self):
        super().__init__()
        self.second = nn.Linear(WIDTH, CLASSES)

    def loss(self, batch):
        inputs, targets = batch
        return cross_entropy(self.model(inputs) + self.second(inputs), targets)


class Around(WithForward):
    """Has a forward, but calls the submodule."""

    loss = Classifier.loss


def test_a_module_that_is_not_called_as_a_whole_is_rejected(tmp_path):
    with pytest.raises(ConfigError, match="define forward"):
        fitted(tmp_path, Unnamed())
    for seed in range(8):  # 30% of the first batches are empty
        with pytest.raises(PrivacyError) as caught:
            fitted(tmp_path, Around(), loader(3, 1), {"seed": seed}, max_epochs=20)
        assert "DPCallback(module=" in "".join(caught.value.__notes__)
    with pytest.raises(ConfigError, match="name of a submodule"):
        fitted(tmp_path, Around(), privacy={"module": "net"})
    fitted(tmp_path, Around(), privacy={"module": "model"})


def test_a_gradient_that_is_read_before_its_noise_is_rejected(tmp_path):
    class Reading(lightning.Callback):
        def on_before_optimizer_step(self, trainer, pl_module, optimizer):
            return [p.grad.norm() for p in pl_module.parameters()]

    with pytest.raises(PrivacyError, match="must not be used between backward"):
        fitted(tmp_path, Classifier(), callbacks=[Reading()])


def test_the_module_is_as_before_after_the_training(tmp_path):
    module = Classifier()
    _, trainer = fitted(tmp_path, module)
    assert "training_step" not in vars(module)
    trainer.validate(module, loader(), verbose=False)
    (optimizer,) = trainer.optimizers
    cross_entropy(module.model(torch.randn(2, WIDTH)), torch.tensor([0, 1])).backward()
    before = module.model[0].weight.detach().clone()
    gradient = module.model[0].weight.grad
    optimizer.step()
    assert torch.equal(module.model[0].weight, before - gradient)
