"""Mutations of the rules of recurrent layers and of attention."""

import torch
from torch import nn

from dpsgd_explorer.dp.backends.lstm import TorchSteps
from dpsgd_explorer.dp.layers import (
    attention,
    lstm_cell,
    recurrent_cells,
    recurrent_gates,
    round_off,
)
from tests.dp.mutations.planting import alter, wrap
from tests.dp.mutations.rule_changes import (
    NO_BIAS,
    broken,
    every_way,
    method,
    pinned,
    with_recorder,
)


def recurrent():
    def one_step(real, rule, layer, activations, backprops):
        found = real(rule, layer, activations, backprops)
        biases = {name for name in found if name.startswith("bias")}
        return found | dict.fromkeys(biases, backprops[:, 0])

    def one_candidate(real, layer, backprops):
        both = real(layer, backprops)
        return both[1], both[1]

    def no_reset(real, cell, *gradients):
        gates, *others = real(cell, *gradients)
        width = gates.shape[2] // 4
        gates[..., 2 * width : 3 * width] = gates[..., 3 * width :]
        return gates, *others

    def not_carried(real, cell, *gradients):
        cell.keep = lambda t, new, old: torch.zeros_like(new)
        return real(cell, *gradients)

    def memory_not_carried(real, steps, *gradients):
        return torch.zeros_like(real(steps, *gradients))

    def forget_slope(real, cell, *gradients):
        forget = cell._gates.chunk(4, 2)[1].clone()
        gates, *others = real(cell, *gradients)
        gates.chunk(4, 2)[1].div_(1 - forget)
        return gates, *others

    def no_later_steps(real, cell, outputs, h, c):
        found = real(cell, outputs, h, c)
        cell.projected_gradients = outputs
        return found

    rule, cells = recurrent_gates.GatesRule, recurrent_cells
    first_input = wrap(round_off.Gram.plus, lambda real, gram, other: gram)
    rnn, gru, lstm = every_way("RNN"), every_way("GRU"), every_way("LSTM")
    return {
        "RNN": broken(
            rnn,
            {
                "no biases in the ghost norm": NO_BIAS,
                "no hidden weights in the norm": first_input,
                "bias of one step": wrap(rule.per_sample_gradients, one_step),
            },
        ),
        "GRU": broken(
            gru,
            {
                "one candidate for both maps": wrap(
                    recurrent_gates.gates_of, one_candidate
                ),
                "reset gate forgotten": wrap(cells.GRUCell.back, no_reset),
                "state not carried back": wrap(cells.GRUCell.back, not_carried),
            },
        ),
        "LSTM": broken(
            lstm,
            {
                "slope of the forget gate": wrap(lstm_cell.LSTMCell.back, forget_slope),
                "memory not carried back": wrap(
                    TorchSteps._backward, memory_not_carried
                ),
                "projection without later steps": wrap(
                    lstm_cell.LSTMCell.back, no_later_steps
                ),
            },
        ),
    }


def attentions():
    def first_rows(layer, names, *, stop=None, start=0, **rest):
        stop = None if stop is None else stop - start
        return part(layer, names, stop=stop, **rest)

    def of_values(recorder):
        return lambda layer, name: recorder.expanded(layer, "bias_v")

    def samples_first(recorder):
        return lambda part, inputs, batch_dim=0: recorder.linear(part, inputs)

    part, test = attention.LayerPart, every_way("MultiheadAttention")
    forward = method(nn.MultiheadAttention, "forward")
    return broken(
        test,
        {
            "q, k and v share rows": alter(attention, LayerPart=first_rows),
            "key's row from the value's": with_recorder(
                attention._with_added_rows, expanded=of_values
            ),
            "joint bias in the wrong third": (
                wrap(attention._with_bias, lambda real, *args: real(*args[:-1], 0)),
                pinned("keys_of_another_width"),
            ),
            "positions for samples": with_recorder(forward, linear=samples_first),
        },
    )
