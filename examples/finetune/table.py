"""Compares four methods of fine-tuning with and without privacy, tuned alike.

    python -m examples.finetune.table

Each method trains with the learning rates of one grid, at ε = 3 and without privacy,
and the rate with the least loss on 300 persons' sentences is chosen; the rate of ε = 3
serves ε = 1 and 8 too.  Writes the losses on 1,000 other persons' sentences into
README.md.  Steps, batch size and clipping bound are equal for all runs.  Takes
ten minutes on one core.
"""

import platform
import time
from pathlib import Path
from typing import NamedTuple

import torch

from dpsgd_explorer import accounting
from dpsgd_explorer.training.datasets.sentences import encode, sentences
from dpsgd_explorer.training.language_model import (
    LanguageModel,
    pretrained,
    written,
)
from examples.finetune.finetune import (
    BATCH_SIZE,
    DELTA,
    RATES,
    STEPS,
    train,
    well_formed,
)
from examples.finetune.losses import bits_per_byte
from tools.marked_text import markdown_table, write

PAGE = Path(__file__).with_name("README.md")
BUDGETS = (None, 8.0, 3.0, 1.0)
TUNED_AT = 3.0
GRID = (2e-3, 6e-3, 2e-2)
SEED = 0
IDS = encode(sentences("train"))
OTHERS = encode(sentences("test")[:1300])
VALIDATION, TEST = OTHERS[:300], OTHERS[300:]


class Result(NamedTuple):
    """A model after one run, and its loss on the validation sentences."""

    model: LanguageModel
    rate: float
    validation: float


def result(method: str, rate: float, budget: float | None) -> Result:
    """Returns the model after one run."""
    torch.manual_seed(SEED)
    model = pretrained(method)
    train(model, IDS, rate=rate, epsilon=budget)
    loss = bits_per_byte(model, VALIDATION)
    spent = f"{time.process_time():.0f} s of CPU time"
    print(f"{method}, ε = {budget}, rate {rate:g}: {loss:.3f}, {spent}", flush=True)
    return Result(model, rate, loss)


def results_of(method: str) -> dict[float | None, Result]:
    """Returns the result at each budget, with the rate chosen on the grid."""
    results: dict[float | None, Result] = {}
    for budget in (None, TUNED_AT):
        runs = [result(method, rate, budget) for rate in GRID]
        results[budget] = min(runs, key=lambda run: run.validation)
    for budget in BUDGETS:
        if budget not in results:
            results[budget] = result(method, results[TUNED_AT].rate, budget)
    return results


def row(method: str, results: dict[float | None, Result]) -> list[str]:
    """Returns a method's cells: its trained parameters, and a result per budget."""
    parameters = results[None].model.parameters()
    trained = sum(p.numel() for p in parameters if p.requires_grad)
    return [
        method.replace("_", " "),
        f"{trained:,}",
        *(cell(results[budget]) for budget in BUDGETS),
    ]


def cell(run: Result) -> str:
    """Returns the text of one result."""
    loss, good = bits_per_byte(run.model, TEST), well_formed(run.model)
    print(f"rate {run.rate:g}: {loss:.3f} bits, {good}% well-formed", flush=True)
    return f"{loss:.2f} ({good}%, {run.rate:g})"


def terms() -> str:
    """Returns the conditions of the table."""
    rate = BATCH_SIZE / len(IDS)
    noise = accounting.noise_multiplier(
        sample_rate=rate, steps=STEPS, delta=DELTA, target_epsilon=TUNED_AT
    )
    search = accounting.round_up(
        accounting.epsilon(
            sample_rate=rate,
            noise_multiplier=noise,
            steps=len(GRID) * STEPS,
            delta=DELTA,
        )
    )
    return (
        f"All runs: {len(IDS):,} records, {STEPS} steps of {BATCH_SIZE} expected "
        "records, Adam, clipping bound 1, one run per cell (seed of the weights "
        f"{SEED}; batches and noise are secure, so repeated runs differ). ε is for one "
        f"person, δ = {DELTA:g}, and covers *one run*. The {len(GRID)} runs that chose "
        f"a rate at ε = {TUNED_AT:g} have ε = {search} together. Machine: "
        f"{platform.machine()}, one thread, torch {torch.__version__}."
    )


def samples(title: str, model: LanguageModel) -> str:
    """Returns three sentences that a model writes."""
    lines = [f"    {text}".rstrip() for text in written(model, count=3)]
    return "\n".join([f"{title}:", "", *lines])


def main() -> None:
    """Makes all runs, and writes the table and sentences of three models."""
    torch.set_num_threads(1)
    before = pretrained()
    results = {method: results_of(method) for method in RATES}
    rows = [row(method, found) for method, found in results.items()]
    head = ["trained", "parameters"]
    head += ["not private" if b is None else f"ε = {b:g}" for b in BUDGETS]
    start = (
        f"Before the fine-tuning: {bits_per_byte(before, TEST):.2f} bits per byte, "
        f"{well_formed(before)}% well-formed."
    )
    texts = [
        samples("Before the fine-tuning", before),
        samples("LoRA, not private", results["lora"][None].model),
        samples(f"LoRA, ε = {TUNED_AT:g}", results["lora"][TUNED_AT].model),
    ]
    table = f"{markdown_table(head, rows)}\n\n{start}\n\n{terms()}"
    write(PAGE, {"results": table, "sentences": "\n\n".join(texts)})


if __name__ == "__main__":
    main()
