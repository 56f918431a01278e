"""Privacy statements about trainings, with their references."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpsgd_explorer.accounting import AllocationPhase, Phase
from dpsgd_explorer.accounting.registry import deciding_name
from dpsgd_explorer.accounting.sampling_schemes import POISSON, RANDOM_ALLOCATION
from dpsgd_explorer.experiments.accountant_words import CYCLIC_POISSON
from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.experiments.events import changes_of
from dpsgd_explorer.experiments.mid_run import FURTHER, is_counted
from dpsgd_explorer.experiments.schedules import CONSTANT
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.experiments.vocabulary import SETTINGS
from dpsgd_explorer.runs.store.records import Run
from dpsgd_explorer.runs.store.schema import CANCELLED
from dpsgd_explorer.web.content.references import SOURCES
from dpsgd_explorer.web.content.source import Source
from dpsgd_explorer.web.figures.svg import small
from dpsgd_explorer.web.questions.privacy import Epsilon, counter_label
from dpsgd_explorer.web.questions.rounding import need
from dpsgd_explorer.web.questions.run_phases import phases_done, phases_of

RELATIONS = {
    "add_or_remove_one": "two data sets are neighbours if one has one record more",
    "replace_one": "two data sets are neighbours if one record is replaced",
}
STATUS = {
    "exact": "the exact value, rounded up",
    "bound": "an upper bound, rounded up",
    "approximation": "an approximation, which is no guarantee",
}
NO_STATEMENT = (
    "No privacy statement can be made about this run: it added no noise, so it is not "
    "private (ε = ∞)."
)
REFUTED = (
    "No privacy statement can be made about this run: its own audit proves that it "
    "spent more than was promised."
)
# References by accountant, in addition to DP-SGD itself.
COUNTED_WITH = {
    "exact": ("zhu_dong",),
    "glw": ("gopi",),
    "rdp": ("mironov2017", "mironov2019"),
    "gdp": ("dong",),
    "advanced": ("dwork2010",),
    "optimal": ("kairouz",),
}
FILTERED = (
    "the budget that was fixed before the first step, an upper bound: a privacy filter "
    "counted every step (fully adaptive composition)"
)
SAMPLED = {
    POISSON: ("balle_sampling",),
    RANDOM_ALLOCATION: ("feldman_allocation",),
    CYCLIC_POISSON: ("choquette_choo", "balle_sampling"),
}
AUTOMATIC = ("bu",)  # reference of the automatic clipping function


def statement(
    run: Run, spent: Epsilon | None, phases: Sequence[Mapping[str, Any]] = ()
) -> str:
    """Returns the privacy statement of a training run, "" before it has spent any ε.

    Args:
        run: A run of kind "training".
        spent: ε of the run with its terms, None if unknown.
        phases: Data of its log's ``phase`` events.
    """
    if spent is None or not run.has_ended:
        return ""
    if run.is_refuted:
        return REFUTED
    if spent.epsilon is None:
        return NO_STATEMENT
    config = TrainingConfig.parse(run.config)
    steps_taken = steps_done(run, config, phases)
    return " ".join(
        (
            f"{MODELS[config.model].label} was trained on {config.data.label} "
            f"({config.sample_size:,} records) with DP-SGD.",
            f"It is (ε, δ)-differentially private with ε = {spent.epsilon_text} and "
            f"δ = {small(spent.delta)}.",
            f"Unit: one training record; {RELATIONS[spent.neighboring_relation]}.",
            f"Sampling: {sampling_of(run, config, steps_taken)}, independently of all "
            "others.",
            f"Mechanism: {clipping_words(config)}; {mechanism_words(config)}, in all "
            f"{noise_words(steps_taken)} times the sensitivity.",
            *_chosen(run, config, phases),
            f"Accountant: {counter_label(spent.accountant)}; ε is "
            f"{FILTERED if config.is_filtered else STATUS[spent.status]}.",
            "Not covered: the choice of settings and any other run on these records; "
            f"accuracy and loss on the {config.data.test_size:,} test records; losses, "
            "gradient lengths and other diagnostics of the training.",
            f"The noise of this run follows from seed {config.seed}: anyone who knows "
            "the seed can remove it. A model that is released needs noise drawn in "
            "secret.",
        )
    )


def sources(run: Run, spent: Epsilon | None) -> list[str]:
    """Returns the keys of a training run's references, DP-SGD first."""
    config = TrainingConfig.parse(run.config)
    if not config.private:
        return []
    keys = ["abadi"]
    if config.is_filtered:
        keys += ["feldman", "mironov2017", *SAMPLED[POISSON]]
    elif spent is not None and spent.epsilon is not None:
        counted_with = COUNTED_WITH.get(deciding_name(config.accountant), ())
        keys += [*counted_with, *SAMPLED[config.sampling_law]]
    return keys + list(AUTOMATIC if config.clipping_fn == "automatic" else ())


