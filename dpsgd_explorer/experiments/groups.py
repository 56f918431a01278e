"""Groups of training runs that are launched together.

| purpose | difference between the runs |
|---|---|
| ``sweep`` | one setting, and the seed if each value has several runs |
| ``seeds`` | the seed |
| ``twin`` | private, clipped only, ordinary; and the learning rate of each |

A variation holds the settings in which a run differs from the base.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.experiments.vocabulary import SETTINGS
from dpsgd_explorer.validation import one_of

SWEEP, SEEDS, TWIN = "sweep", "seeds", "twin"
PURPOSES = (SWEEP, SEEDS, TWIN)
FEWEST_RUNS, MOST_RUNS = 2, 20
#: Pairs of settings that exclude each other; a variation with one clears the other.
EXCLUSIVE = (("target_epsilon", "noise_multiplier"), ("steps", "epochs"))
ROLES = ("private", "clipped only", "ordinary")
OF_A_ROLE = frozenset(
    {"private", "noise_multiplier", "target_epsilon", "learning_rate"}
)


@dataclass(frozen=True)
class RunGroup:
    """A group of runs; every instance that ``parse`` returns is valid.

    Attributes:
        purpose: One of ``PURPOSES``.
        setting: Name of the setting that differs, "" for a twin.
        configs: Settings of each run, in the order of the variations.
    """

    purpose: str
    setting: str
    configs: tuple[TrainingConfig, ...]

    @classmethod
    def parse(
        cls, purpose: object, base: object, variations: Sequence[Mapping[str, Any]]
    ) -> Self:
        """Check all settings before any run is created.

        Args:
            purpose: One of ``PURPOSES``.
            base: Settings that all runs share, as JSON values.
            variations: Differing settings, one mapping per run.

        Raises:
            ConfigError: names the invalid setting of the base, else "purpose", or
                "variations" with every invalid value.
        """
        name = one_of("purpose", purpose, PURPOSES)
        shared = TrainingConfig.parse(base)
        _check_number(len(variations))
        setting = _setting(name, variations)
        configs = tuple(_varied(shared, variations))
        _check_distinct(configs)
        if name == TWIN:
            _check_twin(configs)
        return cls(name, setting, configs)

    @property
    def repeats_values(self) -> bool:
        """Return True for a sweep with runs that differ in the seed only."""
        seeds = {config.seed for config in self.configs}
        return self.purpose == SWEEP and self.setting != "seed" and len(seeds) > 1

    def label(self, config: TrainingConfig) -> str:
        """Return the label of a run within this group."""
        seed = f", seed {config.seed}" if self.repeats_values else ""
        return self._value_label(config) + seed

    def _value_label(self, config: TrainingConfig) -> str:
        if self.purpose == TWIN:
            return f"Twin, {role_of(config)}"
        setting = SETTINGS[self.setting]
        value = getattr(config, self.setting)
        if self.setting == "seed":
            return f"Seed {value}"
        if setting.choices:
            return f"{setting.label}: {value}"
        value_text = f"{value:g}" if isinstance(value, float) else f"{value}"
        return f"{setting.symbol or setting.label} = {value_text}"


def role_of(config: TrainingConfig) -> str:
    """Return the role of a run in a twin: private, clipped only or ordinary."""
    if not config.private:
        return ROLES[2]
    return ROLES[1] if config.noise_multiplier == 0 else ROLES[0]


def _check_number(number: int) -> None:
    if not FEWEST_RUNS <= number <= MOST_RUNS:
        raise ConfigError(
            "variations",
            f"variations must be {FEWEST_RUNS} to {MOST_RUNS}, one for each run of the "
            f"group, got {number}.",
        )


def _setting(purpose: str, variations: Sequence[Mapping[str, Any]]) -> str:
    """Return the name of the setting that differs, "" for a twin."""
    if purpose == TWIN:
        return ""
    names = {name for variation in variations for name in variation}
    is_same = all(set(variation) == names for variation in variations)
    if purpose == SEEDS and names != {"seed"}:
        raise ConfigError(
            "variations",
            f"variations must each set the seed and nothing else, got {sorted(names)}.",
        )
    swept = names - {"seed"} or names
    if not is_same or len(swept) != 1:
        raise ConfigError(
            "variations",
            "variations must each set the same one setting, such as learning_rate, "
            f"and may set the seed beside it, got {sorted(names)}.",
        )
    return one_of("variations", swept.pop(), sorted(_settings()))


def _settings() -> set[str]:
    return set(TrainingConfig.model_fields) - {"kind"}


def _varied(
    base: TrainingConfig, variations: Sequence[Mapping[str, Any]]
) -> list[TrainingConfig]:
    """Return the settings of each run; ConfigError names every invalid value."""
    shared, configs = base.model_dump(mode="json"), []
    numbers: dict[str, list[str]] = {}  # runs with a fault, by its message
    for number, variation in enumerate(variations, start=1):
        try:
            configs.append(TrainingConfig.parse(shared | _cleared(variation)))
        except ConfigError as error:
            for text in error.fields.values():
                numbers.setdefault(text, []).append(str(number))
    if numbers:
        faults = (
            f"run{'s' if len(runs) > 1 else ''} {', '.join(runs)}: {text}"
            for text, runs in numbers.items()
        )
        raise ConfigError("variations", " ".join(faults))
    return configs


def _cleared(variation: Mapping[str, Any]) -> dict[str, Any]:
    """Return a variation that also clears the settings that it excludes."""
    values = dict(variation)
    for first, second in EXCLUSIVE:
        for name, excluded in ((first, second), (second, first)):
            if variation.get(name) is not None:
                values.setdefault(excluded, None)
    return values


def _check_distinct(configs: Sequence[TrainingConfig]) -> None:
    counts = Counter(config.model_dump_json() for config in configs)
    repeated = [n for n, c in enumerate(configs, 1) if counts[c.model_dump_json()] > 1]
    if repeated:
        raise ConfigError(
            "variations",
            "variations must differ: runs "
            f"{', '.join(map(str, repeated))} would be the same.",
        )


def _check_twin(configs: Sequence[TrainingConfig]) -> None:
    """Raise ConfigError unless the runs are the three roles, equal in all else."""
    roles = tuple(role_of(config) for config in configs)
    if roles != ROLES:
        raise ConfigError(
            "variations",
            f"variations of a twin must be {', '.join(ROLES)}, in this order (with "
            "noise; noise_multiplier 0; private false), got "
            f"{', '.join(roles)}.",
        )
    for name in ("stop_at_epsilon", "filter_epsilon"):
        if getattr(configs[0], name) is not None:
            raise ConfigError(
                name, f"{name} must be empty in a twin: its runs take the same steps."
            )
    different = {
        name
        for name in _settings() - OF_A_ROLE
        for config in configs[1:]
        if getattr(config, name) != getattr(configs[0], name)
    }
    if different:
        raise ConfigError(
            "variations",
            "variations of a twin may differ in privacy and learning_rate only, got "
            f"others in {', '.join(sorted(different))}.",
        )
