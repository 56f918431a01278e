"""Each layer rule, and what it stands on, broken on purpose in three ways or more.

All are bugs that a rule has had somewhere: a bias forgotten in a norm, positions or
uses added after squaring, a mode or an index that is ignored.
"""

from tests.dp.mutations.breaking import broken, every_way, pinned, use
from tests.dp.mutations.rule_parts import GRADIENTS, PARTS

PADDING_MODE = (
    'mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode'
)
GROUPS = "norms = norms.view(len(backprops), layer.groups).sum(1)"
LARGEST_GROUP = "norms = norms.view(len(backprops), layer.groups).amax(1)"
STANDARDISED = "standardised * backprops"
RAW = "activations * backprops"

LAYERS = {
    "Linear": broken(
        "layers/linear.py",
        every_way("Linear"),
        ("no bias in the ghost norm", "x_gram = x_gram.plus_one()", "pass"),
        (
            "positions added after squaring",
            "return gram_norms(x_gram, ",
            "alone = x_gram.values * torch.eye(x.shape[1]).to(x)\n"
            "        return gram_norms(x_gram._replace(values=alone), ",
        ),
        (
            "samples not weighted",
            "scaled = scale_samples(backprops, weights).flatten(0, -2)",
            "scaled = backprops.flatten(0, -2)",
        ),
        (
            "bias of one position",
            'gradients["bias"] = g.sum(1)',
            'gradients["bias"] = g[:, 0]',
        ),
    ),
    "Conv2d": broken(
        "layers/conv2d.py",
        every_way("Conv2d"),
        ("padding mode ignored", PADDING_MODE, 'mode = "constant"'),
        ("one group in the norm", GROUPS, LARGEST_GROUP),
        ("dilation of patches ignored", "step_h * dilation_h,", "step_h,"),
        (
            "bias not weighted",
            "addmv_(sum_over_positions(backprops).t(), weights)",
            "addmv_(sum_over_positions(backprops).t(), 0 * weights + 1)",
        ),
        (
            "patches not in the weight's order",
            "in_order = split.transpose(2, 3).flatten(2)",
            "in_order = split.flatten(2)",
            use("Mirrored", "ghost"),
        ),
    ),
    "Conv1d, Conv3d": broken(
        "layers/conv_nd.py",
        every_way("Conv1d"),
        ("padding mode ignored", PADDING_MODE, 'mode = "constant"'),
        ("one group in the norm", GROUPS, LARGEST_GROUP, every_way("Conv3d")),
        (
            "dilation of patches ignored",
            "strides += [step[2 + i] * layer.dilation[i] for i in range(dims)]",
            "strides += [step[2 + i] for i in range(dims)]",
        ),
        (
            "bias of one position",
            'gradients["bias"] = sum_over_positions(backprops)',
            'gradients["bias"] = backprops.flatten(2)[..., 0]',
        ),
    ),
    "ConvTranspose": broken(
        "layers/conv_nd.py",
        every_way("ConvTranspose2d"),
        ("padding ignored", "F.pad(g, sides)", "g"),
        (
            "padding in the wrong dimension",
            "for p in reversed(padding)",
            "for p in padding",
            every_way("ConvTranspose3d"),
        ),
        (
            "samples not weighted",
            "rows = scale_samples(rows, weights)",
            "rows = rows * 1",
        ),
    ),
    "convolution gradients": broken(
        "layers/conv_gradients.py",
        f"{GRADIENTS}test_each_way_gives_autograds_gradients[rows]",
        (
            "stride ignored between kernel rows",
            "start, phase = divmod(row * windows.dilation[0], step)",
            "start, phase = row * windows.dilation[0] // step, 0",
        ),
        (
            "kernel rows upside down",
            "out=gradients[:, row]",
            "out=gradients[:, -1 - row]",
        ),
        (
            "positions and kernel swapped",
            "*(s * d for s, d in zip(steps, windows.dilation, strict=True)),",
            "*(s * d for s, d in zip(steps, windows.stride, strict=True)),",
            f"{GRADIENTS}test_each_way_gives_autograds_gradients[patches]",
        ),
    ),
    "Embedding": broken(
        "layers/embedding.py",
        every_way("Embedding"),
        ("padding row trained", "g = g.masked_fill(", "_ = g.masked_fill("),
        (
            "repeated ids squared one by one",
            "pairs, where = torch.unique(_sample_ids(ids, rows), return_inverse=True)",
            "pairs = _sample_ids(ids, rows); where = torch.arange(len(pairs))",
            pinned("repeated_ids"),
        ),
        (
            "repeated ids overwrite each other",
            'sums["weight"].index_add_(0, ids.flatten(), scaled)',
            'sums["weight"][ids.flatten()] += scaled',
        ),
        (
            "samples share rows",
            "return (samples.unsqueeze(1) * rows + ids).flatten()",
            "return (samples.unsqueeze(1) * 0 + ids).flatten()",
        ),
    ),
    "EmbeddingBag": broken(
        "layers/embedding_bag.py",
        every_way("EmbeddingBag"),
        (
            "duplicates in a bag counted once",
            "(ids.unsqueeze(1) == ids.unsqueeze(2))",
            "torch.eye(ids.shape[1], dtype=torch.bool).expand(len(ids), -1, -1)",
        ),
        (
            "a mean taken for a sum",
            "scales = scales / inside.sum(1, keepdim=True).clamp(min=1)",
            "scales = scales / 1.0",
            pinned("bags_of_other_lengths"),
        ),
        ("padding id counted", "(ids != layer.padding_idx)", "(ids == ids)"),
        ("least instead of largest", "rows.argmax(1)", "rows.argmin(1)"),
    ),
    "LayerNorm": broken(
        "layers/normalization.py",
        every_way("LayerNorm"),
        (
            "another eps",
            "F.layer_norm(x, layer.normalized_shape, eps=layer.eps)",
            "F.layer_norm(x, layer.normalized_shape, eps=0.1)",
        ),
        ("inputs not standardised", STANDARDISED, RAW),
        (
            "mean over positions",
            "return values.sum(positions)",
            "return values.mean(positions)",
        ),
    ),
    "RMSNorm": broken(
        "layers/normalization.py",
        every_way("RMSNorm"),
        (
            "eps ignored",
            "F.rms_norm(x, layer.normalized_shape, eps=layer.eps)",
            "F.rms_norm(x, layer.normalized_shape)",
        ),
        ("inputs not standardised", STANDARDISED, RAW),
        (
            "inputs centred",
            "F.rms_norm(x,",
            "F.rms_norm(x - x.mean(-1, True),",
        ),
    ),
    "GroupNorm": broken(
        "layers/normalization.py",
        every_way("GroupNorm"),
        ("one group", "layer.num_groups", "1"),
        ("inputs not standardised", STANDARDISED, RAW),
        (
            "mean over positions",
            "return sum_over_positions(values)",
            "return values if values.dim() == 2 else values.flatten(2).mean(2)",
        ),
    ),
    "InstanceNorm": broken(
        "layers/normalization.py",
        every_way("InstanceNorm2d"),
        ("eps ignored", "F.instance_norm(x, eps=layer.eps)", "F.instance_norm(x)"),
        ("inputs not standardised", STANDARDISED, RAW),
        (
            "bias for weight",
            'gradients["bias"] = self.summed(layer, backprops)',
            'gradients["bias"] = self.summed(layer, activations * backprops)',
        ),
    ),
    "PReLU": broken(
        "layers/normalization.py",
        every_way("PReLU"),
        ("the wrong side", "clamp(max=0.0)", "clamp(min=0.0)"),
        ("slope for input", "activations.clamp(max=0.0) *", "(activations < 0) *"),
        (
            "one slope not summed",
            "sum_over_positions(slopes.unsqueeze(1))",
            "slopes.flatten(1)[:, :1]",
        ),
    ),
}

RULES = LAYERS | PARTS

QUICK = (
    "Linear",
    "Conv2d",
    "Embedding",
    "GroupNorm",
    "MultiheadAttention",
    "bare parameters",
    "shared parameters",
    "where the samples are",
)
"""Rules of which the first mutation is tried in every run of the tests."""
