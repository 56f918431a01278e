"""Write the tables of docs/how-to/audit-a-run.md from the recorded audits.

Run as ``python -m tools.write_auditing_page``; ``tools.record.audits`` and
``tools.record.audited_bugs`` record them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from dpsgd_explorer.web.questions.rounding import limit, percent, thousands
from dpsgd_explorer.web.recorded.files import recording
from tools.marked_text import write
from tools.record.audits import NAME

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "audit-a-run.md"
#: Names of the methods on the page, in its order; the first decides.
METHODS = {
    "exact family": "exact family",
    "Gaussian pair": "Gaussian pair",
    "Gaussian DP": "Clopper–Pearson, Gaussian DP",
    "f-DP, one run": "f-DP one-run",
    "one run": "Steinke one-run",
}
LONG_NUMBER = re.compile(r"\d+\.\d{4,}")
FOLDERS = {
    "noise": "law of the noise",
    "clipping": "sensitivity",
    "sampling": "law of the sampler",
    "ledger": "receipt",
    "engines": "code between layers",
}


def parts() -> dict[str, str]:
    """Return the tables, by the name of their markers."""
    recorded = recording(NAME)
    return {
        "origin": _origin(recorded),
        "strength": _strength(recorded["strength"]),
        "alarms": _alarms(recorded["alarms"]),
        "runs": _runs(recorded["runs"]),
        "cost": _cost(recorded["cost"]),
        "bugs": _bugs(recorded["bugs"]["found"]),
    }


def share(bounds: Sequence[float], promised: float) -> float:
    """Return the mean proven share of a promised ε."""
    return fmean(bounds) / promised


def _origin(recorded: dict[str, Any]) -> str:
    return f"{recorded['machine']}, torch {recorded['torch']}."


def _strength(rows: Sequence[dict[str, Any]]) -> str:
    head = ["sampling rate", "steps", "promised ε", "canaries", *METHODS.values()]
    lines = [
        [
            f"{row['sample_rate']:g}",
            str(row["steps"]),
            f"{row['promised']:g}",
            thousands(str(row["canaries"])),
            *(_percent(share(row["proven"][x], row["promised"])) for x in METHODS),
            f"{row['cpu_seconds']:.1f}",
        ]
        for row in rows
    ]
    return _table([*head, "CPU s"], lines)


def _percent(value: float) -> str:
    return f"{percent(value, 0)} %"


def _alarms(found: dict[str, Any]) -> str:
    proven, promised = found["proven"], found["promised"]
    over = sum(bound > promised for bound in proven)
    return (
        f"Of {len(proven)} honest runs (sampling rate {found['sample_rate']:g}, "
        f"{found['steps']} steps, ε = {limit(promised)}, "
        f"{thousands(str(found['canaries']))} canaries) {over} came out above their "
        f"promise at {_percent(found['confidence'])} confidence; the least share "
        f"proven was {_percent(min(proven) / promised)}, the largest "
        f"{_percent(max(proven) / promised)}."
    )


def _runs(rows: Sequence[dict[str, Any]]) -> str:
    head = ("model, data", "engine", "noise", "sampling rate", "steps", "promised ε")
    lines = [
        [
            f"{row['model']}, {row['data']}",
            row["engine"],
            row["noise"],
            f"{row['sample_rate']:.3g}",
            str(row["steps"]),
            limit(row["promised"]),
            *(_percent(share(row["proven"][x], row["promised"])) for x in METHODS),
        ]
        for row in rows
    ]
    return _table([*head, *METHODS.values()], lines)


def _cost(found: dict[str, Any]) -> str:
    low, high = ((x - 1) for x in found["quartiles"])
    return (
        f"{thousands(str(found['canaries']))} canaries lengthen a step of "
        f"`{found['model']}` at a batch of {found['batch_size']} by "
        f"{percent(found['ratio'] - 1, 1)} % (median; quartiles {percent(low, 1)} % "
        f"and {percent(high, 1)} %) of {found['milliseconds']:.0f} ms."
    )


def _bugs(rows: Sequence[dict[str, Any]]) -> str:
    head = ("bug", "ε proven", "over the promise", "the engine itself", "tests")
    return _table(head, [_bug(row) for row in rows])


def _bug(row: dict[str, Any]) -> list[str]:
    proven = row.get("proven", {}).get("exact family")
    over = "no run" if proven is None else "no"
    if proven is not None and proven > row["promised"]:
        over = "**yes**"
    return [
        row["bug"],
        "–" if proven is None else f"{_least(proven)} of {limit(row['promised'])}",
        over,
        refusal(row),
        "; ".join(_test(name) for name in row["tests"]) or "–",
    ]


def _least(bound: float) -> str:
    """Return a lower bound, rounded down."""
    return f"{math.floor(100 * bound) / 100:.2f}"


def refusal(row: dict[str, Any]) -> str:
    """Return the engine's message to a run with a bug, in a few words."""
    kind, _, message = row["refusal"].partition(": ")
    if not kind:
        return "nothing"
    first = message.split(". ")[0].split("; ")[0].splitlines()[0]
    short = LONG_NUMBER.sub(lambda found: f"{float(found[0]):.3g}", first)
    return f"{kind}: {short}".rstrip(".")


def _test(name: str) -> str:
    folder = name.split("/")[0]
    words = name.split("::")[-1].partition("[")[0].removeprefix("test_")
    return f"{FOLDERS[folder]}: {words.replace('_', ' ')}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    write(PAGE, parts())
