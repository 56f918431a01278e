"""Layer rule for ``nn.EmbeddingBag``: y = sum_l s_l W[id_l] over the ids of a bag.

One bag is one sample.  With the scale s_l (1, or the id's own weight, or one over the
bag's length for a mean) row v of the gradient is (sum of s_l with id_l = v) g: a vector
of counts times g.  Its squared norm is ||g||^2 times the squared norm of the counts.
An id that occurs twice in a bag has the sum of both scales as its count.  For "max",
entry j of g belongs to the row with the largest entry j.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.backends.rounding import gamma, vector_norms
from dpsgd_explorer.dp.layers.base import BadInputError, GradientRule, scale_samples
from dpsgd_explorer.dp.layers.cross_terms import OuterProduct
from dpsgd_explorer.dp.layers.embedding import ids_out_of_range, table_refusal
from dpsgd_explorer.dp.layers.ghost_norm import GhostNorm
from dpsgd_explorer.dp.layers.round_off import upper_norms

#: Ids and their scales, [B, L] each, with scale 0 after the end of a bag.  For "max":
#: ids of the largest entries, and 1 if the bag has ids, [B, d] each.
Bags = tuple[Tensor, Tensor]


class EmbeddingBagNorm(GhostNorm[nn.EmbeddingBag, Bags]):
    """The ghost norm of a bag.

    The engine always chooses it, because counting L ids never costs more than filling V
    rows.
    """

    def squared_norms(
        self, layer: nn.EmbeddingBag, activations: Bags, backprops: Tensor
    ) -> Tensor:
        ids, scales = activations
        if layer.mode == "max":
            return vector_norms(scales * backprops).square_()
        same = (ids.unsqueeze(1) == ids.unsqueeze(2)).to(scales.dtype)  # [B, L, L]
        # Total scale of the id at each position, [B, L].
        totals_of_id = torch.bmm(same, scales.unsqueeze(2)).squeeze(2)
        added = torch.bmm(same, scales.abs().unsqueeze(2)).squeeze(2)
        totals = upper_norms(totals_of_id.abs(), added, ids.shape[1])
        # An id that occurs n times has n equal totals, so each counts 1 / n.
        roots = same.sum(2).clamp_(min=1.0).sqrt_()
        return vector_norms(totals / roots).mul_(vector_norms(backprops)).square_()

    def add_weighted(
        self,
        layer: nn.EmbeddingBag,
        activations: Bags,
        backprops: Tensor,
        weights: Tensor,
        sums: Mapping[str, Tensor],
    ) -> None:
        ids, scales = activations
        g = scale_samples(backprops, weights)
        if layer.mode == "max":
            sums["weight"].scatter_add_(0, ids, scales * g)
            return
        rows = scales.unsqueeze(2) * g.unsqueeze(1)  # [B, L, d]
        sums["weight"].index_add_(0, ids.flatten(), rows.flatten(0, 1))

    def inflation(
        self, layer: nn.EmbeddingBag, activations: Bags, backprops: Tensor
    ) -> float:
        if layer.mode == "max":
            return 0.0
        return 2 * gamma(activations[0].shape[1], torch.float32)

    def outer_products(
        self, layer: nn.EmbeddingBag, activations: Bags, backprops: Tensor
    ) -> dict[str, OuterProduct] | None:
        if layer.mode == "max":
            return None
        ids, scales = activations
        return {"weight": OuterProduct(ids, scales.unsqueeze(2) * backprops[:, None])}


class EmbeddingBagRule(GradientRule[nn.EmbeddingBag, Bags]):
    """Inputs: ids [B, L], or ids [N] with offsets [B]; outputs [B, d]."""

    ghost_norm: ClassVar[EmbeddingBagNorm] = EmbeddingBagNorm()
    parameter_names: ClassVar[tuple[str, ...]] = ("weight",)

    def check(self, layer: nn.EmbeddingBag, args: Any, kwargs: Any) -> None:
        ids = args[0] if args else kwargs["input"]
        offsets = args[1] if len(args) > 1 else kwargs.get("offsets")
        if offsets is not None and not _are_offsets(offsets, len(ids)):
            raise BadInputError(
                f"takes offsets that begin at 0, rise, and stay within its {len(ids)} "
                "ids. The random inputs of the safety check do not follow that rule: "
                "call the module with ids [B, L] and compute the offsets in its forward"
            )
        if ids.dim() != 2 and offsets is None:
            raise BadInputError(
                "takes ids [B, L], or ids [N] with offsets [B], "
                f"got ids of shape {list(ids.shape)}"
            )
        reason = ids_out_of_range(ids, layer.num_embeddings)
        if reason:
            raise BadInputError(reason)

    def saved_activations(self, layer: nn.EmbeddingBag, args: Any, kwargs: Any) -> Bags:
        names = ("input", "offsets", "per_sample_weights")
        given = dict(zip(names, args, strict=False)) | kwargs
        ids, inside, scales = _padded(layer, **given)
        if layer.padding_idx is not None:
            inside = inside & (ids != layer.padding_idx)
        if layer.mode == "max":
            return _winners(layer, ids, inside)
        scales = scales * inside
        if layer.mode == "mean":
            scales = scales / inside.sum(1, keepdim=True).clamp(min=1)
        return ids, scales

    def per_sample_gradients(
        self, layer: nn.EmbeddingBag, activations: Bags, backprops: Tensor
    ) -> dict[str, Tensor]:
        ids, scales = activations
        batch, (rows, width) = len(ids), layer.weight.shape
        gradients = backprops.new_zeros(batch, rows, width)
        if layer.mode == "max":
            gradients.scatter_(1, ids.unsqueeze(1), (scales * backprops).unsqueeze(1))
        else:
            gradients += _counts(ids, scales, rows).unsqueeze(2) * backprops[:, None]
        return {"weight": gradients}

    def refusal(self, layer: nn.EmbeddingBag) -> str:
        return table_refusal(layer)


def _are_offsets(offsets: Tensor, ids: int) -> bool:
    """Returns True if ``offsets`` are valid offsets of bags among ``ids`` ids."""
    ends = torch.cat([offsets, offsets.new_tensor([ids])])
    return not len(offsets) or (int(offsets[0]) == 0 and bool((ends.diff() >= 0).all()))


def _padded(
    layer: nn.EmbeddingBag,
    input: Tensor,
    offsets: Tensor | None = None,
    per_sample_weights: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns ids, a mask that is True for ids, and the ids' weights, [B, L] each."""
    scales = per_sample_weights
    scales = layer.weight.new_ones(input.shape) if scales is None else scales.detach()
    if input.dim() == 2:
        return input, torch.ones_like(input, dtype=torch.bool), scales
    offsets = input.new_zeros(1) if offsets is None else offsets
    ends = torch.cat([offsets, offsets.new_tensor([len(input)])])
    if layer.include_last_offset:
        ends = offsets
    starts, lengths = ends[:-1], ends.diff()
    longest = int(lengths.max()) if len(lengths) else 0
    offsets_in_bag = torch.arange(longest, device=input.device)
    inside = offsets_in_bag < lengths.unsqueeze(1)
    index = (starts.unsqueeze(1) + offsets_in_bag) * inside
    return input[index] * inside, inside, scales[index]


def _winners(layer: nn.EmbeddingBag, ids: Tensor, inside: Tensor) -> Bags:
    """Returns the id with the largest entry in each of the d dimensions."""
    width = layer.embedding_dim
    if ids.shape[1] == 0:
        return ids.new_zeros(len(ids), width), layer.weight.new_zeros(len(ids), width)
    rows = layer.weight.detach()[ids].masked_fill(~inside.unsqueeze(2), -torch.inf)
    winners = ids.gather(1, rows.argmax(1))
    has_id = inside.any(1, keepdim=True).expand(-1, width)
    return winners * has_id, has_id.to(rows.dtype)


def _counts(ids: Tensor, scales: Tensor, rows: int) -> Tensor:
    """Returns the total scale of every id, [B, V]."""
    return scales.new_zeros(len(ids), rows).scatter_add_(1, ids, scales)
