"""``dpsgd epsilon``: ε of DP-SGD, with the terms of the guarantee."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict
from fractions import Fraction
from typing import Any, cast

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import (
    NAMES,
    SAMPLINGS,
    Phase,
    group_epsilon_interval,
    round_up,
)
from dpsgd_explorer.accounting.batches import (
    Batches,
    batches_answers,
    batches_interval,
)
from dpsgd_explorer.accounting.calibration import allocated_noise
from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.intervals import APPROXIMATION, Interval, Status
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.queries import DOES_NOT_APPLY, Answer
from dpsgd_explorer.accounting.registry import ALL
from dpsgd_explorer.accounting.sampling_schemes import (
    POISSON,
    RANDOM_ALLOCATION,
    TRUNCATED_POISSON,
    allocation_of,
)
from dpsgd_explorer.accounting.target import Target
from dpsgd_explorer.cli.flags import DELTA_HELP, number, whole_number

SIGMA_DIGITS = 4
EPSILON_DIGITS = 4
#: {Python name: option} of options with another name in Python.
RENAMED = {"neighboring_relation": "--relation", "records": "--records-per-person"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "--sample-rate",
        type=sample_rate,
        required=True,
        help="batch size / N, in (0, 1], a number or a fraction such as 256/60000; "
        f"1/slots for {RANDOM_ALLOCATION}",
    )
    noise_or_target = parser.add_mutually_exclusive_group(required=True)
    noise_or_target.add_argument(
        "--noise-multiplier",
        type=number,
        help="standard deviation of the noise / clipping bound; prints ε",
    )
    noise_or_target.add_argument(
        "--target-epsilon", type=number, help="prints the noise that this ε needs"
    )
    parser.add_argument(
        "--steps",
        type=whole_number,
        required=True,
        help="number of updates of the model",
    )
    parser.add_argument("--delta", type=number, required=True, help=DELTA_HELP)
    names = ", ".join(NAMES)
    parser.add_argument(
        "--accountant", default="exact", help=f"one of {names} (default: %(default)s)"
    )
    parser.add_argument(
        "--relation",
        default=ADD_OR_REMOVE_ONE,
        help=f"{ADD_OR_REMOVE_ONE} or {REPLACE_ONE} (default: %(default)s)",
    )
    parser.add_argument(
        "--sampling",
        default=POISSON,
        help=f"one of {', '.join(SAMPLINGS)} (default: %(default)s)",
    )
    parser.add_argument(
        "--max-batch-size",
        type=whole_number,
        help=f"maximum number of records per batch, for {TRUNCATED_POISSON}",
    )
    parser.add_argument(
        "--sample-size",
        type=whole_number,
        help=f"number of records in the data, for {TRUNCATED_POISSON}",
    )
    parser.add_argument(
        "--records-per-person",
        type=whole_number,
        default=1,
        metavar="K",
        help="ε of a person with K records, all added or removed together (default: 1)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(renamed=RENAMED)


def sample_rate(text: str) -> float:
    """Returns a sample rate from a number or a fraction, such as 0.01 or 256/60000.

    Raises:
        ArgumentTypeError: the text is neither.
    """
    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"must be a number, or a batch size over N as 256/60000, got {text!r}"
        ) from None


def carry_out(options: argparse.Namespace) -> int:
    """Prints ε, or the noise for a target ε; returns 0 if there is an answer."""
    validation.one_of(
        "neighboring_relation", options.relation, tuple(NeighboringRelation)
    )
    _check_group(options)
    noise = options.noise_multiplier
    sigma = _noise(options) if noise is None else noise
    run = Phase(options.sample_rate, sigma, options.steps)
    answers = _answers(run, options)
    if options.json:
        print(json.dumps(_records(run, answers, options), allow_nan=False))
    else:
        print(_text(run, answers, options))
    return 0


def _check_group(options: argparse.Namespace) -> None:
    """Checks the options with which several records of a person can be combined.

    Raises:
        AccountingError: an option has no answer for several records.
    """
    if options.records_per_person == 1:
        return
    required = {
        "accountant": ("exact", options.accountant),
        "neighboring_relation": (ADD_OR_REMOVE_ONE, options.relation),
        "sampling": (POISSON, options.sampling),
    }
    for name, (value, given) in required.items():
        if given != value:
            validation.refuse(name, f"{value!r} for several records a person", given)
    if options.noise_multiplier is None:
        validation.refuse("records", "1 for a target", options.records_per_person)


def _noise(options: argparse.Namespace) -> float:
    """Returns the noise multiplier for the target ε, rounded up."""
    if options.sampling == RANDOM_ALLOCATION:
        run = allocation_of(Phase(options.sample_rate, 1.0, options.steps))
        target = Target.of(
            options.target_epsilon, options.delta, options.accountant, options.relation
        )
        return _rounded_up(allocated_noise(target, run.slots, run.steps))
    if options.sampling != POISSON:
        rule = f"{POISSON!r} or {RANDOM_ALLOCATION!r} for a target"
        validation.refuse("sampling", rule, options.sampling)
    least = accounting.noise_multiplier(
        target_epsilon=options.target_epsilon,
        sample_rate=options.sample_rate,
        steps=options.steps,
        delta=options.delta,
        accountant=options.accountant,
        neighboring_relation=options.relation,
    )
    return _rounded_up(least)


def _rounded_up(least: float) -> float:
    digits: int = 10**SIGMA_DIGITS
    return math.ceil(least * digits) / digits


def _answers(run: Phase, options: argparse.Namespace) -> dict[str, Interval | str]:
    """Returns the answer of each requested accountant, or why it has no answer.

    Raises:
        AccountingError: an argument is outside its domain, or the only requested
            accountant has no answer.
    """
    records = options.records_per_person
    if records != 1:
        group = group_epsilon_interval([run], options.delta, records)
        return {options.accountant: group}
    batches = Batches(options.sampling, options.sample_size, options.max_batch_size)
    if options.accountant == ALL:
        batch_answers = batches_answers(run, options.delta, options.relation, batches)
        return {name: _interval(answer) for name, answer in batch_answers.items()}
    terms = (options.delta, options.accountant, options.relation)
    return {options.accountant: batches_interval(run, *terms, batches)}


def _interval(answer: Answer) -> Interval | str:
    if answer.epsilon is None:
        return answer.reason
    upper = None if answer.status == APPROXIMATION else answer.epsilon
    return Interval(answer.epsilon, None, upper, cast(Status, answer.status))


def _text(
    run: Phase, answers: dict[str, Interval | str], options: argparse.Namespace
) -> str:
    """Returns the answers as text: one with its terms, or one line per accountant."""
    from dpsgd_explorer.experiments.accountant_words import claim, terms_of

    head = f"σ = {run.noise_multiplier}, {run.steps} steps:"
    terms = terms_of(run.sample_rate, options.delta, options.relation, options.sampling)
    if options.accountant == ALL:
        lines = [_line(name, answer) for name, answer in answers.items()]
        return "\n".join([f"{head} {terms}", *lines])
    [(name, answer)] = answers.items()
    assert isinstance(answer, Interval)
    shown = round_up(answer.value, EPSILON_DIGITS)
    records = options.records_per_person
    of = "" if records == 1 else f" for {records} records of one person"
    return f"{head} ε = {shown}{of}\n{terms}; {claim(name, answer.status)}"


def _line(name: str, answer: Interval | str) -> str:
    from dpsgd_explorer.experiments.accountant_words import LABELS, claim

    if isinstance(answer, str):
        return f"ε = {'–':>12}  {LABELS[name]}: {DOES_NOT_APPLY}; {answer}"
    shown = round_up(answer.value, EPSILON_DIGITS)
    return f"ε = {shown:>12}  {claim(name, answer.status)}"


def _records(
    run: Phase, answers: dict[str, Interval | str], options: argparse.Namespace
) -> list[dict[str, Any]] | dict[str, Any]:
    """Returns the answers as the HTTP API does, always with the terms."""
    shared = {
        "delta": options.delta,
        "neighboring_relation": options.relation,
        "sampling": options.sampling,
        **asdict(run),
    }
    if options.records_per_person != 1:
        shared["records_per_person"] = options.records_per_person
    records = [
        {"accountant": name, **_numbers(answer), **shared}
        for name, answer in answers.items()
    ]
    return records if options.accountant == ALL else records[0]


def _numbers(answer: Interval | str) -> dict[str, Any]:
    if isinstance(answer, str):
        nothing = dict.fromkeys(("value", "lower", "upper"))
        return {**nothing, "status": DOES_NOT_APPLY, "reason": answer}
    numbers = asdict(answer)
    infinite = {name for name, x in numbers.items() if x == math.inf}
    return {name: None if name in infinite else x for name, x in numbers.items()}
