"""The command line: ``python -m dpsgd_explorer`` and one of its commands.

Each command imports what it needs when it is called: torch takes seconds to load, and
only ``train`` uses it.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from dpsgd_explorer.errors import ConfigError, ExplorerError
from dpsgd_explorer.settings import Settings

if TYPE_CHECKING:
    from dpsgd_explorer.training.config import TrainingConfig
    from dpsgd_explorer.training.events import Event

REFUSED = 2
STOPPED = 130  # what a shell says after Ctrl-C
SIGMA_DIGITS = 4
EPSILON_DIGITS = 4

Command = Callable[[argparse.Namespace], int]


def main(arguments: list[str] | None = None) -> int:
    """Carry out one command; return the exit code."""
    options = _parser().parse_args(arguments)
    command: Command = options.carry_out
    try:
        return command(options)
    except ExplorerError as error:
        print(f"{options.command}: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        return STOPPED


def _parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="dpsgd_explorer",
        description="See, run and check differentially private training.",
    )
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, carry_out: Command, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(carry_out=carry_out)
        return command

    add("serve", _serve, "Start the pages and the worker; Ctrl-C ends both.")
    worker = add("worker", _work, "Start a worker that trains the runs in the queue.")
    worker.add_argument(
        "--until-stdin-closes",
        action="store_true",
        help="end when standard input does, and so with whoever started this",
    )
    _add_train_options(add("train", _train, "Train one run and tell how it goes."))
    _add_epsilon_options(
        add("epsilon", _epsilon, "Tell what DP-SGD spends, or the noise for a target.")
    )
    _add_regression(add)
    return root


def _add_train_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        required=True,
        help="JSON object of settings, {} for the default run; - is standard input",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--events", metavar="FILE", help="write the events there as JSON lines"
    )
    where.add_argument(
        "--json",
        action="store_true",
        help="write the events to standard output, the progress to standard error",
    )


def _add_epsilon_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sample-rate",
        type=sample_rate,
        required=True,
        help="batch size / N, in (0, 1]; a fraction as 256/60000 will do",
    )
    known = parser.add_mutually_exclusive_group(required=True)
    known.add_argument(
        "--noise-multiplier", type=float, help="noise std / clipping bound; gives ε"
    )
    known.add_argument("--target-epsilon", type=float, help="gives the noise for it")
    parser.add_argument("--steps", type=int, required=True, help="updates of the model")
    parser.add_argument("--delta", type=float, required=True, help="below 1 / N")
    parser.add_argument("--accountant", default="exact", help="default: %(default)s")


def _add_regression(add: Callable[..., argparse.ArgumentParser]) -> None:
    from dpsgd_explorer.regression import command

    text = "Release a private linear regression of a table."
    command.add_options(add("regression", command.carry_out, text))


def sample_rate(text: str) -> float:
    """Read 0.01 or 256/60000."""
    return float(Fraction(text))


def _serve(_options: argparse.Namespace) -> int:
    from dpsgd_explorer.serve import serve

    return serve(Settings.from_environment())


def _work(options: argparse.Namespace) -> int:
    import logging

    from dpsgd_explorer.runs.lifeline import Lifeline
    from dpsgd_explorer.runs.worker import Consumer

    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    consumer = Consumer(Settings.from_environment())
    if options.until_stdin_closes:
        Lifeline(at_end=consumer.stop)
    consumer.run()
    return 0


def _train(options: argparse.Namespace) -> int:
    # Settings and file are checked before torch is loaded: mistakes are told at once.
    from dpsgd_explorer.training.config import TrainingConfig

    config = TrainingConfig.parse(_read_json(options.config))
    progress = sys.stderr if options.json else sys.stdout
    with _event_file(options) as lines:
        for event in _events(config):
            if lines is not None:
                line = {"kind": event.kind, "data": event.data}
                print(json.dumps(line, allow_nan=False), file=lines, flush=True)
            if event.kind in ("evaluation", "end"):
                print(_progress(event, config), file=progress, flush=True)
    return 0


def _events(config: TrainingConfig) -> Iterator[Event]:
    from dpsgd_explorer.training.loop import train
    from dpsgd_explorer.training.performance import PerformanceSettings

    performance = PerformanceSettings.from_settings(Settings.from_environment())
    return train(config, performance=performance)


def _progress(event: Event, config: TrainingConfig) -> str:
    """Return what to tell a person after an evaluation, and at the end."""
    from dpsgd_explorer.accounting import round_up

    data = event.data
    epsilon = math.inf if data["epsilon"] is None else data["epsilon"]
    line = (
        f"step {data['step']:>5} of {config.plan.steps}   ε {round_up(epsilon):>6}   "
        f"accuracy {data['test_accuracy']:.2%}   {data['seconds']:.1f} s"
    )
    if event.kind == "evaluation":
        return line
    terms = _terms(config.plan.sample_rate, config.delta, config.accountant)
    if not config.plan.is_private:
        terms = "no noise was added: not private"
    return f"{line}   {data['reason']}\n{terms}"


def _epsilon(options: argparse.Namespace) -> int:
    from dpsgd_explorer import accounting

    run = {
        "sample_rate": options.sample_rate,
        "steps": options.steps,
        "delta": options.delta,
        "accountant": options.accountant,
    }
    sigma = options.noise_multiplier
    if sigma is None:
        exact = accounting.noise_multiplier(
            target_epsilon=options.target_epsilon, **run
        )
        sigma = math.ceil(exact * 10**SIGMA_DIGITS) / 10**SIGMA_DIGITS
    epsilon = accounting.epsilon(noise_multiplier=sigma, **run)
    shown = accounting.round_up(epsilon, EPSILON_DIGITS)
    print(f"σ = {sigma}, {options.steps} steps: ε = {shown}")
    print(_terms(options.sample_rate, options.delta, options.accountant))
    return 0


def _terms(sample_rate: float, delta: float, accountant: str) -> str:
    """Return what an epsilon means nothing without."""
    from dpsgd_explorer.accounting import ACCOUNTANTS

    entry = ACCOUNTANTS[accountant]
    is_said = entry.label.lower() == entry.status
    counted = entry.label if is_said else f"{entry.label}: {entry.status}"
    return (
        f"δ = {delta:g}, adding or removing one record, Poisson sampling at rate "
        f"{sample_rate:.6g}; {counted}"
    )


def _read_json(name: str) -> object:
    """Read a JSON file; ConfigError says what is wrong with it."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(
            "--config", f"--config must be a file that can be read: {name}: {reason}."
        ) from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(
            "--config",
            f"--config must hold JSON, line {error.lineno} does not: {error.msg}.",
        ) from None


def _event_file(options: argparse.Namespace) -> AbstractContextManager[TextIO | None]:
    """Open where the events go; None: nowhere."""
    if options.json:
        return nullcontext(sys.stdout)
    if options.events is None:
        return nullcontext(None)
    try:
        return Path(options.events).open("w", encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            "--events",
            "--events must be a file that can be written: "
            f"{options.events}: {error.strerror}.",
        ) from None


if __name__ == "__main__":
    sys.exit(main())
