"""The entries of an odometer as plain data, and their JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.phase import AllocationPhase, phase_of
from dpsgd_explorer.accounting.mechanisms.noise import ADDED_MECHANISMS, Mechanism
from dpsgd_explorer.accounting.privacy_loss_distribution import PrivacyLossDistribution
from dpsgd_explorer.accounting.sampling_schemes import RANDOM_ALLOCATION
from dpsgd_explorer.errors import AccountingError

#: Version of the stored JSON.
VERSION = 1
DP_SGD, GAUSSIAN = "dp_sgd", "gaussian"
MECHANISMS = (DP_SGD, GAUSSIAN, RANDOM_ALLOCATION)
#: Errors of a text that is not JSON.
NOT_JSON = (json.JSONDecodeError, UnicodeDecodeError)
#: Name of a stored privacy loss distribution.
DISTRIBUTION = "privacy_loss_distribution"


@dataclass(frozen=True)
class Entry:
    """Steps of DP-SGD, or a Gaussian query.

    Attributes:
        label: Name for display.
        mechanism: One of MECHANISMS.
        phase: Steps of the mechanism, as an accountant counts them.

    Raises:
        AccountingError: the mechanism is unknown, or is not that of the phase.
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
        has_slots = isinstance(self.phase, AllocationPhase)
        if has_slots != (self.mechanism == RANDOM_ALLOCATION):
            rule = f"{RANDOM_ALLOCATION!r} for a phase with slots, and only for it"
            validation.refuse("mechanism", rule, self.mechanism)


@dataclass(frozen=True)
class MechanismEntry:
    """A mechanism other than Gaussian noise, and how often it ran.

    Attributes:
        label: Name for display.
        mechanism: The mechanism, or its privacy loss distribution.
        count: Repetitions, at least 1.

    Raises:
        AccountingError: an attribute is outside its domain.
    """

    label: str
    mechanism: Mechanism | PrivacyLossDistribution
    count: int

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Mechanism | PrivacyLossDistribution):
            rule = (
                "LaplaceMechanism, DiscreteGaussianMechanism, RandomizedResponse, "
                "FixedSizeSteps, EpsilonDelta or PrivacyLossDistribution"
            )
            validation.refuse("mechanism", rule, self.mechanism)
        count = validation.whole("count", self.count, 1, validation.MAX_STEPS)
        object.__setattr__(self, "count", count)


def json_of(entries: Sequence[Entry | MechanismEntry]) -> str:
    """Returns a checkpoint of the entries as JSON."""
    data = {"version": VERSION, "entries": [_data(entry) for entry in entries]}
    return json.dumps(data, allow_nan=False)


def entries_of(text: str) -> list[Entry | MechanismEntry]:
    """Returns the entries of a checkpoint that ``json_of`` returned.

    Raises:
        AccountingError: the text is no such checkpoint.
    """
    try:
        data: dict[str, Any] = json.loads(text)
        if data["version"] != VERSION or data["version"] is True:
            validation.refuse("version", f"{VERSION}", data["version"])
        if unknown := data.keys() - {"version", "entries"}:
            raise KeyError(*unknown)
        return [_entry(entry) for entry in data["entries"]]
    except (KeyError, TypeError, RecursionError, *NOT_JSON) as error:
        raise AccountingError(
            f"odometer must be a checkpoint of an odometer, got {text[:80]!r}. "
            "Pass the text that to_json returned.",
            field="odometer",
        ) from error


def _data(entry: Entry | MechanismEntry) -> dict[str, Any]:
    if isinstance(entry, Entry):
        return asdict(entry)
    of_entry = {"label": entry.label, "count": entry.count}
    if isinstance(entry.mechanism, PrivacyLossDistribution):
        return of_entry | {
            "mechanism": DISTRIBUTION,
            "settings": json.loads(entry.mechanism.to_json()),
        }
    assert is_dataclass(entry.mechanism)
    return of_entry | {
        "mechanism": entry.mechanism.name,
        "settings": asdict(entry.mechanism),
    }


def _entry(data: Mapping[str, Any]) -> Entry | MechanismEntry:
    if "settings" not in data:
        return Entry(**{**data, "phase": phase_of(data["phase"])})
    rest = {key: x for key, x in data.items() if key != "settings"}
    if data["mechanism"] == DISTRIBUTION:
        text = json.dumps(data["settings"])
        rest["mechanism"] = PrivacyLossDistribution.from_json(text)
    else:
        rest["mechanism"] = ADDED_MECHANISMS[data["mechanism"]](**data["settings"])
    return MechanismEntry(**rest)
