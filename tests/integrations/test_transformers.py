"""``DPTrainer`` clips each record, ends with its plan, and can be resumed."""

import copy
import json

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import IterableDataset
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertLMHeadModel,
    GPT2Config,
    GPT2LMHeadModel,
    TrainingArguments,
)

from dpsgd_explorer import audit
from dpsgd_explorer.errors import ConfigError, PrivacyError
from dpsgd_explorer.integrations.per_sample_loss import per_sample_loss
from dpsgd_explorer.integrations.transformers import DPTrainer

WORDS, LENGTH = 30, 6


def gpt2():
    torch.manual_seed(0)
    none = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    ids = {"bos_token_id": 0, "eos_token_id": 0}
    sizes = {"n_positions": LENGTH, "n_embd": 8, "n_layer": 1, "n_head": 2}
    return GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, **sizes, **none, **ids))


def bert(kind, **options):
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = BertConfig(
        vocab_size=WORDS, intermediate_size=8, **sizes, **none, **options
    )
    return kind(config)


def texts(count, labels="next"):
    """Return records with ids and labels: "next", "one", "each" or "number"."""
    torch.manual_seed(1)
    records = []
    for i in range(count):
        ids = torch.randint(1, WORDS, (LENGTH,))
        label = {
            "next": torch.where(torch.arange(LENGTH) < i % 4, -100, ids),
            "one": i % 2,
            "each": ids % 2,
            "number": torch.tensor(i / count),
        }[labels]
        records.append({"input_ids": ids, "labels": label})
    return records


def trainer_of(folder, model, records, privacy=None, trainer=None, **options):
    given = {
        "per_device_train_batch_size": 4,
        "num_train_epochs": 1,
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "save_strategy": "no",
    }
    return DPTrainer(
        model=model,
        args=TrainingArguments(str(folder), **given | options),
        train_dataset=records,
        privacy={"noise_multiplier": 1.0} if privacy is None else privacy,
        **(trainer or {}),
    )


def test_a_training_ends_with_its_plan_and_logs_what_it_spends(tmp_path):
    trainer = trainer_of(
        tmp_path,
        gpt2(),
        texts(20),
        {"target_epsilon": 6.0},
        gradient_accumulation_steps=2,
        num_train_epochs=2,
        logging_steps=1,
        save_strategy="steps",
        save_steps=3,
        eval_strategy="epoch",
        trainer={"eval_dataset": texts(5)},
    )
    trainer.train()
    engine = trainer.engine
    assert engine.plan.expected_batch_size == 8
    assert trainer.state.global_step == engine.steps_done == engine.plan.steps == 6
    logged = [row for row in trainer.state.log_history if "loss" in row]
    spent = [row["epsilon"] for row in logged]
    assert spent == sorted(spent)
    assert spent[-1] == pytest.approx(engine.get_epsilon(), abs=1e-3)
    for row in logged:
        assert row["epsilon"] + row["epsilon_left"] == pytest.approx(6.0, abs=2e-3)
    assert any("eval_loss" in row for row in trainer.state.log_history)
    trainer.save_model()
    for folder in (tmp_path, tmp_path / "checkpoint-6"):
        receipt = (folder / "privacy.json").read_text(encoding="utf-8")
        findings = audit.verify_receipt(json.loads(receipt))
        assert not findings.wrong


@pytest.mark.parametrize("part", [2, 6])
def test_a_step_is_the_clipped_sum_of_a_loop_by_hand(part, tmp_path):
    records, bound = texts(6), 0.5
    model = gpt2()
    expected = [torch.zeros_like(p) for p in model.parameters()]
    for record in records:
        own = copy.deepcopy(model)
        logits = own(input_ids=record["input_ids"][None]).logits[0, :-1]
        cross_entropy(logits, record["labels"][1:]).backward()
        gradients = [p.grad for p in own.parameters()]
        norm = torch.cat([g.flatten() for g in gradients]).norm()
        for total, gradient in zip(expected, gradients, strict=True):
            total += gradient * min(1.0, bound / norm) / len(records)
    before = [p.detach().clone() for p in model.parameters()]
    trainer_of(
        tmp_path,
        model,
        records,
        {"noise_multiplier": 0.0, "max_grad_norm": bound, "clipping_fn": "Abadi"},
        per_device_train_batch_size=part,
        gradient_accumulation_steps=6 // part,
        max_steps=1,
        learning_rate=1.0,
        lr_scheduler_type="constant",
        optim="sgd",
    ).train()
    for old, new, gradient in zip(before, model.parameters(), expected, strict=True):
        torch.testing.assert_close(old - new, gradient, rtol=1e-3, atol=1e-6)


