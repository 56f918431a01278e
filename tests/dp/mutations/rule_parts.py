"""Mutations of rules that stand in for a forward, and of what all rules stand on."""

from tests.dp.mutations.breaking import as_many, broken, every_way, pinned, use

GRADIENTS = "layers/test_convolution_gradients.py::"
GHOST = "layers/test_ghost_norm.py::"
LONGEST = "clipping/test_longest_contribution.py::"

PARTS = {
    "RNN": broken(
        "layers/recurrent_gates.py",
        every_way("RNN"),
        ("no biases in the ghost norm", "found.plus_one()", "found"),
        (
            "no hidden weights in the norm",
            "gram_norms(grams[0].plus(grams[1]),",
            "gram_norms(grams[0],",
        ),
        (
            "bias of one step",
            'gradients[f"bias_{name}"] = g.sum(1)',
            'gradients[f"bias_{name}"] = g[:, 0]',
        ),
    ),
    "GRU": {
        **broken(
            "layers/recurrent_gates.py",
            every_way("GRU"),
            (
                "one candidate for both maps",
                "return torch.cat([shared, n_x], 2),",
                "return backprops[..., : 3 * width],",
            ),
        ),
        **broken(
            "layers/recurrent_cells.py",
            every_way("GRU"),
            (
                "reset gate forgotten",
                "torch.mul(d_nx, r, out=d_nh)",
                "d_nh.copy_(d_nx)",
            ),
            (
                "state not carried back",
                "@ self.weight_hh + total * z",
                "@ self.weight_hh",
            ),
        ),
    },
    "LSTM": broken(
        "layers/recurrent_cells.py",
        every_way("LSTM"),
        ("slope of the forget gate", "f * (1 - f), out=df", "f, out=df"),
        (
            "memory carried back whole",
            "self.keep(t, c * f, before)",
            "self.keep(t, c, before)",
        ),
        (
            "projection without later steps",
            "total = torch.add(outputs[t], h, out=self.projected_gradients[t])",
            "total = outputs[t] + h; self.projected_gradients[t] = outputs[t]",
        ),
    ),
    "MultiheadAttention": broken(
        "layers/attention.py",
        every_way("MultiheadAttention"),
        ("q, k and v share rows", "start=rows[0], stop=rows[1]", "start=0, stop=width"),
        (
            "key's row from the value's",
            'recorder.expanded(layer, "bias_k")',
            'recorder.expanded(layer, "bias_v")',
        ),
        (
            "joint bias in the wrong third",
            "part = slice(i * width, (i + 1) * width)",
            "part = slice(0, width)",
            pinned("keys_of_another_width"),
        ),
        ("positions for samples", "attended, batch_dim=1)", "attended, batch_dim=0)"),
    ),
    "any module": broken(
        "layers/functional.py",
        use("Bare", "instantiate"),
        (
            "parameters not handed out",
            "with _handed_out(self._layer, copies), gate",
            "with gate",
        ),
        (
            "modules inside mapped too",
            "with _handed_out(self._layer, copies), gate.opened(self._layer):",
            "with _handed_out(self._layer, copies):",
        ),
        (
            "samples in reverse",
            "name: recorder.expanded(layer, name)",
            "name: recorder.expanded(layer, name).flip(0)",
        ),
    ),
    "bare parameters": {
        **broken(
            "layers/rewrite.py",
            use("Bare", "instantiate"),
            (
                "mean over the batch",
                '{"value": backprops}',
                '{"value": backprops.mean(0, keepdim=True).expand_as(backprops)}',
            ),
            (
                "samples in reverse",
                '{"value": backprops}',
                '{"value": backprops.flip(0)}',
            ),
        ),
        **broken(
            "engines/recording.py",
            use("Bare", "instantiate"),
            (
                "copies not watched",
                "return self._recording.attach(key, copies)",
                "return copies",
            ),
        ),
    },
    "shared parameters": {
        **broken(
            "layers/outer_products.py",
            use("Twice", "ghost"),
            (
                "cross terms once",
                "doubled=j < i",
                "doubled=False",
            ),
            (
                "no cross terms",
                "enumerate(uses[: i + 1])",
                "enumerate(uses[i : i + 1], i)",
            ),
            (
                "tied ids never meet",
                "return picked * inside.unsqueeze(2)",
                "return picked * 0",
                use("LanguageModel", "ghost"),
            ),
        ),
        **broken(
            "engines/layer_calls.py",
            use("SharedCell", "instantiate"),
            ("the last use only", "else whole.add_(before)", "else whole"),
            (
                "the sum not of what was measured",
                "if not self._instantiates:\n            for call",
                "if self._calls:\n            for call",
                LONGEST + "test_cancelling_positions_add_no_more_than_c[tied]",
            ),
        ),
    },
    "what rounding hides": broken(
        "layers/round_off.py",
        LONGEST + "test_the_sample_that_once_was_half_as_long_again_is_not",
        ("no bound of the Gram products", "error.mul(SLACK)", "error.mul(0.0)"),
        (
            "no bound of the sum",
            "alpha=2 * SLACK * gamma(",
            "alpha=0 * SLACK * gamma(",
            LONGEST + "test_cancelling_positions_add_no_more_than_c[Embedding]",
        ),
        (
            "lengths as they are found",
            "norms.mul_(1 + gamma(terms, norms.dtype) / 2)",
            "norms",
            GHOST + "test_a_length_is_not_lost_in_one_long_addition[1000]",
        ),
        (
            "a length in one long addition",
            "LENGTH_BLOCK = 1024",
            "LENGTH_BLOCK = 2**30",
            GHOST + "test_a_length_is_not_lost_in_one_long_addition[1048577]",
        ),
    ),
    "where the samples are": broken(
        "engines/batch_dims.py",
        as_many("PositionsFirst"),
        (
            "one pass is enough",
            "return all(len(shape)",
            "return any(len(shape)",
            "engines/test_batch_dims.py",
        ),
        ("always first", "range(min(dims, len(shape)))", "range(1)"),
        (
            "never shared",
            "if may_share and _shared(seen):",
            "if False:",
            as_many("Places"),
        ),
    ),
    "memory layout": broken(
        "layers/base.py",
        f"{GRADIENTS}test_rows_and_sums_do_not_depend_on_the_order_in_memory",
        (
            "sums in memory order",
            "total.permute([d - 1 for d in order]).add_(row.view(ordered.shape[1:]))",
            "total.add_(row.view(total.shape))",
        ),
        (
            "weights squared",
            "total.view(-1).addmv_(sample_rows(gradient).t(), weights)",
            "total.view(-1).addmv_(sample_rows(gradient).t(), weights**2)",
        ),
        (
            "rows copied",
            "key=lambda d: -strides[d]",
            "key=lambda d: strides[d]",
            f"{GRADIENTS}test_a_gradient_in_another_order_is_not_copied",
        ),
    ),
}
