"""The list of planted bugs, for tests and for the lab."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from types import ModuleType

from dpsgd_explorer.training.planted_bugs.task import (
    LEARNING_RATE,
    MAX_GRAD_NORM,
    TABLES,
)

AUDIT, ENGINE, TORCH, NOTHING = "audit", "engine", "torch", "nothing"
#: {check that can detect a bug: text on the page}.
CHECKS = {
    AUDIT: "the audit’s lower bound passes the promise",
    ENGINE: "PrivacyEngine rejects the loop",
    TORCH: "PyTorch stops the loop with an error",
    NOTHING: "nothing shows",
}


@dataclass(frozen=True)
class PlantedBug:
    """A loop and the description of its bug.

    Attributes:
        name: Name of the loop's file in ``loops``.
        title: The bug in a few words.
        wrong: The bug in one sentence.
        at_fault: Text that occurs once in the file, in the line with the bug; "" in the
            honest loop.
        seen_by: Check that detects the bug, a key of CHECKS.
        why: Reason why the check detects the bug, or why none does.
        has_loader: If True, batches come from a DataLoader, and a user would pass this
            loader to ``PrivacyEngine``.  If False, the loop draws batches by hand, and
            a user would replace that by ``poisson_loader``.
    """

    name: str
    title: str
    wrong: str
    at_fault: str
    seen_by: str
    why: str
    has_loader: bool = False

    @property
    def module(self) -> ModuleType:
        """The loop's module: ``build``, ``loss``, ``batches`` and ``train``."""
        return importlib.import_module(f"{__package__}.loops.{self.name}")

    @property
    def source(self) -> str:
        """The text of the loop's file."""
        return inspect.getsource(self.module)


HONEST = "honest"

