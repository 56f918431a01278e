"""An embedding whose weight is the head's: one gradient, made once."""

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.layers.embedding import EmbeddingRule
from dpsgd_explorer.dp.layers.linear import LinearRule

MIXED = {"": "MixOpt", "head": "instantiate"}


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(7, 3, padding_idx=1)
        self.head = nn.Linear(3, 7, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        return self.head(self.words(ids).cumsum(1)).transpose(1, 2)


def stepped(engine, mode, before_last=lambda: None):
    torch.manual_seed(0)
    model = Tied()
    ids, targets = torch.randint(7, (2, 4, 5)).unbind(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    private = PrivacyEngine(
        model,
        batch_size=4,
        sample_size=100,
        steps=2,
        noise_multiplier=0.0,
        max_grad_norm=0.3,
        clipping_fn="Abadi",
        clipping_mode=mode,
        engine=engine,
        sampling="unchecked",
    )
    private.attach(optimizer)
    for number in range(2):
        if number:
            before_last()
        nn.functional.cross_entropy(model(ids), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.words.weight.detach(), private


@pytest.mark.parametrize("mode", ["ghost", "instantiate", "MixGhostClip", MIXED])
def test_a_tied_weight_is_trained_as_by_one_sample_at_a_time(mode):
    expected, alone = stepped("microbatch", "MixOpt")
    weight, private = stepped("hooks", mode)
    torch.testing.assert_close(weight, expected)
    norms = (engine.diagnostics.norms for engine in (private, alone))
    torch.testing.assert_close(*norms, rtol=1e-4, atol=0.0)


def test_the_gradients_of_a_tied_weight_are_made_once(monkeypatch):
    made = []
    for rule in (LinearRule, EmbeddingRule):
        own = rule.per_sample_gradients

        def counted(self, *inputs, own=own):
            made.append((type(self), len(inputs[-1])))
            return own(self, *inputs)

        monkeypatch.setattr(rule, "per_sample_gradients", counted)
    # The first step comes after passes of the safety check.
    stepped("hooks", MIXED, before_last=made.clear)
    assert made == [(LinearRule, 4)]
