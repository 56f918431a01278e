"""The command line: ``dpsgd``, or ``python -m dpsgd_explorer``, and a command.

Each command imports what it needs when it is called: torch takes seconds to load, and
only ``train`` uses it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from dpsgd_explorer import __version__, extras, logs
from dpsgd_explorer.cli.flags import Parser, with_flags
from dpsgd_explorer.errors import (
    AccountingError,
    ConfigError,
    ExplorerError,
    MissingPackageError,
)
from dpsgd_explorer.settings import Settings, choose_data_dir

if TYPE_CHECKING:
    from dpsgd_explorer.experiments.config import RunConfig
    from dpsgd_explorer.experiments.events import Event
    from dpsgd_explorer.training.processes import Alone

NAME = "dpsgd"
FAILED = 1
REFUSED = 2  # a wrong option, setting or installation
STOPPED = 130  # exit code of a shell after Ctrl-C
CLOSED = 141  # exit code of a shell after a reader closed the pipe

MODULES = {
    "data": "Download a data set that is not in the package.",
    "doctor": "Check the configuration line by line; exit code 1 for a fault.",
    "database": "Migrate the database, print its version or back it up.",
    "drain": "Return all runs to the queue and start no run, before an upgrade.",
    "queue": "Show queue, workers and runs of a site; pause or resume the queue.",
    "runs": "End a run of a site, as its operator.",
    "prune": "Delete old runs and shrink the database.",
    "epsilon": "Compute ε of DP-SGD, or the noise for a target ε.",
    "regression": "Release a private linear regression of a table.",
    "verify": "Check the numbers in a receipt against each other, offline.",
}
#: Commands that need the packages of the extra ``site``.
OF_THE_SITE = {
    "database",
    "doctor",
    "drain",
    "prune",
    "queue",
    "runs",
    "serve",
    "worker",
}
USAGE_ERRORS = (AccountingError, ConfigError, MissingPackageError)

Command = Callable[[argparse.Namespace], int]


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns the exit code."""
    _open_closed_streams()
    options, surplus = parser().parse_known_args(arguments)
    if surplus:
        options.parser.error(f"unrecognized arguments: {' '.join(surplus)}")
    command: Command = options.carry_out
    try:
        if options.command in OF_THE_SITE:
            extras.require("this command", *extras.SITE)
        if getattr(options, "data", None) is not None:
            choose_data_dir(options.data)
        code = command(options)
        sys.stdout.flush()
        return code
    except ExplorerError as error:
        print(f"{options.command}: {_message(error, options)}", file=sys.stderr)
        return REFUSED if isinstance(error, USAGE_ERRORS) else FAILED
    except KeyboardInterrupt:
        return STOPPED
    except BrokenPipeError:
        # The reader, such as head, has enough. Python flushes once more when it ends.
        _discard_output()
        return CLOSED
    except OSError as error:
        file = "" if error.filename is None else f"{error.filename}: "
        reason = error.strerror or type(error).__name__
        print(f"{options.command}: {file}{reason}.", file=sys.stderr)
        _discard_output()
        return FAILED


def _open_closed_streams() -> None:
    """Opens the standard streams that the caller closed on the null device.

    Otherwise the next file, such as a database, would get the number of the stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            null_device = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(null_device, mode, encoding="utf-8"))


def _discard_output() -> None:
    """Sends output that cannot be written to the null device."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _message(error: ExplorerError, options: argparse.Namespace) -> str:
    """Returns the text of an error, with names of options if the command has any."""
    renamed: dict[str, str] | None = getattr(options, "renamed", None)
    if renamed is None:
        return str(error)
    flags = {name: f"--{name.replace('_', '-')}" for name in vars(options)} | renamed
    return with_flags(str(error), getattr(error, "field", ""), flags)


def parser() -> argparse.ArgumentParser:
    """Returns the parser of all commands."""
    root = Parser(
        prog=NAME,
        description="Train models with differential privacy, compute ε, audit runs.",
    )
    root.add_argument("--version", action="version", version=f"{NAME} {__version__}")
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, carry_out: Command, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(carry_out=carry_out, parser=command)
        return command

    serve = add("serve", _serve, "Start the website and its worker; Ctrl-C stops both.")
    serve.add_argument(
        "--only",
        choices=("web", "worker"),
        help="start only this part, if the other part runs on another machine",
    )
    worker = add("worker", _work, "Start a worker that trains the queued runs.")
    worker.add_argument(
        "--until-stdin-closes",
        action="store_true",
        help="stop when standard input closes, as when the parent process ends",
    )
    train = add("train", _train, "Run one training job and print its progress.")
    _add_train_options(train)
    _add_data_option(serve, worker, train)
    for name, text in MODULES.items():
        module = import_module(f"dpsgd_explorer.cli.{name}")
        module.add_options(add(name, module.carry_out, text))
    return root


