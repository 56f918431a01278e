"""Layer rule for ``nn.Embedding``: y_t = W[id_t], a linear layer on one-hot inputs.

Row v of sample i's gradient is the sum of g_t over the positions with id_t = v, so the
squared norm is sum_v ||sum_{t: id_t = v} g_t||^2.  This needs sums over each sample's
repeated ids, and no V by d gradient.  The padding row is not trained: its positions
add 0.

Worked: ids (5, 7, 5) and g = (1, 0), (0, 2), (1, 1).  Row 5 is (2, 1), row 7 is (0, 2):
the squared norm is 5 + 4 = 9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.rounding import gamma, vector_norms
from dpsgd_explorer.dp.layers.base import LayerRule, scale_samples
from dpsgd_explorer.dp.layers.cross_terms import OuterProduct
from dpsgd_explorer.dp.layers.ghost_norm import GhostNorm
from dpsgd_explorer.dp.layers.round_off import upper_norms


class EmbeddingNorm(GhostNorm[nn.Embedding, Tensor]):
    """The ghost norm of an embedding.

    The engine always chooses it, because gathering T rows never costs more than filling
    V rows.
    """

    has_ids: ClassVar[bool] = True

    def squared_norms(
        self, layer: nn.Embedding, activations: Tensor, backprops: Tensor
    ) -> Tensor:
        ids, g = _positions(layer, activations, backprops)
        positions, rows = ids.shape[1], layer.num_embeddings
        if positions == 1:
            return vector_norms(g[:, 0]).square_()
        pairs, where = backend_of(ids).distinct(_sample_ids(ids, rows))
        vectors = g.flatten(0, 1)
        sums = g.new_zeros(len(pairs), g.shape[-1])
        sums.index_add_(0, where, vectors)  # one row per (sample, id)
        added = g.new_zeros(len(pairs)).index_add_(0, where, vector_norms(vectors))
        squares = upper_norms(vector_norms(sums), added, positions).double().square_()
        norms = squares.new_zeros(len(ids)).index_add_(0, pairs // rows, squares)
        return norms.to(g.dtype)

    def add_weighted(
        self,
        layer: nn.Embedding,
        activations: Tensor,
        backprops: Tensor,
        weights: Tensor,
        sums: Mapping[str, Tensor],
    ) -> None:
        ids, g = _positions(layer, activations, backprops)
        scaled = scale_samples(g, weights).flatten(0, 1)
        sums["weight"].index_add_(0, ids.flatten(), scaled)

    def outer_products(
        self, layer: nn.Embedding, activations: Tensor, backprops: Tensor
    ) -> dict[str, OuterProduct]:
        return {"weight": OuterProduct(*_positions(layer, activations, backprops))}

    def inflation(
        self, layer: nn.Embedding, activations: Tensor, backprops: Tensor
    ) -> float:
        return 2 * gamma(activations.shape[1:].numel(), torch.float32)


class EmbeddingRule(LayerRule[nn.Embedding]):
    """Ids [B] or [B, ...], outputs [B, ..., d]."""

    reads_parameters: ClassVar[bool] = False
    ghost_norm: ClassVar[EmbeddingNorm] = EmbeddingNorm()
    parameter_names: ClassVar[tuple[str, ...]] = ("weight",)

    def per_sample_gradients(
        self, layer: nn.Embedding, activations: Tensor, backprops: Tensor
    ) -> dict[str, Tensor]:
        ids, g = _positions(layer, activations, backprops)
        rows, width = layer.weight.shape
        gradients = g.new_zeros(len(ids) * rows, width)
        gradients.index_add_(0, _sample_ids(ids, rows), g.flatten(0, 1))
        return {"weight": gradients.view(len(ids), rows, width)}

    def wrong_input(self, layer: nn.Embedding, inputs: Tensor) -> str:
        if inputs.dim() == 0:
            return "takes a batch of ids [B, ...]"
        return ids_out_of_range(inputs, layer.num_embeddings)

    def position_dims(self, layer: nn.Embedding, inputs: Tensor) -> int:
        return inputs.dim()

    def refusal(self, layer: nn.Embedding) -> str:
        return table_refusal(layer)


def table_refusal(table: nn.Embedding | nn.EmbeddingBag) -> str:
    """Returns why a table's gradients or rows depend on the batch; "" if not."""
    if table.scale_grad_by_freq:
        return "scale_grad_by_freq divides by how often the batch has an id"
    if table.max_norm is not None:
        return "max_norm rewrites the rows that a batch uses, without noise"
    return ""


def ids_out_of_range(ids: Tensor, rows: int) -> str:
    """Returns the range of ids if it exceeds ``rows`` rows, as text; else ""."""
    # Kernels of asynchronous devices check ids themselves.
    if not ids.numel() or backend_of(ids).is_async:
        return ""
    least, most = (int(end) for end in ids.aminmax())
    if least >= 0 and most < rows:
        return ""
    return f"takes ids from 0 to {rows - 1}, got {least} to {most}"


def _positions(layer: nn.Embedding, ids: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Returns ids [B, T] and g [B, T, d], with g = 0 at the padding id."""
    between = ids.shape[1:].numel()
    ids, g = ids.reshape(len(ids), between), g.reshape(len(g), between, g.shape[-1])
    if layer.padding_idx is not None:
        g = g.masked_fill((ids == layer.padding_idx).unsqueeze(-1), 0.0)
    return ids, g


def _sample_ids(ids: Tensor, rows: int) -> Tensor:
    """Returns i * rows + id for every position of sample i, [B T]."""
    samples = torch.arange(len(ids), device=ids.device)
    return (samples.unsqueeze(1) * rows + ids).flatten()
