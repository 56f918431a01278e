"""Attention masks of whole numbers are drawn as masks, not as ids."""

import pytest
import torch
from torch import nn

from dpsgd_explorer.errors import UnsupportedModuleError
from tests.dp.nets import attached

WORDS, LENGTH, WIDTH = 20, 6, 4


class CountedPositions(nn.Module):
    """Positions count the tokens that a mask keeps, as in OPT."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(WORDS, WIDTH)
        self.positions = nn.Embedding(LENGTH + 1, WIDTH)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, input_ids, attention_mask):
        positions = attention_mask.cumsum(1) * attention_mask
        kept = self.tokens(input_ids) + self.positions(positions)
        return self.head(self.mean(kept * attention_mask[..., None], attention_mask))

    def mean(self, kept, mask):
        return kept.sum(1) / mask.sum(1, keepdim=True)


class MeanOverBatch(CountedPositions):
    """Divides by the tokens of all samples."""

    def mean(self, kept, mask):
        return kept.sum(1) * len(mask) / mask.sum()


def batch():
    ids = torch.randint(WORDS, (5, LENGTH))
    mask = torch.ones_like(ids)
    mask[2, 4:] = 0
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_positions_that_count_a_mask_pass(dtype):
    torch.manual_seed(0)
    net, inputs = CountedPositions(), batch()
    attached(net)
    net(**inputs | {"attention_mask": inputs["attention_mask"].to(dtype)})


def test_a_count_of_all_masks_is_refused():
    torch.manual_seed(0)
    net = MeanOverBatch()
    attached(net)
    with pytest.raises(UnsupportedModuleError, match="mixes the samples"):
        net(**batch())
