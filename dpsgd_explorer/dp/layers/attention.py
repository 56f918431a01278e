"""Rule for ``nn.MultiheadAttention``.

The parameters belong to four linear maps (queries, keys, values, output) inside one
function of torch that no hook reaches, and to two rows that may be added to every
sequence.  The forward of this module computes equal outputs and records a call for each
map.  Three of the maps are rows of one weight.

Source: Vaswani et al. (2017), arXiv:1706.03762, section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpsgd_explorer.dp.layers.base import BadInputError
from dpsgd_explorer.dp.layers.rewrite import CallRecorder, LayerPart, Rewrite

ARGUMENTS = signature(nn.MultiheadAttention.forward)


class MultiheadAttentionRewrite(Rewrite[nn.MultiheadAttention]):
    """Inputs and outputs [B, T, E], or [T, B, E] without ``batch_first``."""

    parameter_names: ClassVar[tuple[str, ...]] = (
        "in_proj_weight",
        "in_proj_bias",
        "q_proj_weight",
        "k_proj_weight",
        "v_proj_weight",
        "bias_k",
        "bias_v",
    )
    includes_children: ClassVar[bool] = True

    def forward(
        self,
        layer: nn.MultiheadAttention,
        original: Callable[..., Any],
        recorder: CallRecorder,
        args: Any,
        kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        bound = ARGUMENTS.bind(layer, *args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        inputs = [given[name] for name in ("query", "key", "value")]
        q, k, v = _projected(layer, recorder, _samples_first(layer, recorder, inputs))
        k, v, added = _with_added_rows(layer, recorder, k, v)
        mask = _mask(layer, given, added, q)
        q, k, v = (_by_head(layer, part) for part in (q, k, v))
        attended, weights = _attend(layer, q, k, v, mask, given["need_weights"])
        out = LayerPart(layer, _names(layer.out_proj, "out_proj."), kind="output")
        attended = attended.permute(2, 0, 1, 3).flatten(2)  # [T, B, E], as in torch
        output = recorder.linear(out, attended, batch_dim=1)
        if weights is not None and given["average_attn_weights"]:
            weights = weights.mean(1)
        return output.transpose(0, 1) if layer.batch_first else output, weights


def _samples_first(
    layer: nn.MultiheadAttention, recorder: CallRecorder, inputs: list[Tensor]
) -> list[Tensor]:
    """Returns query, key and value as [B, T, E]; equal inputs remain one object."""
    for values in inputs:
        if values.dim() != 3 or values.is_nested:
            raise BadInputError(
                f"takes a batch of 3 dimensions, got shape {list(values.shape)}"
            )
        if values.shape[0 if layer.batch_first else 1] != recorder.batch_size:
            raise BadInputError(
                f"must see one row for each of the {recorder.batch_size} samples, got "
                f"shape {list(values.shape)} with batch_first={layer.batch_first}"
            )
    # Inputs are compared by identity, because self-attention, with one input three
    # times, needs only one product.
    transposed = {
        id(values): values if layer.batch_first else values.transpose(0, 1)
        for values in inputs
    }
    return [transposed[id(values)] for values in inputs]


def _projected(
    layer: nn.MultiheadAttention, recorder: CallRecorder, inputs: list[Tensor]
) -> list[Tensor]:
    """Returns q, k and v, [B, T, E] each."""
    width = layer.embed_dim
    bias = {"bias": "in_proj_bias"} if layer.in_proj_bias is not None else {}
    if layer.in_proj_weight is not None and inputs[0] is inputs[1] is inputs[2]:
        part = LayerPart(layer, {"weight": "in_proj_weight", **bias}, kind="q, k, v")
        return list(recorder.linear(part, inputs[0]).chunk(3, -1))
    outputs = []
    for i, name in enumerate(("q", "k", "v")):
        if layer.in_proj_weight is not None:
            names, rows = (
                {"weight": "in_proj_weight", **bias},
                (i * width, (i + 1) * width),
            )
            part = LayerPart(layer, names, start=rows[0], stop=rows[1], kind=name)
            outputs.append(recorder.linear(part, inputs[i]))
        else:
            part = LayerPart(layer, {"weight": f"{name}_proj_weight"}, kind=name)
            outputs.append(
                _with_bias(layer, recorder, recorder.linear(part, inputs[i]), i)
            )
    return outputs


def _with_bias(
    layer: nn.MultiheadAttention, recorder: CallRecorder, values: Tensor, i: int
) -> Tensor:
    """Adds a third of the joint bias, expanded to one copy per sample."""
    if layer.in_proj_bias is None:
        return values
    width = layer.embed_dim
    part = slice(i * width, (i + 1) * width)
    return values + recorder.expanded(layer, "in_proj_bias")[:, None, part]


def _with_added_rows(
    layer: nn.MultiheadAttention, recorder: CallRecorder, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, int]:
    """Appends the rows of ``add_bias_kv`` and ``add_zero_attn``, and counts them."""
    added = 0
    if layer.bias_k is not None:
        k = torch.cat([k, recorder.expanded(layer, "bias_k")[:, 0]], 1)
        v = torch.cat([v, recorder.expanded(layer, "bias_v")[:, 0]], 1)
        added += 1
    if layer.add_zero_attn:
        k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
        added += 1
    return k, v, added


def _mask(
    layer: nn.MultiheadAttention, given: dict[str, Any], added: int, like: Tensor
) -> Tensor | None:
    """Returns the sum of the masks, broadcastable to the scores [B, heads, T, S]."""
    attention, padding = given["attn_mask"], given["key_padding_mask"]
    if given["is_causal"] and attention is None:
        raise BadInputError(
            "needs attn_mask together with is_causal, which is only a hint"
        )
    total: Tensor | None = None
    if attention is not None:
        attention = F.pad(_as_scores(attention, like), (0, added))
        if attention.dim() == 3:
            shape = len(like), layer.num_heads, *attention.shape[1:]
            attention = attention.reshape(shape)
        total = attention
    if padding is not None:
        padding = F.pad(_as_scores(padding, like), (0, added))[:, None, None]
        total = padding if total is None else total + padding
    return total


def _as_scores(mask: Tensor, like: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        return mask.to(like.dtype)
    scores = torch.zeros(mask.shape, dtype=like.dtype, device=like.device)
    return scores.masked_fill(mask, -torch.inf)


def _by_head(layer: nn.MultiheadAttention, values: Tensor) -> Tensor:
    """Returns [B, heads, T, E / heads]."""
    split = *values.shape[:2], layer.num_heads, layer.head_dim
    return values.reshape(split).transpose(1, 2)


class _Attended(NamedTuple):
    values: Tensor
    weights: Tensor | None


def _attend(
    layer: nn.MultiheadAttention,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    need_weights: bool,
) -> _Attended:
    """Returns attended values [B, heads, T, E / heads], and weights if needed."""
    dropout = layer.dropout if layer.training else 0.0
    if not need_weights:
        attended = F.scaled_dot_product_attention(q, k, v, mask, dropout)
        return _Attended(attended, None)
    scores = (q * layer.head_dim**-0.5) @ k.transpose(2, 3)
    if mask is not None:
        scores = scores + mask
    weights = F.dropout(scores.softmax(-1), dropout)
    return _Attended(weights @ v, weights)


def _names(linear: nn.Linear, prefix: str) -> dict[str, str]:
    return {name: f"{prefix}{name}" for name, _ in linear.named_parameters()}
