"""CPU time of a sample in ``DPTrainer``, relative to transformers' ``Trainer``.

Both trainers train BERT of the size of the other benchmarks in their own loops, each in
one thread.  The loops take turns after every step, so that other load on the machine
slows down both.  A step includes loader, collation, optimizer and logging.  Batches of
``DPTrainer`` have random sizes, so times are per sample.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers

from benchmarks import record
from benchmarks.architectures.transformers import (
    BERT_VOCABULARY,
    CLASSES,
    HEADS,
    LAYERS,
    LENGTH,
    WIDTH,
)
from dpsgd_explorer.integrations.transformers import DPTrainer

BATCH, RECORDS = 16, 512
STEPS = 24
WARM_UP_STEPS = 3  # the first one of DPTrainer checks the model
ALLOWED_RATIO = 1.2


@dataclass
class Turns(transformers.TrainerCallback):
    """Lets two training loops run one step each in turn, and times the steps.

    Attributes:
        mine: Set while this loop may run.
        other: Set while the other loop may run.
        samples: Number of samples of each batch.
        seconds: CPU time of each step.
    """

    mine: threading.Event
    other: threading.Event
    samples: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    begun: float = 0.0

    def collate(self, records: list[Any]) -> Any:
        """Joins records, and counts them."""
        self.samples.append(len(records))
        return transformers.default_data_collator(records)

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Waits for the first turn."""
        self.mine.wait()
        self.begun = time.thread_time()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Stores the time of the step, and lets the other loop run one."""
        self.seconds.append(time.thread_time() - self.begun)
        self.mine.clear()
        self.other.set()
        self.mine.wait()
        self.begun = time.thread_time()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Lets the other loop run to its end."""
        self.other.set()
        self.mine.set()

    def per_sample(self) -> float:
        """Returns the mean CPU time of a sample, in seconds, after the first steps."""
        samples = sum(self.samples[WARM_UP_STEPS : len(self.seconds)])
        return sum(self.seconds[WARM_UP_STEPS:]) / samples


def bert() -> transformers.BertForSequenceClassification:
    """Returns BERT without dropout, with equal parameters in every call."""
    torch.manual_seed(0)
    options: dict[str, Any] = {"num_labels": CLASSES}
    return transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=BERT_VOCABULARY,
            hidden_size=WIDTH,
            intermediate_size=4 * WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            max_position_embeddings=LENGTH,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            **options,
        )
    )


def _train(kind: Any, turns: Turns, steps: int, folder: str, **options: Any) -> None:
    generator = torch.Generator().manual_seed(1)
    records = [
        {
            "input_ids": torch.randint(BERT_VOCABULARY, (LENGTH,), generator=generator),
            "labels": i % CLASSES,
        }
        for i in range(RECORDS)
    ]
    kind(
        model=bert(),
        args=transformers.TrainingArguments(
            folder,
            per_device_train_batch_size=BATCH,
            max_steps=steps,
            optim="adamw_torch",
            report_to=[],
            save_strategy="no",
            use_cpu=True,
            disable_tqdm=True,
        ),
        train_dataset=records,
        data_collator=turns.collate,
        callbacks=[turns],
        **options,
    ).train()


def measure(steps: int = STEPS) -> dict[str, Any]:
    """Return milliseconds per sample of both trainers, and their ratio."""
    events = threading.Event(), threading.Event()
    loops = {
        "Trainer": (transformers.Trainer, Turns(events[0], events[1]), {}),
        "DPTrainer": (
            DPTrainer,
            Turns(events[1], events[0]),
            {"privacy": {"noise_multiplier": 1.0}},
        ),
    }
    with tempfile.TemporaryDirectory() as folder:
        threads = [
            threading.Thread(
                target=_train,
                args=(kind, turns, steps + WARM_UP_STEPS, folder),
                kwargs=options,
            )
            for kind, turns, options in loops.values()
        ]
        events[0].set()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    ordinary, private = (turns.per_sample() for _, turns, _ in loops.values())
    return {
        "samples_per_step": statistics.fmean(loops["DPTrainer"][1].samples),
        "ordinary_ms": 1e3 * ordinary,
        "private_ms": 1e3 * private,
        "ratio": private / ordinary,
        "allowed_ratio": ALLOWED_RATIO,
    }


def main() -> None:
    """Measure, print, and write the results."""
    measured = measure()
    print(
        f"Trainer {measured['ordinary_ms']:.2f} ms per sample, DPTrainer "
        f"{measured['private_ms']:.2f} ms: ratio {measured['ratio']:.3f} (at most "
        f"{ALLOWED_RATIO})"
    )
    print(record.write("dp_trainer", measured))
