"""A membership inference attack as a run.

Each step trains one model.  The first two are the targets, one without and one with
privacy, trained on the same members.  Pairs of shadow models follow, each pair trained
on about half of the records; every record is in half of the pairs.  After the last
training the attack guesses which records the targets were trained on.

``Attack`` can stop between two trainings and resume from its checkpoint.  A resumed
attack yields the events of an uninterrupted attack, except for times.

Records that are not members join Poisson batches too, but their loss is multiplied by
0.  Their gradients are zero, so the noisy sum contains only members, each drawn with
the plan's sample rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpsgd_explorer.accounting.trade_off_curves import trade_off_intervals
from dpsgd_explorer.audit.attacks.membership import ATTACKS, Bools, Floats, Signals
from dpsgd_explorer.audit.attacks.roc import Roc
from dpsgd_explorer.dp import choices
from dpsgd_explorer.dp.engine import PrivacyEngine
from dpsgd_explorer.dp.noise.seeded import seeded_generator
from dpsgd_explorer.dp.sampling.sampler import PoissonSampler
from dpsgd_explorer.errors import DivergedError
from dpsgd_explorer.experiments.attack_config import (
    HIDDEN,
    LEARNING_RATE,
    POOL,
    POPULATION,
    WIDTH,
    AttackConfig,
)
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.experiment import Experiment
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training import models
from dpsgd_explorer.training.artifacts import packed, unpacked
from dpsgd_explorer.training.cpu.threads import threads
from dpsgd_explorer.training.datasets import registry as datasets

#: False positive rates at which the ``phase`` event contains the ceiling.
RATES = np.geomspace(1e-3, 1.0, 61)
#: Maximum number of points of a ROC curve in the log.
MAX_POINTS = 60
#: Attack whose area under the curve is in the ``end`` event.
HEADLINE = "likelihood_ratio"
#: Number of axes of a picture: channels, height, width.
PICTURE_DIMS = 3
#: {True for the private target: name of the target}.
TARGETS = {False: "ordinary", True: "private"}


class Attack(Experiment):
    """One attack and its state; see ``Experiment``."""

    config: AttackConfig

    def _prepare(self) -> None:
        config = self.config
        train, test = datasets.load(config.dataset)
        record = train.inputs[config.canary]
        self._picture = shades(record) if record.dim() == PICTURE_DIMS else None
        self._inputs = self._model_inputs(train.inputs[:POOL])
        self._targets = train.targets[:POOL].clone()
        self._label = int(self._targets[config.canary])
        self._targets[config.canary] = config.planted(self._label)
        self._other_inputs = self._model_inputs(test.inputs[:POPULATION])
        self._other_targets = test.targets[:POPULATION]
        self._coins = self._draw_members()
        self._logits: dict[bool, list[Tensor]] = {world: [] for world in TARGETS}

    def _model_inputs(self, records: Tensor) -> Tensor:
        """Returns records in the form that the model takes, [N, ...]."""
        name = self.config.model
        if name in models.TRANSFORMS:
            return models.TRANSFORMS[name](tuple(records.shape[1:]))(records)
        return records.flatten(1).float() if name == HIDDEN else records.float()

    def _built(self, seed: int) -> nn.Module:
        """Returns a new model; its parameters are drawn from the seed."""
        config = self.config
        if config.model != HIDDEN:
            shape = TrainingConfig(dataset=config.dataset, model=config.model)
            return models.of_config(shape, seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            sizes = (self._inputs.shape[1], WIDTH, config.data_set.classes)
            return models.perceptron(*sizes)

    def _draw_members(self) -> Tensor:
        """Draws the members of each model, bool [1 + S, R].

        The first row contains the members of the targets, the others of S shadows.
        """
        generator = seeded_generator(self.config.seed, "membership")
        coins = torch.rand(1, POOL, generator=generator) < 0.5
        order = torch.rand(self.config.shadows, POOL, generator=generator).argsort(0)
        return torch.cat([coins, order < self.config.shadows // 2])

    @property
    def joined(self) -> Bools:
        """True for the records that both targets are trained on, [R]."""
        members: Bools = self._coins[0].numpy()
        return members

    def signals(self, *, private: bool) -> Signals:
        """Returns the attacker's measurements, after all models are trained."""
        logits = torch.stack(self._logits[private]).numpy()
        return Signals(
            target=logits[0, :POOL],
            shadows=logits[1:, :POOL],
            joined=self._coins[1:].numpy(),
            population=logits[0, POOL:],
            population_shadows=logits[1:, POOL:],
        )

    @contextmanager
    def _computing(self) -> Iterator[None]:
        with threads(1):
            yield

    def _advance(self) -> None:
        """Trains the next model and emits its accuracy; attacks after the last one."""
        number, private = divmod(self._step, 2)
        logits, accuracy = self._evaluated(self._trained(number, bool(private)))
        self._logits[bool(private)].append(logits)
        self._step += 1
        self._emit(
            "step",
            diagnostics={
                "private": bool(private),
                "shadow": number,
                "test_accuracy": accuracy,
            },
        )
        if self._step == self.config.planned_steps:
            self._attack()

    def _trained(self, number: int, private: bool) -> nn.Module:
        config, plan = self.config, self.config.plan
        seed = seeded_generator(config.seed, f"{private} {number}").initial_seed()
        model = self._built(seed)
        rate = config.learning_rate if private else LEARNING_RATE[False]
        momentum = config.momentum
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)
        batches: Iterator[Tensor]
        if private:
            engine = PrivacyEngine(
                model,
                plan=plan,
                max_grad_norm=config.max_grad_norm,
                clipping_fn=cast(choices.ClippingFn, config.clipping_fn),
                noise="seeded",
                seed=seed,
                # Each record's loss is multiplied by its coin, which autograd's graph
                # cannot distinguish from a weight of the batch.
                assume_per_sample_loss=True,
            )
            engine.attach(optimizer)
            loader = engine.poisson_loader((torch.arange(POOL),))
            batches = (batch for (batch,) in loader.all_epochs())
        else:
            sampler = PoissonSampler(plan, seeded_generator(seed, "sampling"))
            batches = sampler.all_epochs()
        for batch in batches:
            divisor = len(batch) if private else plan.expected_batch_size
            losses = self._losses(model, batch) * self._coins[number][batch]
            total = losses.sum() / max(divisor, 1)
            total.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
        return model

    def _losses(self, model: nn.Module, batch: Tensor) -> Tensor:
        scores, targets = model(self._inputs[batch]), self._targets[batch]
        return F.cross_entropy(scores, targets, reduction="none")

    @torch.no_grad()
    def _evaluated(self, model: nn.Module) -> tuple[Tensor, float]:
        """Returns the logits of the labels, [R + Z], and the test accuracy.

        The logits are of the R records of the pool and the Z of the population.

        Raises:
            DivergedError: a logit is not finite.
        """
        scores = model(torch.cat([self._inputs, self._other_inputs])).double()
        targets = torch.cat([self._targets, self._other_targets])
        logits = label_logits(scores, targets)
        if not bool(logits.isfinite().all()):
            raise DivergedError(
                f"the attack stopped because training {self._step + 1} diverged: its "
                "scores were no longer finite. Use another seed or a larger "
                "target_epsilon."
            )
        is_correct = scores[POOL:].argmax(dim=1) == self._other_targets
        return logits, float(is_correct.double().mean())

    def _attack(self) -> None:
        """Emits the results of each attack on both targets, and the end."""
        areas = {}
        joined = self.joined
        for private in TARGETS:
            signals = self.signals(private=private)
            for name, attack in ATTACKS.items():
                scores = attack(signals)
                roc = Roc.of(scores, joined)
                areas[private, name] = roc.area
                self._emit(
                    "evaluation",
                    target=TARGETS[private],
                    attack=name,
                    area=roc.area,
                    points=_points(roc),
                    **self._judged(roc, private),
                    record=self._record_score(scores, joined),
                )
        self._ended = True
        self._emit(
            "end",
            delta=self.config.plan.delta,
            area=areas[True, HEADLINE],
            record={
                name: self._record(private=private) for private, name in TARGETS.items()
            },
            reason="finished",
        )

    def _judged(self, roc: Roc, private: bool) -> dict[str, int | None]:
        """Returns the numbers of thresholds at which the curve exceeds the ceiling.

        ``above`` counts all of them, and ``beyond`` only those that chance does not
        explain.
        """
        if not private:
            return {"above": None, "beyond": None}
        above, beyond = roc.above(self._ceiling)
        return {"above": above, "beyond": beyond}

    def _ceiling(self, rates: Floats) -> Floats:
        """Returns the largest true positive rates against the private target, [F]."""
        intervals = trade_off_intervals(self.config.plan.phases, rates.tolist())
        return np.array([interval.upper for interval in intervals])

    def _record_score(self, scores: Floats, joined: Bools) -> dict[str, float]:
        """Returns the score of the visitor's record.

        ``reached_by`` is the share of non-members with at least this score.
        """
        score = float(scores[self.config.canary])
        others = np.delete(scores, self.config.canary)
        non_members = others[~np.delete(joined, self.config.canary)]
        return {"score": score, "reached_by": float((non_members >= score).mean())}

    def _record(self, *, private: bool) -> dict[str, Any]:
        """Returns the logits of the visitor's record: in the target, and in shadows.

        Shadows trained with and without the record are listed separately.
        """
        logits = torch.stack(self._logits[private])[:, self.config.canary]
        joined = self._coins[1:, self.config.canary]
        return {
            "target": float(logits[0]),
            "joined": logits[1:][joined].tolist(),
            "left_out": logits[1:][~joined].tolist(),
        }

    def _phase(self) -> Event:
        config, plan = self.config, self.config.plan
        members = int(self._coins[0].sum())
        return Event(
            "phase",
            {
                "step": 0,
                "sample_rate": plan.sample_rate,
                "noise_multiplier": plan.noise_multiplier,
                "steps": config.planned_steps,
                "training_steps": plan.steps,
                "sample_size": plan.sample_size,
                "delta": plan.delta,
                "status": "exact",
                "private": True,
                "members": members,
                "others": POOL - members,
                "record": {
                    "index": config.canary,
                    "label": self._label,
                    "planted": int(self._targets[config.canary]),
                    "joined": bool(self._coins[0, config.canary]),
                    "picture": self._picture,
                },
                "ceiling": {
                    "false_positive_rates": RATES.tolist(),
                    "true_positive_rates": self._ceiling(RATES).tolist(),
                },
            },
        )

    def _epsilon(self) -> float:
        """Returns ε of the private target, which is trained second."""
        return self.config.plan.epsilon() if self._step > 1 else 0.0

    def _packed(self, state: dict[str, Any]) -> bytes:
        return packed(state)

    def _unpacked(self, checkpoint: bytes) -> dict[str, Any]:
        return unpacked(checkpoint)

    def _state(self) -> dict[str, Any]:
        return {"logits": [self._logits[world] for world in TARGETS]}

    def _load_state(self, state: dict[str, Any]) -> None:
        self._logits = dict(zip(TARGETS, state["logits"], strict=True))


