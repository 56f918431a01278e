"""Write the table of docs/maintainers/presets.md from the recorded searches.

Run as ``python -m tools.write_presets_page``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpsgd_explorer.accounting import Odometer
from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.forms.fields import text_of
from dpsgd_explorer.web.questions.rounding import limit, percent, significant
from dpsgd_explorer.web.recorded.files import recording
from tools.marked_text import write

PAGE = Path(__file__).parents[1] / "docs" / "maintainers" / "presets.md"
RECORDED = "choices/tuning"
COLUMNS = (
    "data, model",
    "ε of one run",
    "trials",
    "best settings",
    "accuracy, its seeds",
    "CPU s",
    "ε of all trials",
)
HEAD = f"| {' | '.join(COLUMNS)} |\n|{len(COLUMNS) * '---|'}\n"


def parts() -> dict[str, str]:
    """Return the table of docs/maintainers/presets.md."""
    searches = recording(RECORDED)["searches"]
    rows = [_row(search) for _, search in sorted(searches.items())]
    return {"searches": HEAD + "\n".join(rows)}


def spent_by_all(search: dict[str, Any]) -> float:
    """Return the ε of all trials together, because each was looked at."""
    odometer, delta = Odometer(), 0.0
    for trial in search["trials"]:
        plan = TrainingConfig.parse(search["base"] | trial["settings"]).plan
        q, sigma = plan.sample_rate, plan.noise_multiplier
        odometer.add_dp_sgd(q, sigma, plan.steps)
        delta = plan.delta
    return odometer.epsilon(delta)


def _row(search: dict[str, Any]) -> str:
    best = max(search["trials"], key=lambda trial: trial["test_accuracy"])
    config = TrainingConfig.parse(search["base"] | best["settings"])
    settings = ", ".join(
        f"`{name}` {text_of(x)}" for name, x in best["settings"].items()
    )
    runs = [best["test_accuracy"], *search["again"]]
    accuracies = ", ".join(f"{percent(one, 2)} %" for one in runs)
    cells = [
        f"{config.data.label}, {MODELS[config.model].inline_label}",
        limit(config.plan.epsilon()),
        str(len(search["trials"])),
        settings,
        accuracies,
        significant(best["cpu_seconds"]),
        limit(spent_by_all(search)),
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    write(PAGE, parts())
