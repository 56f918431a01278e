"""``python -m benchmarks`` measures, stores results, and writes them into the docs.

``python -m benchmarks --help`` lists the commands.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from benchmarks import (
    accounting,
    correlated_noise,
    features,
    peers,
    random_allocation,
    record,
    regression,
    report,
    steps,
    wall,
)
from benchmarks.accelerator import measure as accelerator
from benchmarks.accuracy import measure as accuracy
from benchmarks.architectures import measure as architectures
from benchmarks.distributed import ranks
from benchmarks.engine import checks, correlated_steps, dp_trainer, noise, overhead
from benchmarks.fleet import load as fleet
from benchmarks.models import CASES
from benchmarks.site import (
    device_curve,
    first_point,
    hostile,
    main_thread,
    opening,
    service,
    trainer,
    widgets,
)
from benchmarks.ways import WAYS
from dpsgd_explorer.training.timing import one_thread

ALONE: dict[str, tuple[Callable[[], object], str]] = {
    "wall": (wall.main, "Wall-clock time of each model, on two threads."),
    "architectures": (
        architectures.main,
        "Transformers, ResNet-18 and LSTM, LoRA and biases, with physical batches.",
    ),
    "features": (features.main, "Milliseconds per image for the scattering features."),
    "checks": (checks.main, "CPU time of the checks in each step of the engine."),
    "overhead": (overhead.main, "Fixed overhead of a private step: very small layers."),
    "dp_trainer": (
        dp_trainer.main,
        "CPU time per sample of DPTrainer, relative to transformers' Trainer.",
    ),
    "noise": (noise.main, "Nanoseconds per noise value: secure noise and torch's."),
    "peers": (
        peers.main,
        "Correctness of clipped sums: this library, Opacus and FastDP.",
    ),
    "accounting": (
        accounting.main,
        "Time and excess ε of accountants: this library and other libraries.",
    ),
    "accuracy": (
        accuracy.main,
        "Test accuracy with five seeds, and the published accuracy at the same ε.",
    ),
    "random_allocation": (
        random_allocation.main,
        "Gap, time and memory of ε under random allocation, for a list of settings.",
    ),
    "correlated_noise": (
        correlated_noise.main,
        "Error of sums with correlated noise, at the ε of independent noise.",
    ),
    "correlated_steps": (
        correlated_steps.main,
        "CPU time of a step with correlated noise, relative to independent noise.",
    ),
    "first_point": (
        first_point.main,
        "Seconds from a click to a run's first point, for one visitor and for five.",
    ),
    "service": (
        service.main,
        "Waiting times of twenty clients that request privacy answers.",
    ),
    "opening": (
        opening.main,
        "Waiting times of a class that opens the trainer in the same moment.",
    ),
    "hostile": (hostile.main, "Answer times of the site under attack."),
    "fleet": (
        fleet.main,
        "Launches per second and waiting times of a site with many processes.",
    ),
    "regression": (
        regression.main,
        "Sweep of private regression: this library's calibration and autodp's.",
    ),
    "widgets": (
        widgets.main,
        "CPU time from a move of the slider to the picture, for each widget.",
    ),
    "main_thread": (
        main_thread.main,
        "Load of the trainer's main thread while it opens and while a run is drawn.",
    ),
    "trainer": (
        trainer.main,
        "Time from a move of the slider to the new ε.",
    ),
    "distributed": (
        ranks.main,
        "Step time and memory of several processes that train one model; DDP's too.",
    ),
    "device_curve": (
        device_curve.main,
        "Curves of seeded runs on a GPU, compared with the CPU's.",
    ),
}
"""{command: (function, help)} of the commands without options."""

HELP = {
    "core": "CPU time and memory of each model with each method.",
    "growth": "Time and memory for growing batch, width and length.",
    "accelerator": "Models of published size on a GPU, with other libraries if asked.",
    **{name: text for name, (_, text) in ALONE.items()},
    "report": "Write the stored results into docs/explanation/performance.md.",
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure speed and memory, and store the results in "
        "benchmarks/results/. Without a command, all commands run.",
        epilog="commands:\n"
        + "\n".join(f"  {name:18}{text}" for name, text in HELP.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    choices = "one or more of: %(choices)s; default: all"
    parser.add_argument(
        "command",
        nargs="*",
        choices=[*HELP, []],  # argparse checks the empty default too
        default=[],
        metavar="COMMAND",
        help="one or more of the commands below",
    )
    parser.add_argument(
        "--models",
        nargs="+",
        choices=CASES,
        default=list(CASES),
        metavar="MODEL",
        help=f"models of the command core: {choices}",
    )
    parser.add_argument(
        "--ways",
        nargs="+",
        choices=WAYS,
        default=list(WAYS),
        metavar="METHOD",
        help=f"methods of the command core: {choices}",
    )
    parser.add_argument(
        "--axes",
        nargs="+",
        choices=report.AXES,
        default=report.AXES,
        metavar="AXIS",
        help=f"growing sizes of the command growth: {choices}",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=steps.SECONDS,
        help="measuring time per method of the command core; default: %(default)s",
    )
    parser.add_argument(
        "--peers",
        action="store_true",
        help="command accelerator: measure Opacus and FastDP too",
    )
    parser.add_argument(
        "--device",
        default="cuda",
        help="command accelerator: device; cpu rehearses with small models and stores "
        "nothing; default: %(default)s",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=accelerator.MINUTES,
        help="command accelerator: time after which no further measurement begins; "
        "default: %(default)s",
    )
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Runs the commands of the command line."""
    asked = _parser().parse_args(arguments)
    commands = asked.command or HELP
    if "accelerator" in commands:  # before the number of threads is set
        accelerator.main(asked.device, asked.minutes, peers=asked.peers)
    one_thread()
    if "core" in commands:
        for model in asked.models:  # written one by one: it takes a while
            rows = steps.core(model, asked.ways, asked.seconds)
            print(record.update("core", rows, "model", "way"))
    if "growth" in commands:
        for axis in asked.axes:
            print(record.update("growth", steps.growth(axis), "axis"))
    for name in [name for name in ALONE if name in commands]:
        ALONE[name][0]()
    if "report" in commands:
        print(report.write())


if __name__ == "__main__":
    main()
