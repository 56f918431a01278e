import math

import pytest
import torch
from torch import nn

from dpsgd_explorer.training.dp_sgd import EVALUATION_BATCH_SIZE, evaluate, predict


class Constant(nn.Module):
    """Always says class 1, with probability 3/4."""

    def forward(self, inputs):
        return torch.tensor([[0.0, math.log(3.0)]]).expand(len(inputs), 2)


@pytest.mark.parametrize(
    "count",
    [4, EVALUATION_BATCH_SIZE, EVALUATION_BATCH_SIZE + 4],
    ids=["few", "batch", "rest"],
)
def test_accuracy_and_loss_are_those_of_a_known_predictor(count):
    targets = torch.arange(count) % 4 // 3  # every fourth is class 1
    accuracy, loss = evaluate(predict(Constant(), torch.zeros(count, 1)), targets)
    assert accuracy == 0.25
    # 3/4 of the records are given 1/4, the rest 3/4
    assert loss == pytest.approx(-0.75 * math.log(0.25) - 0.25 * math.log(0.75))


def test_evaluating_leaves_no_gradient():
    model = nn.Linear(3, 2)
    scores = predict(model, torch.zeros(5, 3))
    assert not scores.requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())
