"""Users with several records, in the trainer of Hugging Face."""

import copy

import torch
from torch.nn.functional import cross_entropy

from dpsgd_explorer import dp
from tests.integrations.test_transformers import gpt2, texts, trainer_of


def test_a_user_is_clipped_as_one_sample(tmp_path):
    """Of six records, one user has one, one two and one three; all are drawn."""
    records, owners, bound = texts(6), [7, 3, 7, 9, 9, 9], 0.5
    model = gpt2()
    expected = [torch.zeros_like(p) for p in model.parameters()]
    for user in set(owners):
        own = copy.deepcopy(model)
        losses = [
            cross_entropy(
                own(input_ids=record["input_ids"][None]).logits[0, :-1],
                record["labels"][1:],
            )
            for record, owner in zip(records, owners, strict=True)
            if owner == user
        ]
        torch.stack(losses).mean().backward()
        gradients = [p.grad for p in own.parameters()]
        norm = torch.cat([g.flatten() for g in gradients]).norm()
        for total, gradient in zip(expected, gradients, strict=True):
            total += gradient * min(1.0, bound / norm) / 3
    before = [p.detach().clone() for p in model.parameters()]
    trainer = trainer_of(
        tmp_path,
        model,
        records,
        {"noise_multiplier": 0.0, "max_grad_norm": bound, "clipping_fn": "Abadi"}
        | {"user_ids": owners},
        per_device_train_batch_size=1,
        gradient_accumulation_steps=3,
        max_steps=1,
        learning_rate=1.0,
        lr_scheduler_type="constant",
        optim="sgd",
    )
    trainer.train()
    assert trainer.engine.plan.sample_size == 3
    assert "unit: user (3 users)" in dp.receipt_text(trainer.receipt())
    for old, new, gradient in zip(before, model.parameters(), expected, strict=True):
        torch.testing.assert_close(old - new, gradient, rtol=1e-3, atol=1e-6)


def test_epochs_count_users(tmp_path):
    """Twelve records of six users, two expected per batch: three batches an epoch."""
    trainer = trainer_of(
        tmp_path,
        gpt2(),
        texts(12),
        {"noise_multiplier": 1.0, "user_ids": [i % 6 for i in range(12)]},
        per_device_train_batch_size=2,
        num_train_epochs=2,
    )
    trainer.train()
    assert trainer.engine.steps_done == 6
    assert trainer.engine.get_epsilon() == trainer.engine.plan.epsilon()
