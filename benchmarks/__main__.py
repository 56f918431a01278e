"""``python -m benchmarks``: measure, write results, and put them into the docs.

| command | what it does |
|---|---|
| ``core`` | the table of models and ways |
| ``wall`` | the models by the clock on the wall, on two threads |
| ``growth`` | time and memory over batch, width and length |
| ``architectures`` | BERT, GPT-2, ViT, ResNet-18, LSTM, LoRA and biases, in parts |
| ``features`` | milliseconds per picture of the scattering features |
| ``checks`` | CPU time of the engine's checks of each step |
| ``overhead`` | what privacy adds to a step of layers too small to compute anything |
| ``norm_methods`` | norm methods measured on this processor beside the estimate |
| ``noise`` | nanoseconds per normal number, secure and torch's |
| ``peers`` | clipped sums of this library, Opacus and FastDP, right or wrong |
| ``accounting`` | time and excess of our accountants and of the peers' |
| ``first_point`` | seconds from a click to the first point, alone and five at once |
| ``service`` | waiting times of twenty clients for privacy answers |
| ``opening`` | a class opens the trainer at once |
| ``hostile`` | an answer of the site under attack |
| ``fleet`` | launches a second, waits and first points of a site of many processes |
| ``regression`` | the sweep of private regression, ours and with autodp's calibrator |
| ``widgets`` | CPU time from a slider's move to the picture, of each widget |
| ``trainer`` | from a slider to the new ε, and the page while a run is drawn |
| ``accelerator`` | GPT-2, a billion parameters with LoRA, and noise on a GPU |
| ``distributed`` | step time and memory of ranks that train one model, beside DDP's |
| ``report`` | writes docs/explanation/performance.md from the results there are |

Without a command, all of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from benchmarks import (
    accounting,
    features,
    peers,
    record,
    regression,
    report,
    steps,
    wall,
)
from benchmarks.accelerator import measure as accelerator
from benchmarks.architectures import measure as architectures
from benchmarks.distributed import ranks
from benchmarks.engine import checks, noise, norm_methods, overhead
from benchmarks.fleet import load as fleet
from benchmarks.models import CASES
from benchmarks.site import first_point, hostile, opening, service, trainer, widgets
from benchmarks.ways import WAYS
from dpsgd_explorer.training.timing import one_thread

ALONE: dict[str, Callable[[], object]] = {
    "wall": wall.main,
    "architectures": architectures.main,
    "features": features.main,
    "checks": checks.main,
    "overhead": overhead.main,
    "norm_methods": norm_methods.main,
    "noise": noise.main,
    "peers": peers.main,
    "accounting": accounting.main,
    "first_point": first_point.main,
    "service": service.main,
    "opening": opening.main,
    "hostile": hostile.main,
    "fleet": fleet.main,
    "regression": regression.main,
    "widgets": widgets.main,
    "trainer": trainer.main,
    "distributed": ranks.main,
    "accelerator": accelerator.main,
}
COMMANDS = ("core", "growth", *ALONE, "report")


def main(arguments: list[str] | None = None) -> None:
    """Run the commands asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("command", nargs="*", choices=[*COMMANDS, []], default=[])
    parser.add_argument("--models", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--axes", nargs="+", choices=report.AXES, default=report.AXES)
    parser.add_argument("--seconds", type=float, default=steps.SECONDS)
    asked = parser.parse_args(arguments)
    one_thread()
    commands = asked.command or COMMANDS
    if "core" in commands:
        for model in asked.models:  # written one by one: it takes a while
            rows = steps.core(model, asked.ways, asked.seconds)
            print(record.update("core", rows, "model", "way"))
    if "growth" in commands:
        for axis in asked.axes:
            print(record.update("growth", steps.growth(axis), "axis"))
    for name, measure in ALONE.items():
        if name in commands:
            measure()
    if "report" in commands:
        print(report.write())


if __name__ == "__main__":
    main()