def test_a_resumed_training_counts_every_step_once(tmp_path):
    options = {"save_strategy": "steps", "save_steps": 2, "num_train_epochs": 2}
    trainer_of(tmp_path, gpt2(), texts(12), **options).train()
    model = gpt2()
    trainer = trainer_of(tmp_path, model, texts(12), **options)
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    assert trainer.state.global_step == trainer.engine.steps_done == 6
    assert trainer.engine.get_epsilon() == trainer.engine.plan.epsilon()


def test_an_empty_batch_is_a_step_too(tmp_path):
    """With one expected record a batch is empty with a probability of a third."""
    trainer = trainer_of(
        tmp_path,
        gpt2(),
        texts(6),
        {"noise_multiplier": 1.0, "noise": "seeded", "seed": 3},
        per_device_train_batch_size=1,
        max_steps=12,
    )
    trainer.train()
    assert trainer.engine.steps_done == 12
    assert trainer.receipt()["not_private"]["batch_sizes"]["empty"] > 0
    assert trainer.engine.get_epsilon() == trainer.engine.plan.epsilon()


def test_a_second_training_adds_to_the_first(tmp_path):
    trainer = trainer_of(tmp_path, gpt2(), texts(12), logging_steps=1)
    trainer.train()
    first = trainer.engine.get_epsilon()
    trainer.train()
    assert trainer.engine.get_epsilon() > first
    assert trainer.state.log_history[-1]["epsilon"] >= trainer.engine.get_epsilon()
    assert "epsilon_left" not in trainer.state.log_history[-1]


def test_a_checkpoint_without_a_count_is_rejected(tmp_path):
    options = {"save_strategy": "steps", "save_steps": 2}
    trainer_of(tmp_path, gpt2(), texts(12), **options).train()
    (tmp_path / "checkpoint-2" / "privacy_engine.pt").unlink()
    trainer = trainer_of(tmp_path, gpt2(), texts(12), **options)
    with pytest.raises(ConfigError, match="training without privacy"):
        trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))


def test_lost_steps_are_counted_and_shorten_the_rest(tmp_path):
    options = {"save_strategy": "steps", "save_steps": 2, "num_train_epochs": 2}
    trainer_of(tmp_path, gpt2(), texts(12), **options).train()
    trainer = trainer_of(
        tmp_path, gpt2(), texts(12), **options, trainer={"lost_steps": 1}
    )
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    assert trainer.state.global_step == 5
    assert trainer.engine.get_epsilon() == trainer.engine.plan.epsilon()


@pytest.mark.parametrize(
    ("kind", "labels", "options"),
    [
        (BertForSequenceClassification, "one", {"num_labels": 2}),
        (BertForTokenClassification, "each", {"num_labels": 2}),
        (BertForSequenceClassification, "number", {"num_labels": 1}),
    ],
)
def test_losses_of_other_tasks_get_an_epsilon(kind, labels, options, tmp_path):
    trainer = trainer_of(tmp_path, bert(kind, **options), texts(8, labels))
    trainer.train()
    assert trainer.engine.get_epsilon() == trainer.engine.plan.epsilon()


@pytest.mark.parametrize(
    ("kind", "labels", "options"),
    [
        (BertForSequenceClassification, torch.tensor([1]), {"num_labels": 3}),
        (BertForSequenceClassification, torch.tensor([0.4]), {"num_labels": 1}),
        (BertForSequenceClassification, torch.tensor([[1.0, 0.0]]), {"num_labels": 2}),
        (
            BertForSequenceClassification,
            torch.tensor([[0.3, -0.2]]),
            {"num_labels": 2, "problem_type": "regression"},
        ),
        (
            BertForTokenClassification,
            torch.tensor([[1, -100, 0, 1]]),
            {"num_labels": 2},
        ),
        (BertForMaskedLM, torch.tensor([[-100, 7, -100, 2]]), {}),
        (BertLMHeadModel, torch.tensor([[3, 7, -100, 2]]), {"is_decoder": True}),
    ],
)
def test_the_loss_of_one_record_is_the_loss_of_transformers(
    kind, labels, options, tmp_path
):
    model = bert(kind, **options)
    inputs = {"input_ids": torch.tensor([[3, 7, 5, 2]]), "labels": labels}
    trainer = trainer_of(tmp_path, model, texts(4))
    model.train()
    loss = trainer.compute_loss(model, inputs)
    torch.testing.assert_close(loss, model(**inputs).loss)


def test_a_subclass_of_a_causal_model_predicts_the_next_word(tmp_path):
    class Own(GPT2LMHeadModel):
        pass

    model = gpt2()
    model.__class__ = Own
    record = {name: value[None] for name, value in texts(1)[0].items()}
    trainer = trainer_of(tmp_path, model, texts(4))
    model.train()
    loss = trainer.compute_loss(model, record)
    torch.testing.assert_close(loss, model(**record).loss)


