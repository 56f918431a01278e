"""Private names of autograd exist in the installed torch, or no loss is confirmed."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import Variable

from dpsgd_explorer.dp.checks.loss import autograd_nodes
from dpsgd_explorer.dp.checks.loss.watch import LossWatch
from dpsgd_explorer.errors import PrivacyError
from tests.dp.loss_cases import classes, numbers, scores, trained
from tests.dp.nets import UNREAD, attached, linear

NO_INFLUENCE = {
    "self", "target", "targets", "result", "result0", "result1", "buffer",
    "log_probs", "index", "indices", "is_target",
    "self_sym_sizes", "self_sym_numel", "sparse_grad", "approximate",
    "input_lengths", "blank", "zero_infinity", "scale", "input_scale",
    "start", "end", "step", "split_size", "split_sizes", "dim", "keepdim",
}  # fmt: skip
"""Values that decide no weight: tensors, sizes, and constants of torch itself."""


def test_the_installed_torch_has_every_private_name():
    assert autograd_nodes.missing_names() == []


@pytest.mark.parametrize("name", autograd_nodes.VALUES_OF)
def test_no_operation_saves_a_value_of_which_nothing_is_known(name):
    """A new value, such as a weight, would otherwise go unnoticed."""
    attributes = dir(getattr(torch._C._functions, name))
    saved = {a.removeprefix("_saved_") for a in attributes if a.startswith("_saved_")}
    assert saved - {*autograd_nodes.VALUES_OF[name]} <= NO_INFLUENCE


def test_missing_names_are_reported_one_by_one(monkeypatch):
    monkeypatch.setitem(autograd_nodes.VALUES_OF, "NoSuchBackward0", ())
    monkeypatch.setitem(autograd_nodes.VALUES_OF, "ExpBackward0", ("result", "weight"))
    monkeypatch.delattr(Variable, "_execution_engine")
    value, operation, engine = autograd_nodes.missing_names()
    assert "NoSuchBackward0" in operation
    assert "_saved_weight of the operation Exp" in value
    assert "Variable._execution_engine" in engine


@UNREAD
@pytest.mark.parametrize(
    ("loss", "draw", "missing"),
    [
        (F.cross_entropy, classes, "dim of the operation LogSoftmax"),
        (F.mse_loss, numbers, "reduction of the operation MseLoss"),
        (
            F.binary_cross_entropy_with_logits,
            numbers,
            "weight of the operation BinaryCrossEntropyWithLogits",
        ),
    ],
)
def test_a_loss_whose_values_torch_does_not_show_gives_no_epsilon(
    loss, draw, missing, monkeypatch
):
    """Such a torch has renamed them; a weight that is not shown is no absent weight."""
    monkeypatch.setattr(autograd_nodes, "PREFIX", "_renamed_")
    done = trained(scores, draw, loss)
    expected = f"does not show _renamed_{missing}.*per_sample_mean"
    with pytest.raises(PrivacyError, match=expected):
        done.get_epsilon()


def test_a_torch_without_its_engine_of_backward_is_rejected(monkeypatch):
    monkeypatch.setattr("dpsgd_explorer.dp.session.WATCH", LossWatch())
    monkeypatch.delattr(Variable, "_execution_engine")
    with pytest.raises(PrivacyError, match=r"_execution_engine.*Install torch"):
        attached(linear())
