"""What goes on outside of a PrivacyEngine's sight, and what to do about it.

docs/sharp-edges.md ends with this list.
"""

from __future__ import annotations

from typing import NamedTuple


class Unseen(NamedTuple):
    """One situation: what is done, what it does to the guarantee, and what to do."""

    title: str
    why: str
    remedy: str


UNSEEN = (
    Unseen(
        "Mixup or CutMix in the training loop",
        "A row of the batch is then made of two records, so a record moves two clipped "
        "gradients.",
        "Leave it out, or mix each record with public ones only.",
    ),
    Unseen(
        "The batch centred or scaled in the loop or in `collate`",
        "The mean of the batch carries every record into every row.",
        "Scale with public constants, or with statistics of public data.",
    ),
    Unseen(
        "Rows duplicated or dropped until the batch has a certain size",
        "A record that is there twice counts twice, and which rows are dropped depends "
        "on the others.",
        "Take the batches of `poisson_loader` as they come; `physical_batch_size` "
        "bounds the memory.",
    ),
    Unseen(
        "Views of a record made by `x.repeat(K, 1)`",
        "With `augmentation_multiplicity=K` the views of a record must be one after "
        "the other; by `repeat`, rows of different records are averaged.",
        "Use `dp.views`, or `x.repeat_interleave(K, 0)`.",
    ),
    Unseen(
        "Sequences padded to the longest of their batch, without a mask",
        "How far a record is padded, and so its gradient, depends on the others. A "
        "mean over positions divides by that length.",
        "Pad to a fixed length, or mask, and divide by each record's own length.",
    ),
    Unseen(
        "A loss that you vouch for, or reduced otherwise than `loss_reduction` says",
        "`assume_per_sample_loss=True` is believed, as is `assume_poisson=True`. "
        "Without `example_inputs` and `loss_fn` the size of the loss is not measured; "
        "gradients may then be scaled by a number that depends on the batch.",
        "Give both to the engine, and use `per_sample_mean`.",
    ),
    Unseen(
        "A second optimizer, on a head outside the module",
        "What it trains gets raw gradients; only the module's are private.",
        "Put the head into the module that the engine gets.",
    ),
    Unseen(
        "A second engine on the same records",
        "Each engine counts its own steps. On the same parameters, in one process, "
        "`attach` warns; another model, or another process, is not seen.",
        "Give the first engine as `after=`, or add the odometers of both up. Every run "
        "of a search for settings counts.",
    ),
    Unseen(
        "`ReduceLROnPlateau`, early stopping, or the best checkpoint by a raw loss",
        "The choice depends on the records and is released with the model.",
        "Judge by public data, or plan the schedule beforehand.",
    ),
    Unseen(
        "A batch skipped by `detach` and `attach`",
        "The steps left are chosen by the data; the accountant takes all batches for "
        "used.",
        "Make a step of every batch that is drawn.",
    ),
    Unseen(
        "Losses, gradient norms, `diagnostics` or batch sizes that are logged",
        "None of them has noise.",
        "Keep them to yourself, as you do the records.",
    ),
    Unseen(
        "Preprocessing that was fitted on the records",
        "A vocabulary, a mean or a scale is released with the model.",
        "Fit it on public data, or privately, and add its epsilon.",
    ),
    Unseen(
        "Several records of one person",
        "Epsilon is that of adding or removing one record.",
        "Let a record be all that a person has given, or bound their number k: the "
        "whole is then private for groups of k, at k times the epsilon and more delta.",
    ),
    Unseen(
        "Statistics in plain attributes",
        "Parameters, buffers and the extra state are compared; `self.last = x` is not, "
        "and `torch.save(model)` writes it out.",
        "Release `model.state_dict()`, not the pickled model.",
    ),
    Unseen(
        "A module that changes its conduct by itself",
        "It is measured before the first step, at three rows and at a real batch's "
        "size, and again when a batch is more than twice as large as any before, or "
        "submodules, forwards or hooks are others. Mixing that begins after so many "
        "calls, for values beyond a hundred standard deviations, or when a plain "
        "attribute changes (`self.activation = f`), comes too late.",
        "Let forward depend on its inputs and parameters alone. After changing an "
        "attribute, detach and attach again.",
    ),
    Unseen(
        "Hooks in autograd's graph",
        "A hook on an output of the module is refused; one on `output.grad_fn`, or on "
        "a tensor between output and loss, is not seen.",
        "Change gradients inside the module's forward, where they are measured.",
    ),
    Unseen(
        'Parameters added to the optimizer between backward and step (`"extending"`)',
        "Nothing of the optimizer is touched, so its groups are compared at each "
        "backward: that one step is made with raw gradients.",
        "Add them before `attach`, or use another engine.",
    ),
    Unseen(
        "An optimizer that moves parameters without gradients",
        "Frozen parameters may be in its groups, since torch's optimizers skip what "
        "has no gradient; one of your own may not.",
        "Give it the trainable parameters only.",
    ),
    Unseen(
        "Steps after the saved state, in a process that is gone",
        "An engine counts its own steps, whatever state it loads. Steps that another "
        "process made after that state are in no file.",
        "Give their number as `lost_steps`; save after every step that is seen.",
    ),
)