LOOPS = {
    bug.name: bug
    for bug in (
        PlantedBug(
            "noise_without_bound",
            "noise not scaled by C",
            "The noise has standard deviation σ, but must have σ C.",
            "noise = task.noise_multiplier * torch.randn_like(p)",
            AUDIT,
            f"A record changes the sum by C = {MAX_GRAD_NORM:g}, but the noise has the "
            f"size for C = 1: {1 / MAX_GRAD_NORM:g} of the promise. At C = 1 the line "
            "is right by luck, and no check can see the bug.",
        ),
        PlantedBug(
            "batch_norm",
            "batch normalisation",
            "Batch normalisation makes each record’s gradient depend on the others.",
            "nn.BatchNorm1d(task.x.shape[1])",
            ENGINE,
            "One record changes the mean and the variance that normalize all other "
            "records, so it changes every gradient; clipping bounds each gradient only "
            "separately. The running statistics are also published with the model, "
            "without noise. The audit sees nothing, because its canaries use their own "
            "columns.",
        ),
        PlantedBug(
            "tensors_clipped_alone",
            "each tensor clipped with all of C",
            "Each tensor is clipped to C alone, so the whole gradient may be longer.",
            "C / float(g.norm())",
            AUDIT,
            f"With {TABLES} tensors a record’s gradient can be √{TABLES} C = "
            f"{TABLES**0.5:g} C long, but the noise has the size for C. An audit with "
            "canaries in only one tensor would miss the bug.",
        ),
        PlantedBug(
            "seed_reused",
            "the same noise at each step",
            "The generator starts from one seed in every step, so the noise repeats.",
            "generator = torch.Generator().manual_seed(1234)",
            NOTHING,
            "Each single step has noise of the right size. The audit adds the steps up "
            "as if their noise were independent, and the repeated noise drowns its "
            "scores: the loop looks more private. Subtract one step from the next, and "
            "all noise is gone. A test for independence of the noise of two steps "
            "finds the bug.",
        ),
        PlantedBug(
            "mean_clipped",
            "mean before clipping",
            "The gradient of the batch’s mean is clipped, not the gradient of each "
            "record.",
            "mean = loss(model(x), y).mean()",
            AUDIT,
            "The clipped mean is up to C long, and one record can turn it around. The "
            "noise has the size for a record that changes the mean by C over the batch "
            "size.",
        ),
        PlantedBug(
            "noise_per_micro_batch",
            "noise in every micro-batch",
            "Noise is added once per micro-batch, but is due once per step.",
            "t += task.noise_multiplier * C * torch.randn_like(t)",
            NOTHING,
            "The noise is too large, not too small: the promise holds and the model "
            "pays. An audit proves that there is too little noise, never too much.",
        ),
        PlantedBug(
            HONEST,
            "nothing is wrong",
            "This is DP-SGD as Abadi et al. (2016) have it.",
            "",
            NOTHING,
            "Nothing is planted. Seen from one run the bound stays below the promise; "
            "a bound at 95 % may pass it in one honest run of twenty.",
        ),
        PlantedBug(
            "piled_up",
            "the sum not cleared between steps",
            "The sum of clipped gradients is never cleared and piles up over batches.",
            "total = [torch.zeros_like(p) for p in parameters]",
            AUDIT,
            "A record that was drawn once is added again in every later step, each "
            "time under fresh noise. The accountant counts one step for it.",
        ),
        PlantedBug(
            "weighted_by_batch",
            "a loss weighted over the batch",
            "The weights of the loss are normalised over the batch.",
            "weights = targets.abs() / targets.abs().mean()",
            ENGINE,
            "The weight of each record depends on all other records of its batch, so "
            "one record changes all gradients before they are clipped. The audit’s "
            "canaries are longer than C with any weight, so they see nothing.",
        ),
        PlantedBug(
            "noise_on_weights",
            "noise on the weights",
            "The noise is added to the weights, without the learning rate.",
            "p.data += noise / task.batch_size",
            AUDIT,
            "Seen from the gradient, the noise is divided by the learning rate, "
            f"{LEARNING_RATE:g} here. At a rate below 1 the same line adds too much "
            "noise, and no audit complains.",
        ),
        PlantedBug(
            "shuffled_epochs",
            "shuffled, accounted as Poisson",
            "Batches come from a shuffled loader, but the promise is computed for "
            "Poisson sampling.",
            "loader = DataLoader(records, batch_size=task.batch_size, shuffle=True)",
            ENGINE,
            "Each record comes exactly once per epoch, so an attacker who knows the "
            "batches without it also knows the batch with it. The accountant counts "
            "coins that were never flipped. The true ε can be several times as large. "
            "The audit’s score assumes Poisson sampling and misses the bug here.",
            has_loader=True,
        ),
        PlantedBug(
            "never_summed",
            "gradients stacked, never summed",
            "The clipped gradients are stacked instead of summed.",
            "torch.stack(kept)",
            TORCH,
            "A stack has one row per record, and PyTorch takes no gradient of another "
            "shape than the weights. In a loop that does not assign to .grad, the rows "
            "may be broadcast without an error.",
        ),
        PlantedBug(
            "rate_from_test_set",
            "learning rate tuned on the test set",
            "Three models are trained and the test set chooses; one is accounted.",
            "errors[rate] = loss(model(task.test_x), task.test_y).mean().item()",
            NOTHING,
            "All three trainings used the records, and the choice among them is a "
            "release that the accountant does not count. The test records have no "
            "noise at all, and their error no longer predicts the error on new "
            "records. The audit sees only the steps of one training, and these are "
            "correct.",
        ),
        PlantedBug(
            "averaged_before_noise",
            "averaged before the noise",
            "The sum is averaged over the batch as drawn, before the noise is added.",
            "mean = t / max(len(x), 1)",
            NOTHING,
            "How many records were drawn is private too. An additional record changes "
            "the divisor for all other records, and can change the mean by 2 C over "
            "the batch, twice the size that the noise can hide. This needs other "
            "records whose gradients point in the opposite direction, but canaries "
            "share no direction with any record. Canaries notice only that they count "
            "more in a small batch. That brings the bound up to the promise, and above "
            "it during the run, but it is not a proof at the end.",
        ),
        PlantedBug(
            "noise_without_clipping",
            "noise without clipping",
            "Gradients are summed without clipping, but the noise has the size for "
            "gradients of length C.",
            "t += g",
            AUDIT,
            "C is used only for the noise. An outlier can have a gradient of any "
            "length, and no noise of a fixed size hides it.",
        ),
        PlantedBug(
            "copies_clipped",
            "the clipping does nothing",
            "clip_grad_norm_ clips the .grad of its arguments, but a gradient has no "
            ".grad.",
            "nn.utils.clip_grad_norm_(gradient, C)",
            AUDIT,
            "The function takes parameters. Given gradients it finds no .grad, returns "
            "0 and changes nothing, without a warning. So every gradient enters the "
            "sum at its full length, but the noise has the size for C.",
        ),
        PlantedBug(
            "one_number",
            "one number as noise for a tensor",
            "One random number is added to all entries of a tensor, but each entry "
            "needs its own.",
            "torch.randn(())",
            AUDIT,
            "The number shifts all entries of a tensor together. The difference "
            "between two entries has no noise at all, so it shows which canaries were "
            "drawn, and the bound on ε is the highest that this number of canaries can "
            "prove. Each entry alone has noise of the right size: a check of one "
            "weight sees nothing.",
        ),
    )
}
