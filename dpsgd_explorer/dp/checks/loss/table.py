"""The operations of autograd that are known to keep the records of a batch apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dpsgd_explorer.dp.checks.loss import elementwise, kernels, shapes
from dpsgd_explorer.dp.checks.loss.operation import Operation
from dpsgd_explorer.dp.checks.loss.states import State

Handler = Callable[[Operation], State]

_NAMES: Mapping[Handler, str] = {
    elementwise.nonlinear: (
        "Exp0 Expm10 Log0 Log1P0 Log20 Log100 Sigmoid0 LogSigmoid0 Tanh0 Relu0 Gelu0 "
        "Silu0 Softplus0 Elu0 LeakyRelu0 Hardtanh0 Sqrt0 Rsqrt0 Reciprocal0 Sin0 Cos0 "
        "Erf0 Cosh0 Sinh0 Clamp1 ClampMin0 ClampMax0 NanToNum0 Abs0 Pow0"
    ),
    elementwise.linear: "Neg0 Clone0 ToCopy0 Alias0 Add1 Sub1 Rsub1",
    elementwise.softmax: "LogSoftmax0 Softmax0",
    elementwise.add: "Add0 Sub0 Rsub0",
    elementwise.multiply: "Mul0",
    elementwise.divide: "Div0",
    elementwise.scale: "Mul1 Div1",
    elementwise.larger: "Maximum0 Minimum0",
    elementwise.fill: "MaskedFill0",
    elementwise.choose: "Where0",
    elementwise.inner_product: "Bmm0",
    elementwise.gather: "Gather0",
    elementwise.index: "Index0",
    shapes.reshape: (
        "View0 UnsafeView0 ReshapeAlias0 Unsqueeze0 Squeeze0 Squeeze1 Squeeze2"
    ),
    shapes.transpose: "Transpose0",
    shapes.transpose_matrix: "T0",
    shapes.permute: "Permute0",
    shapes.cut: "Slice0 Select0 Split0 SplitWithSizes0 Unbind0",
    shapes.total: "Sum0 Mean0",
    shapes.partial_total: "Sum1 Mean1",
    shapes.fold: (
        "Logsumexp0 Amax0 Amin0 Max0 Min0 Norm1 LinalgVectorNorm0"  # along dimensions
    ),
    shapes.expand: "Expand0",
    shapes.stack: "Stack0 Cat0",
    kernels.regression: (
        "MseLoss0 BinaryCrossEntropy0 BinaryCrossEntropyWithLogits0 SmoothL1Loss0 "
        "HuberLoss0 SoftMarginLoss0"
    ),
    kernels.multi_class: "MultiMarginLoss0 MultilabelMarginLoss0",
    kernels.negative_log_likelihood: "NllLoss0 NllLoss2D0",
    kernels.connectionist: "CtcLoss0",
}

#: {name of the node: handler}; an operation without a handler is reported.
HANDLERS: Mapping[str, Handler] = {
    f"{name[:-1]}Backward{name[-1]}": handler
    for handler, names in _NAMES.items()
    for name in names.split()
}