def shades(picture: Tensor) -> list[str]:
    """Returns a picture's rows as strings, one hexadecimal digit per pixel.

    Shapes: picture [1, H, W], from 0 (black, digit 0) to 1 (digit f).
    """
    levels = (picture[0] * 15).round().int().tolist()
    return ["".join(f"{level:x}" for level in row) for row in levels]


def label_logits(scores: Tensor, targets: Tensor) -> Tensor:
    """Returns log(p / (1 - p)) of the probability p of each label.

    1 - p is the sum over the other labels, so no precision is lost where p is nearly 1.
    Shapes: scores [N, K], targets [N] -> [N].
    """
    label_scores = scores.gather(1, targets[:, None])
    others = scores.scatter(1, targets[:, None], -torch.inf)
    return label_scores[:, 0] - others.logsumexp(dim=1)


def _points(roc: Roc) -> list[dict[str, float]]:
    """Returns at most MAX_POINTS + 1 points of a curve.

    Half of the false positive rates are evenly spaced, and half in their logarithm.
    """
    last = len(roc.false_positives) - 1
    half = MAX_POINTS // 2
    rates = [*np.geomspace(1 / roc.others, 1, half), *np.linspace(0, 1, half)]
    indices = sorted({*(roc.at(rate) for rate in rates), last})
    return [_point(roc, index) for index in indices]


def _point(roc: Roc, index: int) -> dict[str, float]:
    low, high = roc.interval(index)
    return {
        "false_positive_rate": float(roc.false_positive_rates[index]),
        "true_positive_rate": float(roc.true_positive_rates[index]),
        "low": low,
        "high": high,
    }
