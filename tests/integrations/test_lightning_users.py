"""``DPCallback`` with ``user_ids``: batches, epochs and epsilon are of users."""

import copy

import pytest
import torch
from torch.nn.functional import cross_entropy

pytest.importorskip("lightning")
from lightning.pytorch.callbacks import ModelCheckpoint

from dpsgd_explorer import audit, dp
from dpsgd_explorer.errors import ConfigError, PrivacyError
from tests.integrations.lightning_runs import (
    Classifier,
    Manual,
    fitted,
    loader,
    records,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning")

#: Of 20 records: user 7 has 11, 3 has 6, 9 has 2 and 5 has 1.
OWNERS = [7, 3, 7, 9, 7, 7, 3, 7, 3, 5, 7, 3, 7, 7, 9, 3, 7, 7, 3, 7]


class Planned(Classifier):
    """Notes the number of steps that a learning-rate schedule would get."""

    def configure_optimizers(self):
        self.planned = self.trainer.estimated_stepping_batches
        return super().configure_optimizers()


def test_a_user_is_clipped_as_one_sample(tmp_path):
    bound, module = 0.3, Classifier()
    inputs, targets = records(20).tensors
    expected = [torch.zeros_like(p) for p in module.parameters()]
    for user in set(OWNERS):
        own, rows = copy.deepcopy(module.model), [o == user for o in OWNERS]
        cross_entropy(own(inputs[rows]), targets[rows]).backward()
        gradients = [p.grad for p in own.parameters()]
        norm = torch.cat([g.flatten() for g in gradients]).norm()
        for total, gradient in zip(expected, gradients, strict=True):
            total += gradient * min(1.0, bound / norm) / 4
    before = [p.detach().clone() for p in module.parameters()]
    privacy = {"noise_multiplier": 0.0, "max_grad_norm": bound, "clipping_fn": "Abadi"}
    data = loader(20, batch_size=4)  # all users
    callback, _ = fitted(tmp_path, module, data, privacy | {"user_ids": OWNERS})
    assert module.sizes == [20]
    assert "unit: user (4 users)" in dp.receipt_text(callback.receipt())
    for old, new, gradient in zip(before, module.parameters(), expected, strict=True):
        torch.testing.assert_close(old - new, gradient, rtol=1e-4, atol=1e-6)


def test_a_training_is_the_run_of_a_plain_loop_with_the_same_users(tmp_path):
    """Batches, noise, weights, epsilon and receipt are equal."""
    module, module_of_loop = Planned(), Classifier()
    owners = {"user_ids": OWNERS, "records_per_user": 3}
    optimizer = torch.optim.SGD(module_of_loop.model.parameters(), lr=1.0)
    run = dp.make_private(
        module_of_loop.model,
        optimizer,
        records(20),
        batch_size=1,
        epochs=3,
        target_epsilon=4.0,
        noise=dp.Noise(kind="seeded", seed=3),
        **owners,
    )
    for batch in run.loader.all_epochs():
        if len(batch[0]):
            module_of_loop.loss(batch).backward()
        optimizer.step()
        optimizer.zero_grad()
    callback, trainer = fitted(
        tmp_path,
        module,
        loader(20, batch_size=1),
        {"noise_multiplier": None, "target_epsilon": 4.0, "noise": "seeded", "seed": 3}
        | owners,
        max_epochs=3,
    )
    engine = callback.engine
    assert trainer.num_training_batches == 4
    assert engine.steps_done == run.plan.steps == module.planned == 12
    assert engine.plan == run.plan
    assert engine.get_epsilon() == run.epsilon() <= 4.0
    assert module.sizes == module_of_loop.sizes
    for ours, theirs in zip(
        module.parameters(), module_of_loop.parameters(), strict=True
    ):
        torch.testing.assert_close(ours, theirs)
    receipt, receipt_of_loop = callback.receipt(), run.receipt()
    assert not audit.verify_receipt(receipt).wrong
    for entry in ("told", "options", "epsilon"):
        assert receipt[entry] == receipt_of_loop[entry]


def test_a_resumed_and_a_second_training_count_users(tmp_path):
    owners = {"user_ids": OWNERS, "records_per_user": 2}
    data, options = loader(20, 2), {"max_epochs": 3}
    saving = ModelCheckpoint(tmp_path, every_n_train_steps=2, save_top_k=-1)
    options |= {"callbacks": [saving], "enable_checkpointing": True}
    whole, _ = fitted(tmp_path, Planned(), data, owners, **options)
    (file,) = tmp_path.glob("*step=4.ckpt")
    others = owners | {"user_ids": OWNERS[::-1]}
    with pytest.raises(ConfigError, match="user_ids"):
        fitted(tmp_path, Planned(), data, others, ckpt_path=file, **options)
    module = Planned()
    resumed, trainer = fitted(tmp_path, module, data, owners, ckpt_path=file, **options)
    assert len(module.sizes) <= 2
    assert resumed.engine.steps_done == module.planned == 6
    assert resumed.engine.get_epsilon() == whole.engine.get_epsilon()
    trainer.fit_loop.max_epochs = 6
    trainer.fit(module, data)
    assert resumed.engine.plan.steps == 6
    assert resumed.engine.get_epsilon() > whole.engine.get_epsilon()


@pytest.mark.parametrize("owners", [OWNERS[:-1], [*OWNERS, 1]])
def test_each_record_needs_an_owner(owners, tmp_path):
    with pytest.raises(ConfigError, match="one owner for each of the 20 records"):
        fitted(tmp_path, Classifier(), loader(20, 2), {"user_ids": owners})


def test_parts_of_a_batch_are_rejected(tmp_path):
    with pytest.raises(PrivacyError, match="records are clipped together"):
        fitted(tmp_path, Manual(), loader(20, 4), {"user_ids": OWNERS})