def _add_data_option(*parsers: argparse.ArgumentParser) -> None:
    for parser in parsers:
        parser.add_argument(
            "--data",
            metavar="DIR",
            help="folder of downloaded data sets; by default DPSGD_DATA_DIR",
        )


def _add_train_options(parser: argparse.ArgumentParser) -> None:
    from dpsgd_explorer.cli.train import add_options

    parser.add_argument(
        "--config",
        metavar="FILE",
        required=True,
        help="JSON file with the settings of the run as one object; {} is the default "
        "run; - reads standard input",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--events", metavar="FILE", help="write the events to FILE as JSON lines"
    )
    where.add_argument(
        "--json",
        action="store_true",
        help="write the events to standard output, the progress to standard error",
    )
    add_options(parser)


def _serve(options: argparse.Namespace) -> int:
    from dpsgd_explorer.runs.worker.device_check import with_device
    from dpsgd_explorer.server.supervisor import serve

    settings = Settings.from_environment()
    logs.configure(settings.operation.log_format)
    if options.only != "web":
        with_device(settings)  # the worker looks too; here the error ends the command
    return serve(settings, options.only)


def _work(options: argparse.Namespace) -> int:
    from dpsgd_explorer.runs.worker.consumer import Consumer
    from dpsgd_explorer.runs.worker.device_check import with_device
    from dpsgd_explorer.runs.worker.parent_watch import ParentWatch

    settings = with_device(Settings.from_environment())
    logs.configure(settings.operation.log_format)
    consumer = Consumer(settings, loads_first=True)
    if options.until_stdin_closes:
        ParentWatch(at_end=consumer.stop)
    consumer.run()
    return 0


def _train(options: argparse.Namespace) -> int:
    from dpsgd_explorer.training.processes import SilentError, together

    try:
        with together() as processes:
            return _train_among(processes, options)
    except SilentError:
        return REFUSED


def _train_among(processes: Alone, options: argparse.Namespace) -> int:
    # Settings and file are checked before torch loads, which takes seconds.
    from dpsgd_explorer.cli.train import RunFiles, check_options
    from dpsgd_explorer.experiments.experiment import PerformanceSettings
    from dpsgd_explorer.experiments.kinds import parse
    from dpsgd_explorer.training.processes import check_group

    config = parse(processes.read(lambda: _read_json(options.config)))
    check_options(options, config)
    settings = Settings.from_environment(creates_folder=False)
    performance = PerformanceSettings.from_settings(settings)
    if processes.group is not None:
        check_group(config, settings.device)
        performance = replace(performance, group=processes.group)
    writes = processes.writes
    progress = sys.stderr if options.json else sys.stdout
    # The file of events is opened last: a checkpoint that is refused leaves none.
    files = RunFiles(config, options.checkpoint, performance, writes=writes)
    with _event_file(options) if writes else nullcontext() as lines:
        if lines is not None and not options.json:
            files.cut(lines)
        print(files.note, end="", file=progress)
        for event in files.events():
            if lines is not None:
                line = {"kind": event.kind, "data": event.data}
                print(json.dumps(line, allow_nan=False), file=lines, flush=True)
            if writes and event.kind in ("evaluation", "end"):
                print(_progress(event, config), file=progress, flush=True)
    if writes and options.weights is not None:
        files.save_weights(options.weights, config)
    return 0


def _progress(event: Event, config: RunConfig) -> str:
    """Returns the line that is printed after an evaluation or at the end."""
    from dpsgd_explorer.accounting import round_up
    from dpsgd_explorer.experiments.kinds import KINDS

    data, kind = event.data, KINDS[config.kind]
    epsilon = math.inf if data["epsilon"] is None else data["epsilon"]
    line = (
        f"step {data['step']:>5} of {config.planned_steps}   ε {round_up(epsilon):>6}"
        f"   {kind.reached(data)}   {data['seconds']:.1f} s"
    )
    if event.kind == "evaluation":
        return line
    return f"{line}   {data['reason']}\n{kind.terms(config, data['step'])}"


def _read_json(name: str) -> object:
    """Reads a JSON file.

    Raises:
        ConfigError: the file cannot be read, or it is not valid JSON.
    """
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
    except (ValueError, RecursionError):
        raise ConfigError(
            "--config",
            "--config must hold JSON without numbers of thousands of digits or "
            f"thousands of levels, got {name}.",
        ) from None


def _event_file(options: argparse.Namespace) -> AbstractContextManager[TextIO | None]:
    """Opens the stream or file of the events; yields None without such an option."""
    if options.json:
        return nullcontext(sys.stdout)
    if options.events is None:
        return nullcontext(None)
    return Path(options.events).open("a+", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
