"""``dpsgd regression``: a private linear regression on a CSV file."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpsgd_explorer.accounting import round_up
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.cli.flags import DELTA_HELP, number, seed, whole_number
from dpsgd_explorer.cli.table_file import Table, read_table
from dpsgd_explorer.errors import DivergedError
from dpsgd_explorer.regression import checks, noisy_gradient_descent
from dpsgd_explorer.regression.checks import Array
from dpsgd_explorer.regression.perturbation import RIDGE_FACTOR, adassp, ssp
from dpsgd_explorer.regression.preprocessing import ROWS, Prepared, Preprocessing

ROWS_BECOME = {
    "refuse": "of norm at most",
    "clip": "scaled down to norm",
    "normalize": "scaled to norm",
}
METHODS = ("adassp", "ssp", "noisy_gd")
#: {option: methods that use it}; all methods use the other options.
METHODS_OF = {
    "variant": ("adassp", "ssp"),
    "ridge": ("ssp",),
    "ridge_factor": ("adassp",),
    "steps": ("noisy_gd",),
    "noise_multiplier": ("noisy_gd",),
    "learning_rate": ("noisy_gd",),
    "public_size": ("noisy_gd",),
}
#: {Python name: option} of options with another name in Python.
RENAMED = {
    "feature_ranges": "--bounds",
    "neighboring_relation": "--relation",
    "target_epsilon": "--epsilon",
}


@dataclass(frozen=True, eq=False)
class Released:
    """Coefficients with their ε.

    Attributes:
        theta: [d].
        epsilon: Exact ε.
        descent: Steps, noise and learning rate; None of a method without steps.
    """

    theta: Array
    epsilon: float
    descent: dict[str, Any] | None = None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    data = parser.add_argument_group("data")
    data.add_argument(
        "--csv",
        type=Path,
        metavar="FILE",
        help="table of numbers with a header line (default: California housing)",
    )
    data.add_argument("--target", help="column to predict, required with --csv")
    data.add_argument(
        "--bounds",
        default="",
        metavar="NAME=NUMBER,…",
        help="maximum absolute value of each feature, or its range, known without "
        'looking at the data, for example --bounds "rooms=10,age=18 to 80"; features '
        "are divided by it",
    )
    data.add_argument(
        "--x-bound",
        type=number,
        default=1.0,
        help="maximum norm of a row after this division (default: %(default)g)",
    )
    data.add_argument(
        "--y-bound",
        type=number,
        help="maximum absolute value of a label, required with --csv (the "
        "built-in data has its own)",
    )
    data.add_argument(
        "--rows",
        choices=ROWS,
        help="treatment of rows longer than --x-bound (default: refuse; normalize for "
        "the built-in data)",
    )
    price = parser.add_argument_group("privacy")
    price.add_argument(
        "--epsilon",
        type=number,
        help="privacy budget of the release; noisy_gd takes two of --epsilon, --steps "
        "and --noise-multiplier and computes the third",
    )
    price.add_argument("--delta", type=number, required=True, help=DELTA_HELP)
    price.add_argument(
        "--relation",
        choices=checks.RELATIONS,
        default=ADD_OR_REMOVE_ONE,
        help="how neighboring tables differ (default: %(default)s)",
    )
    how = parser.add_argument_group("method")
    how.add_argument(
        "--method",
        choices=METHODS,
        default="adassp",
        help="adassp and ssp add noise to XᵀX and Xᵀy, noisy_gd to each gradient "
        "(default: %(default)s)",
    )
    how.add_argument(
        "--variant",
        choices=checks.VARIANTS,
        help="how ssp and adassp split ε; tight needs less noise (default: tight)",
    )
    how.add_argument(
        "--ridge",
        type=number,
        help="for ssp: number added to the diagonal of XᵀX (default: 0)",
    )
    how.add_argument(
        "--ridge-factor",
        type=number,
        help="for adassp: ridge as a multiple of the noise's norm (default: "
        f"{RIDGE_FACTOR:g})",
    )
    how.add_argument("--steps", type=whole_number, help="for noisy_gd")
    how.add_argument("--noise-multiplier", type=number, help="for noisy_gd")
    how.add_argument(
        "--learning-rate",
        type=_rate,
        help="for noisy_gd: a number, public, or released (paid from the same ε)",
    )
    how.add_argument(
        "--public-size",
        type=whole_number,
        help="number of rows, if it is public; --learning-rate public needs it "
        "(default: number of rows of the built-in data)",
    )
    how.add_argument(
        "--seed",
        type=seed,
        help="makes the noise repeatable; the release is then not private",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(renamed=RENAMED)


def _rate(text: str) -> float | str:
    """Returns a learning rate: a number, or the text if it is not a number."""
    try:
        return float(text)
    except ValueError:
        return text


def carry_out(options: argparse.Namespace) -> int:
    """Releases coefficients and prints them with their ε; returns 0 on success."""
    _check_options(options)
    table, preprocessing = _data(options)
    prepared = preprocessing.apply(table.X, table.y)
    released = _release(options, prepared, preprocessing.y_bound)
    answer = {
        "method": options.method,
        "theta": dict(zip(table.names, released.theta.tolist(), strict=True)),
        "feature_ranges": list(preprocessing.feature_ranges),
        "x_bound": preprocessing.x_bound,
        "y_bound": preprocessing.y_bound,
        "rows": preprocessing.rows,
        "epsilon": released.epsilon,
        "delta": options.delta,
        "neighboring_relation": options.relation,
        "is_private": options.seed is None,
    } | ({"descent": released.descent} if released.descent else {})
    print(json.dumps(answer, allow_nan=False) if options.json else _told(answer))
    print(_owner_only(prepared, preprocessing), file=sys.stderr)
    return 0


def _check_options(options: argparse.Namespace) -> None:
    """Raises ConfigError for an option without effect, or a missing option."""
    for name, methods in METHODS_OF.items():
        if getattr(options, name) is not None and options.method not in methods:
            checks.refuse(
                name,
                f"{name} must be left out with --method {options.method}: it is for "
                f"{' and '.join(methods)}.",
            )
    if (options.csv is None) != (options.target is None):
        checks.refuse(
            "--target",
            "--target NAME must be given with --csv FILE, and only with it: NAME is "
            "the column of the table to predict.",
        )
    if options.epsilon is None and options.method != "noisy_gd":
        checks.refuse(
            "--epsilon", f"--epsilon must be stated for {options.method}: its budget."
        )


def _data(options: argparse.Namespace) -> tuple[Table, Preprocessing]:
    """Returns the table, and the preprocessing that clips it to the stated bounds."""
    ranges: tuple[float, ...] = ()
    y_bound: float | None = None
    if options.csv is None:
        from dpsgd_explorer.experiments.california_housing import housing

        table = Table(*housing.load(), housing.FEATURES, housing.LABEL)
        ranges, y_bound, rows = housing.RANGES, housing.NOTEBOOK.y_bound, "normalize"
    else:
        table = read_table(options.csv, options.target)
        rows = "refuse"
    if options.bounds or options.csv:
        ranges = parse_bounds(options.bounds, table.names)
    bound = y_bound if options.y_bound is None else options.y_bound
    if bound is None:
        checks.refuse(
            "--y-bound",
            "--y-bound must be stated: the largest size a label can have, known "
            "without looking at the data.",
        )
    return table, Preprocessing(ranges, options.x_bound, bound, options.rows or rows)


def parse_bounds(text: str, names: tuple[str, ...]) -> tuple[float, ...]:
    """Returns the bound of each feature from ``name=number,name=number``.

    Raises:
        ConfigError: a feature has no bound, a bound is not a number, or a name is
            unknown.
    """
    ranges: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, value = (word.strip() for word in part.rpartition("="))
        if name in ranges:
            checks.refuse("--bounds", f"--bounds must name each feature once: {name}.")
        try:
            ends = [float(end) for end in value.split(" to ")]
        except ValueError:
            ends = []
        # One number is the largest size; of a range, the end farther from 0 counts.
        is_range = len(ends) == 2 and ends[0] < ends[1]
        if not is_range and not (len(ends) == 1 and ends[0] > 0):
            checks.refuse(
                "--bounds",
                "--bounds must be NAME=NUMBER above 0 or NAME=LEAST to MOST, got "
                f"{part!r}.",
            )
        ranges[name] = max(map(abs, ends))
    strange = [name for name in ranges if name not in names]
    missing = [name for name in names if name not in ranges]
    if strange or missing:
        checks.refuse(
            "--bounds",
            "--bounds must give each feature the range it can have, known without "
            f"looking at the data; missing: {', '.join(missing) or 'none'}; unknown: "
            f"{', '.join(strange) or 'none'}.",
        )
    return tuple(ranges[name] for name in names)


def _release(
    options: argparse.Namespace, prepared: Prepared, y_bound: float
) -> Released:
    """Returns the released coefficients with their ε."""
    shared: dict[str, Any] = {
        "delta": options.delta,
        "x_bound": options.x_bound,
        "y_bound": y_bound,
        "neighboring_relation": options.relation,
        "rng": np.random.default_rng(options.seed),
    }
    if options.method == "noisy_gd":
        return _descended(options, prepared, shared)
    shared["epsilon"] = options.epsilon
    shared |= {
        name: value
        for name in ("variant", "ridge", "ridge_factor")
        if (value := getattr(options, name)) is not None
    }
    release_of = ssp if options.method == "ssp" else adassp
    release = release_of(prepared.X, prepared.y, **shared)
    return Released(release.theta, release.epsilon)


def _descended(
    options: argparse.Namespace, prepared: Prepared, shared: dict[str, Any]
) -> Released:
    if options.learning_rate == "notebook":
        checks.refuse(
            "--learning-rate",
            "--learning-rate must not come from the data for a release; released is "
            "the same, paid for.",
        )
    path = noisy_gradient_descent(
        prepared.X,
        prepared.y,
        target_epsilon=options.epsilon,
        steps=options.steps,
        noise_multiplier=options.noise_multiplier,
        learning_rate=options.learning_rate,
        public_size=_public_size(options),
        **shared,
    )
    if path.diverged:
        raise DivergedError(
            "the descent must stay finite, and it left the finite numbers: "
            f"learning_rate {path.learning_rate:g} is too large. Its budget is "
            "spent; the next try costs again."
        )
    descent = {
        "steps": path.steps[-1],
        "noise_multiplier": path.noise_multiplier,
        "learning_rate": path.learning_rate,
        "rate_noise_multiplier": path.rate_noise_multiplier,
    }
    return Released(path.theta, path.epsilon, descent)


def _public_size(options: argparse.Namespace) -> int | None:
    """Returns the number of rows that a learning rate may depend on."""
    if options.csv is None and options.public_size is None:
        from dpsgd_explorer.experiments.california_housing import housing

        return housing.SIZE
    size: int | None = options.public_size
    return size


def _told(answer: dict[str, Any]) -> str:
    """Returns the answer as text."""
    lines = [f"{name:>12}  {value: .6g}" for name, value in answer["theta"].items()]
    seeded = "" if answer["is_private"] else "; seeded, therefore not private"
    return "\n".join(
        [
            *lines,
            f"{answer['method']}, ε = {round_up(answer['epsilon'], 4)} (exact), "
            f"δ = {answer['delta']:g}, {answer['neighboring_relation']}{seeded}",
            *_of_descent(answer.get("descent")),
            "Coefficients are for rows divided by the stated ranges and then "
            f"{ROWS_BECOME[answer['rows']]} {answer['x_bound']:g}.",
        ]
    )


def _of_descent(descent: dict[str, Any] | None) -> list[str]:
    """Returns a line about the descent's steps; [] for other methods."""
    if descent is None:
        return []
    rate = f"learning rate {descent['learning_rate']:.3g}"
    if descent["rate_noise_multiplier"] is not None:
        rate += " released from the same ε"
    noise = descent["noise_multiplier"]
    return [f"{descent['steps']:,} steps with σ = {noise:.4g}, {rate}."]


def _owner_only(prepared: Prepared, preprocessing: Preprocessing) -> str:
    """Returns the text on clipped rows and labels, which is not private."""
    count = len(prepared.X)
    rows = (
        f"{prepared.shortened_rows} of {count} rows were longer than "
        f"{preprocessing.x_bound:g} and were scaled down"
        if preprocessing.rows == "clip"
        else f"all {count} rows were scaled to norm {preprocessing.x_bound:g}"
        if preprocessing.rows == "normalize"
        else f"all {count} rows are within the bounds"
    )
    return (
        f"For the owner of the data only, not private: {rows}; "
        f"{prepared.clipped_labels} labels were clipped at {preprocessing.y_bound:g}."
        + _collinear(prepared)
    )


def _collinear(prepared: Prepared) -> str:
    """Returns a warning if least squares has more than one solution."""
    rank, dim = np.linalg.matrix_rank(prepared.X), prepared.X.shape[1]
    if rank == dim:
        return ""
    return (
        f" The {dim} columns have rank {rank} only (constant, collinear, or fewer rows "
        "than columns): no coefficient has a meaning of its own."
    )
