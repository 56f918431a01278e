"""The list of planted bugs, for tests and for the lab."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from types import ModuleType

from dpsgd_explorer.audit.planted_bugs.task import LEARNING_RATE, MAX_GRAD_NORM, TABLES

AUDIT, ENGINE, TORCH, NOTHING = "audit", "engine", "torch", "nothing"
#: What sees a bug, and how the page says it.
CHECKS = {
    AUDIT: "the audit’s lower bound passes the promise",
    ENGINE: "PrivacyEngine refuses",
    TORCH: "PyTorch stops the loop with an error",
    NOTHING: "nothing shows",
}


@dataclass(frozen=True)
class PlantedBug:
    """A loop and what is wrong with it.

    Attributes:
        name: Of its file in ``loops``.
        title: The bug in a few words.
        wrong: The bug in one sentence.
        at_fault: Text that occurs once in the file, in the line at fault; "" in the
            honest loop.
        seen_by: A key of CHECKS.
        why: Why that check sees it, or why none does.
        has_loader: Whether batches come from a DataLoader, which would be given to
            ``PrivacyEngine`` as it is; batches drawn by hand would come from
            ``poisson_loader`` instead.
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
            f"A record moves the sum by C = {MAX_GRAD_NORM:g}, and the noise is what "
            f"C = 1 would need: {1 / MAX_GRAD_NORM:g} of the promise. At C = 1 the "
            "line is right by luck and no check can see it.",
        ),
        PlantedBug(
            "batch_norm",
            "batch normalisation",
            "Batch normalisation makes each record’s gradient depend on the others.",
            "nn.BatchNorm1d(task.x.shape[1])",
            ENGINE,
            "One record moves the mean and the variance that normalise all others, so "
            "it moves every gradient, and clipping bounds each one alone. The running "
            "statistics also leave with the model, without noise. The audit sees "
            "nothing: its canaries live in columns of their own.",
        ),
        PlantedBug(
            "tensors_clipped_alone",
            "each tensor clipped with all of C",
            "Each tensor is clipped to C alone, so the whole gradient may be longer.",
            "C / float(g.norm())",
            AUDIT,
            f"With {TABLES} tensors a record’s gradient can be √{TABLES} C = "
            f"{TABLES**0.5:g} C long, and the noise is made for C. An audit whose "
            "canaries live in one tensor alone would miss it.",
        ),
        PlantedBug(
            "seed_reused",
            "the same noise at each step",
            "The generator starts from one seed in every step, so the noise repeats.",
            "generator = torch.Generator().manual_seed(1234)",
            NOTHING,
            "Each step by itself has noise of the right size. The audit adds the steps "
            "up as if their noise were independent, and the repeated noise drowns its "
            "scores: the loop looks more private. Subtract one step from the next, and "
            "all noise is gone. A test of two steps’ noise for independence sees it.",
        ),
        PlantedBug(
            "mean_clipped",
            "mean before clipping",
            "The gradient of the batch’s mean is clipped, not that of each record.",
            "mean = loss(model(x), y).mean()",
            AUDIT,
            "The clipped mean is up to C long, and one record can turn it around. The "
            "noise is made for a record that moves it by C over the batch size.",
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
            "The weight of each record depends on all others of its batch, so one "
            "record changes all gradients before they are clipped. The audit’s "
            "canaries are longer than C whatever their weight, and see nothing.",
        ),
        PlantedBug(
            "noise_on_weights",
            "noise on the weights",
            "The noise is added to the weights, and misses the learning rate.",
            "p.data += noise / task.batch_size",
            AUDIT,
            "Taken back to the gradient, the noise is divided by the learning rate, "
            f"{LEARNING_RATE:g} here. At a rate below 1 the same line adds too much "
            "noise, and no audit complains.",
        ),
        PlantedBug(
            "shuffled_epochs",
            "shuffled, accounted as Poisson",
            "Batches come from a shuffled loader, the promise is that of Poisson "
            "sampling.",
            "loader = DataLoader(records, batch_size=task.batch_size, shuffle=True)",
            ENGINE,
            "Each record comes exactly once per epoch, and knowing where it was not "
            "tells where it is; the accountant counts coins that were never flipped. "
            "The true ε can be several times as large. The audit’s score is made for "
            "Poisson sampling and does not find it here.",
            has_loader=True,
        ),
        PlantedBug(
            "never_summed",
            "gradients stacked, never summed",
            "The clipped gradients are stacked where their sum is due.",
            "torch.stack(kept)",
            TORCH,
            "A stack has one row per record, and PyTorch takes no gradient of another "
            "shape than the weights. Where nobody assigns to .grad, the rows may be "
            "broadcast and no error comes.",
        ),
        PlantedBug(
            "rate_from_test_set",
            "learning rate tuned on the test set",
            "Three models are trained and the test set chooses; one is accounted.",
            "errors[rate] = loss(model(task.test_x), task.test_y).mean().item()",
            NOTHING,
            "All three trainings used the records, and the choice among them is a "
            "release that nobody counts. The test records have no noise at all, and "
            "their error no longer says what new records would show. The audit sees "
            "the steps of one training, and they are in order.",
        ),
        PlantedBug(
            "averaged_before_noise",
            "averaged before the noise",
            "The sum is averaged over the batch as drawn, before the noise is added.",
            "mean = t / max(len(x), 1)",
            NOTHING,
            "How many records were drawn is private too. One record more changes the "
            "divisor under all others, and can move the mean by 2 C over the batch, "
            "twice what the noise is made for. That takes others whose gradients point "
            "the other way, and canaries meet nobody: they feel only that a small "
            "batch counts them for more, which brings the bound up to the promise, and "
            "on the way over it, but is no proof at the end.",
        ),
        PlantedBug(
            "noise_without_clipping",
            "noise without clipping",
            "Gradients are summed as they are; the noise is made for gradients of "
            "length C.",
            "t += g",
            AUDIT,
            "C stands in the noise and nowhere else. A record far off has a gradient "
            "as long as it likes, and no noise of a fixed size hides it.",
        ),
        PlantedBug(
            "copies_clipped",
            "the clipping does nothing",
            "clip_grad_norm_ clips the .grad of what it is given, and a gradient has "
            "none.",
            "nn.utils.clip_grad_norm_(gradient, C)",
            AUDIT,
            "The function takes parameters. Given gradients it finds no .grad, "
            "returns 0 and changes nothing, without a warning. So every gradient "
            "enters the sum at its full length, and the noise is made for C.",
        ),
        PlantedBug(
            "one_number",
            "one number as noise for a tensor",
            "One random number is added to all entries of a tensor, where each entry "
            "needs its own.",
            "torch.randn(())",
            AUDIT,
            "The number shifts all entries of a tensor together. Between two entries "
            "the difference has no noise at all, so which canaries were drawn can be "
            "read off, and the bound on ε is as high as so many canaries can prove. "
            "Each entry alone has noise of the right size: a check of one weight "
            "sees nothing.",
        ),
    )
}