def bibtex(keys: Sequence[str]) -> str:
    """Returns BibTeX entries of references, in order."""
    return "\n\n".join(_entry(SOURCES[key]) for key in keys)


def steps_done(
    run: Run, config: TrainingConfig, phases: Sequence[Mapping[str, Any]]
) -> list[Phase]:
    """Returns the steps done, grouped by noise and sampling probability."""
    is_planned = not any(is_counted(values) for _, values in changes_of(phases))
    planned = config.plan.phases if is_planned else phases_of(phases)[0]
    return phases_done(planned, -(-run.summary["steps"] // config.plan.bands))


def sampling_of(run: Run, config: TrainingConfig, taken: Sequence[Phase]) -> str:
    """Returns the sampling of the steps done; ``taken`` is from ``steps_done``."""
    bands = config.plan.bands
    if bands == 1:
        return sampling_words(taken)
    [rounds] = taken
    return (
        f"cyclic Poisson, every record is in one of {bands} groups, which take turns; "
        f"each of {run.summary['steps']:,} steps uses each record of its group with "
        f"probability {rounds.sample_rate:.4g}"
    )


def sampling_words(phases: Sequence[Phase]) -> str:
    """Returns the sampling, and the number of steps with each probability."""
    [*slots] = {x.slots for x in phases if isinstance(x, AllocationPhase)}
    if slots:
        count = sum(phase.steps for phase in phases)
        return (
            f"random allocation, {count:,} steps; in each epoch of {slots[0]:,} steps "
            "every record joins one step, drawn at random"
        )
    steps: dict[float, int] = {}
    for phase in phases:
        steps[phase.sample_rate] = steps.get(phase.sample_rate, 0) + phase.steps
    words = ", then ".join(
        f"{count:,} steps with probability {rate:.4g}" for rate, count in steps.items()
    )
    return f"Poisson, every record joins each of {words}"


def _chosen(
    run: Run, config: TrainingConfig, phases: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yields a sentence on each choice made while looking, with its condition."""
    condition = "ε holds if this choice used private outputs alone."
    for step, changes in changes_of(phases):
        if FURTHER in changes:
            further = f"for {changes[FURTHER]:,} steps; {condition}"
            yield f"After step {step:,} it was continued by choice {further}"
            continue
        words = ", ".join(
            f"{label_words(name)} = {value}" for name, value in changes.items()
        )
        previous = "" if is_counted(changes) else ", and the above is what held before"
        yield (
            f"After step {step:,} settings were changed by choice ({words}){previous}; "
            f"{condition}"
        )
    if run.state == CANCELLED:
        yield f"It was stopped by choice; {condition}"


def label_words(name: str) -> str:
    """Returns the label of a setting as written within a sentence."""
    label = SETTINGS[name].label
    return label[:1].lower() + label[1:]


def clipping_words(config: TrainingConfig) -> str:
    """Returns the maximum norm of a record's gradient, in words."""
    bound = f"the gradient of each record has L2 norm at most {config.max_grad_norm:g}"
    if config.clipping_schedule == CONSTANT:
        return bound
    return f"{bound} at the start, and {config.clipping_schedule} bounds later"


def mechanism_words(config: TrainingConfig) -> str:
    """Returns how noise is added to the sum of the clipped gradients."""
    added, bands = "Gaussian noise is added to their sum", config.plan.bands
    if bands == 1:
        return added
    before = "step" if bands == 2 else f"{bands - 1} steps"
    return (
        f"{added}, correlated with the noise of the {before} before by a banded "
        "Toeplitz strategy, whose column norm is a factor of the sensitivity"
    )


def noise_words(phases: Sequence[Phase]) -> str:
    """Returns the noise multiplier of the steps, or its range."""
    values = [phase.noise_multiplier for phase in phases]
    low, high = min(values), max(values)
    return need(high) if low == high else f"{need(low)} to {need(high)}"


def _entry(source: Source) -> str:
    names = [name.strip() for name in re.split(r",| and ", source.authors)]
    ascii_name = (
        unicodedata.normalize("NFKD", names[0]).encode("ascii", "ignore").decode()
    )
    first = re.sub(r"\W", "", ascii_name).lower()
    fields = {
        "author": " and ".join(name for name in names if name),
        "title": f"{{{source.title}}}",
        "year": str(source.year),
    }
    if source.arxiv:
        fields |= {"eprint": source.arxiv, "archivePrefix": "arXiv", "url": source.url}
    if source.where:
        fields["howpublished"] = source.where
    lines = ",\n".join(f"  {name} = {{{text}}}" for name, text in fields.items())
    return f"@misc{{{first}{source.year},\n{lines}\n}}"
