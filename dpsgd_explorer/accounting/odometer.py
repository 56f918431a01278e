"""A privacy odometer: everything that was done to the same records, and its ε.

| mechanism | as a phase |
|---|---|
| DP-SGD | steps of its sample rate and noise multiplier |
| a Gaussian query | one step on all records |
| SSP, AdaSSP: several Gaussians | one step on all records for each |

What was done is data; at which δ and by which accountant it is read is asked at the
end.  ε is not known in advance: an odometer tells what was spent, and a decision that
depends on its reading is not covered (Rogers et al. 2016, arXiv:1605.08294).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from dpsgd_explorer.accounting import calibration
from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.intervals import Interval
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.privacy_loss_distribution import PrivacyLossDistribution
from dpsgd_explorer.accounting.queries import all_answers
from dpsgd_explorer.accounting.rdp.curve import RdpCurve
from dpsgd_explorer.accounting.registry import ACCOUNTANTS, accountant_and_relation
from dpsgd_explorer.accounting.trade_off import trade_off_intervals
from dpsgd_explorer.errors import AccountingError

VERSION = 1
DP_SGD, GAUSSIAN = "dp_sgd", "gaussian"
MECHANISMS = (DP_SGD, GAUSSIAN)


@dataclass(frozen=True)
class Entry:
    """One thing that was done.

    Attributes:
        label: Name for people.
        mechanism: One of MECHANISMS.
        phase: What an accountant makes of it.

    Raises:
        AccountingError: there is no such mechanism, or it does not sample.
    """

    label: str
    mechanism: str
    phase: Phase

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            rule = f"one of {', '.join(MECHANISMS)}"
            validation.refuse("mechanism", rule, self.mechanism)
        if self.mechanism == GAUSSIAN and self.phase.sample_rate != 1:
            rule = "1 for a Gaussian query"
            validation.refuse("sample_rate", rule, self.phase.sample_rate)


class Odometer:
    """Composes what was done, in any order.

    Attributes:
        entries: What was done so far; the same thing again counts up the last one.
    """

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self.entries: list[Entry] = list(entries)

    @property
    def phases(self) -> list[Phase]:
        """The entries as an accountant takes them."""
        return [entry.phase for entry in self.entries]

    def add_dp_sgd(
        self,
        sample_rate: float,
        noise_multiplier: float,
        steps: int,
        label: str = "DP-SGD",
    ) -> None:
        """Count steps of DP-SGD."""
        self._add(Entry(label, DP_SGD, Phase(sample_rate, noise_multiplier, steps)))

    def add_gaussian(self, noise_multiplier: float, label: str = "query") -> None:
        """Count one query of all records, with Gaussian noise over its sensitivity."""
        self._add(Entry(label, GAUSSIAN, Phase(1.0, noise_multiplier, 1)))

    def add_gaussians(self, noise_multipliers: Sequence[float], label: str) -> None:
        """Count a mechanism of several Gaussian releases, as SSP is."""
        for noise in noise_multipliers:
            self.add_gaussian(noise, label)

    def _add(self, entry: Entry) -> None:
        if self.entries:
            last = self.entries[-1]
            again = replace(last.phase, steps=entry.phase.steps)
            if (last.label, last.mechanism, again) == (
                entry.label,
                entry.mechanism,
                entry.phase,
            ):
                total = last.phase.steps + entry.phase.steps
                self.entries[-1] = replace(last, phase=replace(again, steps=total))
                return
        self.entries.append(entry)

    def epsilon(
        self,
        delta: float,
        accountant: str = "exact",
        neighboring_relation: str = ADD_OR_REMOVE_ONE,
    ) -> float:
        """Return ε of everything that was done.

        Raises:
            AccountingError: an argument is outside its domain, or the accountant says
                nothing of what was done.
        """
        chosen, relation = accountant_and_relation(accountant, neighboring_relation)
        delta = validation.delta(delta)
        if not self.entries:
            return 0.0
        total = sum(phase.steps for phase in self.phases)
        spent = chosen.epsilons(self.phases, [total], delta, relation)
        return float(spent[0])

    def epsilons(
        self, delta: float, neighboring_relation: str = ADD_OR_REMOVE_ONE
    ) -> dict[str, float]:
        """Return ε of everything that was done, by the name of each accountant.

        An accountant that says nothing of it, as zCDP of sampled steps, is left out.
        Those called "approximation" may be below the truth.

        Raises:
            AccountingError: an argument is outside its domain.
        """
        relation = NeighboringRelation.of(neighboring_relation)
        delta = validation.delta(delta)
        if not self.entries:
            return dict.fromkeys(ACCOUNTANTS, 0.0)
        answers = all_answers(self.phases, delta, neighboring_relation=relation)
        return {
            name: answer.epsilon
            for name, answer in answers.items()
            if answer.epsilon is not None
        }

    def noise_multiplier(
        self,
        target_epsilon: float,
        sample_rate: float,
        steps: int,
        delta: float,
        accountant: str = "exact",
        neighboring_relation: str = ADD_OR_REMOVE_ONE,
    ) -> float:
        """Return the least noise of further steps that keeps all to the target.

        Raises:
            AccountingError: an argument is outside its domain, or no noise reaches the
                target, as where it is spent already.
        """
        target = (target_epsilon, sample_rate, steps, delta)
        terms = (accountant, neighboring_relation)
        return calibration.noise_multiplier(*target, *terms, before=self.phases)

    def sample_rate(
        self,
        target_epsilon: float,
        noise_multiplier: float,
        steps: int,
        delta: float,
        accountant: str = "exact",
        neighboring_relation: str = ADD_OR_REMOVE_ONE,
    ) -> float:
        """Return the largest rate of further steps that keeps all to the target.

        Raises:
            AccountingError: as ``noise_multiplier``.
        """
        target = (target_epsilon, noise_multiplier, steps, delta)
        terms = (accountant, neighboring_relation)
        return calibration.sample_rate(*target, *terms, before=self.phases)

    def steps(
        self,
        target_epsilon: float,
        sample_rate: float,
        noise_multiplier: float,
        delta: float,
        accountant: str = "exact",
        neighboring_relation: str = ADD_OR_REMOVE_ONE,
    ) -> int:
        """Return how many further steps keep all to the target, 0 if it is spent.

        Raises:
            AccountingError: an argument is outside its domain.
        """
        target = (target_epsilon, sample_rate, noise_multiplier, delta)
        terms = (accountant, neighboring_relation)
        return calibration.steps(*target, *terms, before=self.phases)

    def privacy_loss_distribution(
        self,
        neighboring_relation: str = ADD_OR_REMOVE_ONE,
        interval: float | None = None,
    ) -> PrivacyLossDistribution:
        """Return the privacy loss of all, to be stored, or composed with others."""
        return PrivacyLossDistribution.of(self.phases, neighboring_relation, interval)

    def rdp_curve(self, neighboring_relation: str = ADD_OR_REMOVE_ONE) -> RdpCurve:
        """Return Rényi's divergences of all, to be stored, or added to others."""
        return RdpCurve.of(self.phases, neighboring_relation)

    def trade_off(
        self,
        false_positive_rates: Sequence[float],
        accountant: str = "exact",
        neighboring_relation: str = ADD_OR_REMOVE_ONE,
    ) -> list[Interval]:
        """Return the largest true positive rate at each false positive rate.

        Of the best attack on everything that was done, from below and from above.

        Raises:
            AccountingError: as ``epsilon``.
        """
        terms = (accountant, neighboring_relation)
        return trade_off_intervals(self.phases, false_positive_rates, *terms)

    def to_json(self) -> str:
        """Return a checkpoint."""
        entries = [asdict(entry) for entry in self.entries]
        return json.dumps({"version": VERSION, "entries": entries}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what ``to_json`` wrote.

        Raises:
            AccountingError: it is something else: nothing is guessed.
        """
        try:
            data: dict[str, Any] = json.loads(text)
            if data["version"] != VERSION or data["version"] is True:
                validation.refuse("version", f"{VERSION}", data["version"])
            return cls(
                [
                    Entry(**{**entry, "phase": Phase(**entry["phase"])})
                    for entry in data["entries"]
                ]
            )
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise AccountingError(
                f"odometer must be a checkpoint of an odometer, got {text[:80]!r}. "
                "Pass what to_json returned.",
                field="odometer",
            ) from error