def test_the_loss_of_a_model_is_the_mean_over_its_samples():
    model = gpt2()
    records = texts(4)
    ids = torch.stack([record["input_ids"] for record in records])
    labels = torch.stack([record["labels"] for record in records])
    mean = per_sample_loss(model(input_ids=ids).logits, labels, predicts_next=True)
    each = [
        model(input_ids=ids[i : i + 1], labels=labels[i : i + 1]).loss for i in range(4)
    ]
    torch.testing.assert_close(mean, torch.stack(each).mean())


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft
def test_an_adapter_trains_alone(tmp_path):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True)
    model = peft.get_peft_model(gpt2(), config)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    trainer_of(tmp_path, model, texts(8)).train()
    moved = {
        name for name, p in model.named_parameters() if not torch.equal(p, before[name])
    }
    assert moved
    assert all("lora_" in name for name in moved)


def test_a_loss_of_the_users_own_is_checked(tmp_path):
    def last_word(outputs, labels, num_items_in_batch=None):
        return cross_entropy(outputs.logits[:, -2], labels[:, -1])

    given = {"compute_loss_func": last_word}
    trainer = trainer_of(tmp_path, gpt2(), texts(8), trainer=given)
    trainer.train()
    assert trainer.engine.get_epsilon() == trainer.engine.plan.epsilon()

    def over_all_labels(outputs, labels, num_items_in_batch=None):
        logits = outputs.logits[:, :-1].flatten(0, 1)
        return cross_entropy(logits, labels[:, 1:].flatten(), ignore_index=-100)

    given = {"compute_loss_func": over_all_labels}
    # A batch with one text only is no error.  This seed's first batch has several.
    privacy = {"noise_multiplier": 1.0, "noise": "seeded", "seed": 0}
    trainer = trainer_of(
        tmp_path, gpt2(), texts(8), privacy, trainer=given, logging_steps=1
    )
    with pytest.raises(PrivacyError):
        trainer.train()
    assert not any("epsilon" in row for row in trainer.state.log_history)


def test_a_model_card_contains_the_receipt(tmp_path):
    trainer = trainer_of(tmp_path, gpt2(), texts(8))
    trainer.train()
    trainer.create_model_card()
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "## Differential privacy" in card
    assert "epsilon: " in card.partition("## Differential privacy")[2]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(texts(4))


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("fp16", {"fp16": True}),
        ("label_smoothing_factor", {"label_smoothing_factor": 0.1}),
        ("auto_find_batch_size", {"auto_find_batch_size": True}),
    ],
)
def test_a_training_argument_that_cannot_be_private_is_rejected(
    field, options, tmp_path
):
    with pytest.raises((ConfigError, ValueError), match=field.partition("_")[0]):
        trainer_of(tmp_path, gpt2(), texts(4), **options)


def test_wrong_data_and_options_are_rejected_by_name(tmp_path):
    with pytest.raises(ConfigError, match=r"dataset must have a length"):
        trainer_of(tmp_path, gpt2(), Stream(), max_steps=2).train()

    def with_shared_positions(records):
        names = ("input_ids", "labels")
        columns = {
            name: torch.stack([each[name] for each in records]) for name in names
        }
        return columns | {"position_ids": torch.arange(LENGTH)[None]}

    given = {"data_collator": with_shared_positions}
    with pytest.raises(ConfigError, match="one row per record"):
        trainer_of(tmp_path, gpt2(), texts(20), trainer=given).train()
    with pytest.raises(ConfigError, match="noise_multiplier"):
        trainer_of(tmp_path, gpt2(), texts(4), {"noise_multiplier": -1.0}).train()
    slots = {"noise_multiplier": 1.0, "sampling": "random_allocation"}
    with pytest.raises(ConfigError, match="sampling must be left out"):
        trainer_of(tmp_path, gpt2(), texts(4), slots)
    users = {"noise_multiplier": 1.0, "user_ids": range(5)}
    with pytest.raises(ConfigError, match="user_ids must be one owner for each"):
        trainer_of(tmp_path, gpt2(), texts(4), users).train()
    unlabelled = [{"input_ids": record["input_ids"]} for record in texts(4)]
    with pytest.raises(ConfigError, match="labels"):
        trainer_of(tmp_path, gpt2(), unlabelled).train()
    with pytest.raises(ConfigError, match="compute_loss_func"):
        per_sample_loss(torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.int64))


def test_the_model_is_as_before_after_the_training(tmp_path):
    model = gpt2()
    trainer_of(tmp_path, model, texts(8)).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    record = texts(1)[0]
    loss = model(**{name: value[None] for name, value in record.items()}).loss
    loss.backward()
    optimizer.step()
    assert isinstance(model, nn.Module)
